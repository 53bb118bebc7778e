"""What upstream's test runner prints is read back test by test; the texts are from real runs, shortened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bisect_bot.model import DataSet, Ending, Mismatch, Tensor
from bisect_bot.probes.upstream.output import parse_output
from bisect_bot.probes.upstream.sources import with_source
from bisect_bot.probes.upstream.values import actual_in, mismatches_in

CONNECTED = (
    "info TestRunnerCli.Run (4/4) Running karma to start test runner...\n\nSTART:\n"
    "\x1b[32m30 11 2026 20:01:02.309:INFO [launcher]: \x1b[39mStarting browser Chrome\n"
    "\x1b[32m30 11 2026 20:01:03.953:INFO [Chrome Headless 156.0.0.0 (Linux x86_64)]: \x1b[39m"
    "Connected on socket zEVl33PiifgeUZgCAAAB with id 46056035\n"
)

# 6a295eb75b (2024-11-07). Results come as they are there.
LATE_2024 = f"""{CONNECTED}\
  #OpTest# - bisect-bot.jsonc
    [webgpu]MatMul - case-0002 matmul tests with no attributes
      ✔ set-0002-0000 multiplies 3D tensors with M = 1 (slow: 0.472 secs)
LOG: '\x1b[31;40me\x1b[0m \x1b[35mValidator\x1b[0m 2026-11-30T20:01:06.790Z|abs/rel check failed-- index:7: \
actual=0,expected=137'
LOG: '\x1b[31;40me\x1b[0m \x1b[35mTestRunner\x1b[0m 2026-11-30T20:01:06.791Z|Tensor mismatch:\x20
ACTUAL: type=float32; dims=[2,2,2,1]; data=[9,43,77,111,0,0,0,0]
EXPECT: type=float32; dims=[2,2,2,1]; data=[9,43,11,53,77,111,95,137]'
      ✖ set-0002-0001 same ranks different broadcast small 1
      ✔ set-0002-0002 same ranks different broadcast larger 0 (slow: 0.421 secs)

Finished in 2.623 secs / 1.356 secs @ 20:01:07 GMT+0000 (Coordinated Universal Time)

SUMMARY:
✔ 2 tests completed
⚠ 2 tests slow
✖ 1 test failed

FAILED TESTS:
  #OpTest# - bisect-bot.jsonc
    [webgpu]MatMul - case-0002 matmul tests with no attributes
      ✖ set-0002-0001 same ranks different broadcast small 1
        Chrome Headless 156.0.0.0 (Linux x86_64)
      AssertionError: tensor data should match: expected false to be true
          at _TensorResultValidator.checkApiTensorResult (test/ort.test.js:43863:60)
          at async Context.<anonymous> (test/ort.test.js:46379:15)

undefined
"""

# 6a295eb75b in Electron 9.4.1.
UNREAD = f"""{CONNECTED}\
Electron 9.4.1 (Node 12.14.1) ERROR
  Uncaught SyntaxError: Unexpected token '{{'
  at test/ort.test.js:2:16

  SyntaxError: Unexpected token '{{'
