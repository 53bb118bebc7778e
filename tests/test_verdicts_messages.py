"""Messages that mean the same read the same."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bisect_bot.verdicts.messages import MAX_SIGNATURE, normalise, normalise_gpu_error, one_line

SAME = [
    (
        "failed to call OrtRun(). ERROR_CODE: 1, ERROR_MESSAGE: Non-zero status code returned while running Conv node."
        " Name:'/c/Conv_12' Status Message: Failed to run JSEP kernel",
        "Error: failed to call OrtRun(). ERROR_CODE: 6, ERROR_MESSAGE: Non-zero status code returned while running Conv"
        " node. Name:'Conv_nhwc_3' Status Message: Failed to run JSEP kernel",
    ),
    (
        "Can't create a session. ERROR_CODE: 2, ERROR_MESSAGE: /mnt/vss/_work/1/s/onnxruntime/core/graph/graph.cc:180"
        " common::Status onnxruntime::Graph::Resolve(const ResolveOptions &) This is an invalid model.",
        "Can't create a session. ERROR_CODE: 2, ERROR_MESSAGE: D:\\a\\onnxruntime\\core\\graph\\graph.cc:93 Status"
        " Graph::Resolve(ResolveOptions const &, std::function<void(int)>) const This is an invalid model.",
    ),
    ("TypeError: wasm3.getValue is not a function", "TypeError: e.getValue is not a function"),
    ("Cannot read properties of undefined (reading 'xa')", "Cannot read properties of undefined (reading 'b')"),
    (
        "RuntimeError: memory access out of bounds\n    at wasm://wasm/03a1f:f[12]:0x1a\n    at foo (a.js:1:2)",
        "RuntimeError: memory access out of bounds\n    at x (http://127.0.0.1:5/ort.webgpu.min.js:12:345)",
    ),
    (
        "failed to load http://localhost:1/ort-wasm-simd.jsep.wasm after 12.5ms in 1.20.1",
        "failed to load https://h/a?b=c after 3ms in 1.21.0-dev.20241105-abcdef1234",
    ),
    ("5362480", "8123456"),
    ("Buffer 0x7ffe12 of 1024 bytes, commit 6a295eb75b", "Buffer 0xab of 2048 bytes, commit d9ca84ef96"),
    (
        "2024-11-07 12:34:56.789 [E:onnxruntime:, x.cc:12 Run] bad",
        "2025-01-01 00:00:00.1 [E:onnxruntime:, x.cc:99 Run] bad",
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_failure_in_two_builds_reads_the_same(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)
    assert len(normalise(one)) > 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("while running Conv node", "while running ConvTranspose node"),
        ("while running Conv2d node", "while running Conv3d node"),
        ("Failed to find kernel for AveragePool(19)", "Failed to find kernel for MaxPool(12)"),
        ("type float16 is wrong", "type float32 is wrong"),
        ("e.getValue is not a function", "e.setValue is not a function"),
        ("memory access out of bounds", "out of memory"),
    ],
)
def test_different_failures_read_differently(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_the_words_and_the_operators_type_stay() -> None:
    message = '[WebGPU] Kernel "[AveragePool] /pool/7" failed. Error: unexpected shape [1,3,224,224]'
    assert "AveragePool" in normalise(message)
    assert "failed. Error: unexpected shape" in normalise(message)


def test_of_a_gpu_error_only_the_first_line_counts() -> None:
    one = "Error while parsing WGSL: :47:12 error: unresolved value 'foo'\n  let x = foo;\n          ^^^"
    other = "\nError while parsing WGSL: :51:2 error: unresolved value 'foo'\n  let y = foo * 2;"
    assert normalise_gpu_error(one) == normalise_gpu_error(other)
    assert "unresolved value 'foo'" in normalise_gpu_error(one)


@settings(deadline=None)
@given(st.text())
@example("\x1b[31mred\x1b[0m \x1b]8;;http://evil\x07link\u202e\n\tnext\r\x00")
def test_whatever_comes_from_outside_ends_on_one_printable_line(text: str) -> None:
    for line in (one_line(text), normalise(text), normalise_gpu_error(text)):
        assert len(line) <= MAX_SIGNATURE
        assert len(line.splitlines()) <= 1
        assert "\x1b" not in line
        line.encode()  # no lone surrogates: a journal and a report are UTF-8


def test_an_escape_sequence_goes_as_a_whole() -> None:
    assert one_line("\x1b[31mred\x1b[0m \x1b]8;;http://evil\x07link") == "red link"


@pytest.mark.parametrize("unit", ["a", "(", "0", "/a", "a.cc:1 f(", "_1", "x" * 50 + " ", "e.", "deadbee1-", "\x1b"])
def test_a_hostile_message_costs_little_time(unit: str) -> None:
    start = time.process_time()
    normalise(unit * 200_000)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("name", ["u32", "i32", "f16", "vec4<u32>"])
def test_the_types_of_a_shader_keep_their_width(name: str) -> None:
    assert normalise(f"cannot index type '{name}'") == f"cannot index type '{name}'"


def test_a_nodes_name_beside_its_operator_does_not_count() -> None:
    texts = (
        '[WebGPU] Kernel "[Conv] conv_token_1" failed. Error: x',
        '[WebGPU] Kernel "[Conv] _token_2" failed. Error: x',
    )
    assert len({normalise(text) for text in texts}) == 1
    assert "[Conv]" in normalise(texts[0])