\x1b[91m30 11 2026 23:29:27.691:ERROR [reporter.browserlabs]: \x1b[39m✖ Test Errored
"""

# The same revision on a busy machine: karma held all results back until its WebSocket was there.
HELD_BACK = f"""{CONNECTED}\
ERROR: '\x1b[1;31m2026-11-30 20:02:13.515300 [E:onnxruntime:, sequential_executor.cc:505 ExecuteKernel] Non-zero \
status code returned while running MatMul node. Name:'MatMul' Status Message: Failed to run JSEP kernel\x1b[m'
LOG: '\x1b[31;40me\x1b[0m \x1b[35mTestRunner\x1b[0m 2026-11-30T20:02:13.574Z|Tensor mismatch:\x20
ACTUAL: type=float32; dims=[1,2]; data=[2,4]
EXPECT: type=float32; dims=[2,1]; data=[2,4]'
LOG: '\x1b[31;40me\x1b[0m \x1b[35mTestRunner\x1b[0m 2026-11-30T20:02:13.600Z|Tensor mismatch:\x20
ACTUAL: type=int32; dims=[1,2]; data=[2,4]
EXPECT: type=int32; dims=[1,2]; data=[2,5]'
  #OpTest# - bisect-bot.jsonc
    [webgpu]NoSuch - case-0002 unknown op
      ✖ "before all" hook: Initialize Context for "set-0002-0000 a" (slow: 0.596 secs)
      ✖ "after all" hook: Dispose Context for "set-0002-0000 a"
    [webgpu]MatMul - case-0003 shape error
      ✖ set-0003-0000 b
      ✔ set-0003-0001 c
    [webgpu]Add - case-0004 wrong dims
      ✖ set-0004-0000 d
    [webgpu]Add - case-0005 ints
      ✖ set-0005-0000 e

Finished in 0.997 secs / 0.712 secs @ 20:02:13 GMT+0000 (Coordinated Universal Time)

SUMMARY:
✔ 1 test completed
✖ 5 tests failed

FAILED TESTS:
  #OpTest# - bisect-bot.jsonc
    [webgpu]NoSuch - case-0002 unknown op
      ✖ "before all" hook: Initialize Context for "set-0002-0000 a" (slow: 0.596 secs)
        Chrome Headless 156.0.0.0 (Linux x86_64)
      Error: the number 8796032 was thrown, throw an Error :)

      ✖ "after all" hook: Dispose Context for "set-0002-0000 a"
        Chrome Headless 156.0.0.0 (Linux x86_64)
      TypeError: Cannot read properties of undefined (reading 'release')
          at ProtoOpTestContext.dispose (test/ort.test.js:44192:30)

    [webgpu]MatMul - case-0003 shape error
      ✖ set-0003-0000 b
        Chrome Headless 156.0.0.0 (Linux x86_64)
      Error: [WebGPU] Kernel "[MatMul] MatMul" failed. Error: shared dimension does not match.
          at Object._OrtRun (dist/ort-wasm-simd-threaded.jsep.mjs:12:401)

    [webgpu]Add - case-0004 wrong dims
      ✖ set-0004-0000 d
        Chrome Headless 156.0.0.0 (Linux x86_64)
      AssertionError: tensor data should match: expected false to be true
          at runProtoOpTestcase (test/ort.test.js:43633:16)

    [webgpu]Add - case-0005 ints
      ✖ set-0005-0000 e
        Chrome Headless 156.0.0.0 (Linux x86_64)
      AssertionError: tensor data should match: expected false to be true
          at runProtoOpTestcase (test/ort.test.js:43633:16)

undefined
"""

LOST = "\x1b[33m30 11 2026 20:25:48.2:WARN [Chrome Headless 156.0.0.0 (Linux x86_64)]: \x1b[39mDisconnected (0 times)"


def test_each_result_is_known_by_its_test_and_data_set() -> None:
    output = parse_output(LATE_2024)
    assert [(r.test, r.data_set, r.passed) for r in output.results] == [(2, 0, True), (2, 1, False), (2, 2, True)]
    assert (output.started, output.connected, output.problem) == (True, True, None)


def test_a_failure_has_its_message_its_stack_and_the_values_that_were_printed() -> None:
    wrong = parse_output(LATE_2024).results[1]
    assert wrong.message == "AssertionError: tensor data should match: expected false to be true"
    assert wrong.stack.startswith("at _TensorResultValidator.checkApiTensorResult (test/ort.test.js:43863:60)")
    assert mismatches_in(wrong.wrong) == (Mismatch((1, 1, 1, 0), 0, 137),)


def test_a_wrong_output_comes_back_whole_under_the_name_of_the_expected_one() -> None:
    values = np.array([9, 43, 11, 53, 77, 111, 95, 137], dtype="<f4")
    expected = Tensor("y", "float32", (2, 2, 2, 1), values.tobytes())
    other = Tensor("x", "float32", (2, 2, 2, 1), np.zeros(8, "<f4").tobytes())
    actual = actual_in(parse_output(LATE_2024).results[1].wrong, DataSet("d", (), (other, expected)))
    assert actual is not None
    assert actual.name == "y"
    assert actual.array().ravel().tolist() == [9, 43, 77, 111, 0, 0, 0, 0]
    assert actual_in(parse_output(LATE_2024).results[1].wrong, DataSet("d", (), (other,))) is None


def test_values_belong_to_their_results_when_these_were_held_back() -> None:
    output = parse_output(HELD_BACK)
    wrong = {(r.test, r.data_set): r.wrong for r in output.results if r.wrong}
    assert {key: lines[-1].splitlines()[2] for key, lines in wrong.items()} == {
        (4, 0): "EXPECT: type=float32; dims=[2,1]; data=[2,4]",
        (5, 0): "EXPECT: type=int32; dims=[1,2]; data=[2,5]",
    }


def test_a_hook_that_failed_is_told_from_a_test() -> None:
    found = parse_output(HELD_BACK).of(2)
    assert [(r.hook, r.passed, r.message) for r in found] == [
        ("before", False, "8796032"),
        ("after", False, "TypeError: Cannot read properties of undefined (reading 'release')"),
    ]
    assert not found[0].stack


# e2f19fd16c (2026-07-20): a plain Error instead of chai's.
YEAR_2026 = f"""{CONNECTED}\
LOG: '\x1b[31;40me\x1b[0m \x1b[35mTestRunner\x1b[0m 2026-11-30T20:46:01.535Z|Tensor mismatch:\x20
ACTUAL: type=int32; dims=[1,2]; data=[2,4]
EXPECT: type=int32; dims=[1,2]; data=[2,5]'
ERROR: 'An uncaught WebGPU validation error was raised: Error while parsing WGSL: :8:68 error: 'f16' type used without \
'f16' extension enabled
        @group(0) @binding(0) var<storage, read> aData: array<vec4<f16>>;

 - While calling [Device].CreateShaderModule([ShaderModuleDescriptor ""Add""]).
'
    [webgpu]Add - case-0005 ints
      ✖ set-0005-0000 e

SUMMARY:
✖ 1 test failed

FAILED TESTS:
  #OpTest# - bisect-bot.jsonc
    [webgpu]Add - case-0005 ints
      ✖ set-0005-0000 e
        Chrome Headless 156.0.0.0 (Linux 0.0.0)
      Error: tensor data should match
          at _TensorResultValidator.checkApiTensorResult (test/ort.test.js:49230:17)
"""


def test_the_words_of_2026_are_known_and_the_pages_gpu_errors_are_told() -> None:
    output = parse_output(YEAR_2026)
    (wrong,) = output.results
    assert wrong.message == "Error: tensor data should match"
    actual = actual_in(
        wrong.wrong, DataSet("d", (), (Tensor("y", "int32", (1, 2), np.array([2, 5], "<i4").tobytes()),))
    )
    assert actual is not None
    assert actual.array().tolist() == [[2, 4]]
    (error,) = output.gpu_errors
    assert error.startswith("GPUValidationError: Error while parsing WGSL: :8:68 error: 'f16' type used without 'f16'")
    assert "\nEXPECT" not in error


def test_values_are_given_to_nobody_when_their_number_is_another_than_that_of_the_failures() -> None:
    lost = HELD_BACK.replace("ACTUAL: type=int32; dims=[1,2]; data=[2,4]\n", "").replace(
        "Tensor mismatch: \nEXPECT", ""
    )
    assert not any(result.wrong for result in parse_output(lost).results)


@pytest.mark.parametrize(
    ("line", "ending"),
    [
        (
            "\x1b[91m30 11 2026 20:25:48.279:ERROR [launcher]: \x1b[39mChrome crashed.\n\t/usr/bin/chromium: 9",
            Ending.BROWSER_GONE,
        ),
        ("\x1b[91m30 11 2026 20:25:48.279:ERROR [launcher]: \x1b[39mCannot start Chrome\n", Ending.BROWSER_GONE),
        (
            f"{LOST} , because no message in 300000 ms.",
            Ending.HANG,
        ),
        (
            f"{LOST} reconnect failed before timeout of 2000ms (transport close)",
            Ending.CRASH,
        ),
        (
            "Chrome Headless 156.0.0.0 (Linux x86_64) ERROR\n  Uncaught Error: top level of this revision\n"
            "  at dist/ort.all.js:39655:3\n",
            Ending.ERROR,
        ),
    ],
)
def test_what_went_wrong_with_the_run_as_a_whole_is_recognised(line: str, ending: Ending) -> None:
    problem = parse_output(CONNECTED + line).problem
    assert problem is not None
    assert problem[0] is ending
    assert "\x1b" not in problem[1]


def test_words_of_the_page_are_no_problem_of_the_run() -> None:
    said = "LOG: 'the device was Disconnected, because no message in 3 ms; it crashed. Cannot start again'\n"
    assert parse_output(CONNECTED + said).problem is None


def test_a_run_that_does_not_come_to_start_a_browser_has_not_started() -> None:
    failed = (
        'Building "web/dist/ort.all.js"...\n✘ [ERROR] Unexpected end of file\n\n    web/lib/index.ts:34:0:\n1 error\n'
    )
    assert not parse_output(failed).started
    assert not parse_output("").started


def test_any_text_can_be_read(tmp_path: Path) -> None:
    for text in ("\x00\x1b[", "✖ set-1-1", "FAILED TESTS:\n✖ set-1-1", "LOG: '", "SUMMARY:", LATE_2024[:-400] * 2):
        parse_output(text)
    for line in (
        "Tensor mismatch: \nACTUAL: type=float32; dims=[9]; data=[x]\nEXPECT: type=float32; dims=[9]; data=[]",
    ):
        expected = Tensor("y", "float32", (9,), bytes(36))
        assert actual_in([line], DataSet("d", (), (expected,))) is None
    assert mismatches_in(["abs/rel check failed-- index:3: actual=NaN,expected=-1e-9"])[0].index == (3,)


def test_a_script_that_the_browser_cannot_read_is_named_with_the_text_at_which_it_stopped(tmp_path: Path) -> None:
    script = tmp_path / "test/ort.test.js"
    script.parent.mkdir()
    script.write_text("  static setCache(cache2) {\n        static {\n")
    problem = with_source(parse_output(UNREAD), tmp_path).problem
    assert problem == (Ending.ERROR, "Uncaught SyntaxError: Unexpected token '{' in test/ort.test.js: static {")
    script.write_text(f"\n{'x' * 10_000}")
    long = with_source(parse_output(UNREAD.replace(":2:16", ":2:5000")), tmp_path).problem
    assert long is not None
    assert len(long[1]) < 200
    script.unlink()
    assert with_source(parse_output(UNREAD), tmp_path) == parse_output(UNREAD)


def test_another_error_while_scripts_load_is_told_as_it_came(tmp_path: Path) -> None:
    other = parse_output(UNREAD.replace("SyntaxError: Unexpected token '{'", "Error: top level of this revision"))
    assert with_source(other, tmp_path) == other


LIBRARY = "electron: error while loading shared libraries: libnss3.so: cannot open shared object file"
LAUNCHER = "TypeError: browserWindow.webContents.setWindowOpenHandler is not a function"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (f"\t{LIBRARY}\n\nmore\n", LIBRARY),
        (f"\t/tree/electron-launcher.js:4\n  throw err;\n  ^\n\n{LAUNCHER}\n    at handle (x.js:1:2)\n", LAUNCHER),
        ("\n", "Cannot start Electron"),
    ],
)
def test_why_a_browser_does_not_start_is_told_in_its_own_words(said: str, why: str) -> None:
    problem = parse_output(
        f"{CONNECTED}30 11 2026 20:25:48.279:ERROR [launcher]: Cannot start Electron\n{said}"
    ).problem
    assert problem is not None
    assert problem[0] is Ending.BROWSER_GONE
    assert problem[1].endswith(why)
