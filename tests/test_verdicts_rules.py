"""Which messages say nothing about the revision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from onnx import TensorProto, helper

from bisect_bot.errors import ConfigError
from bisect_bot.model import Outcome, Stage
from bisect_bot.paths import config_file
from bisect_bot.verdicts import load_rules

RULES = load_rules(config_file("verdicts.toml"))
SESSION = "Can't create a session. ERROR_CODE: 1, ERROR_MESSAGE: "


@pytest.mark.parametrize(
    ("message", "outcome", "says"),
    [
        (
            SESSION + "/s/model_load_utils.h:46 void f(bool) ONNX Runtime only *guarantees* support for models stamped"
            " with official released onnx opset versions."
            " Opset 22 is under development and support for this is limited."
            " Current official support for domain ai.onnx is till opset 21.",
            Outcome.SKIP,
            "opset is newer",
        ),
        (
            SESSION + "Unsupported model IR version: 10, max supported IR version: 9",
            Outcome.SKIP,
            "IR version is newer",
        ),
        (SESSION + "Fatal error: ai.onnx:Gelu(20) is not a registered function/op", Outcome.SKIP, "know the operator"),
        (SESSION + "No Op registered for Gelu with domain_version of 19", Outcome.SKIP, "the model's opset"),
        (
            SESSION + "This is an invalid model. Type Error: Type 'tensor(float)' of input parameter (q) of operator"
            " (GroupQueryAttention) in node () is invalid.",
            Outcome.SKIP,
            "does not take the element type",
        ),
        ("TypeError: cannot resolve operator 'Gelu' with opsets: ai.onnx v20", Outcome.SKIP, "WebGL does not know"),
        ("TypeError: Unsupported tensor type: int4.", Outcome.SKIP, "element type"),
        ("Error: unsupported data type: uint4", Outcome.SKIP, "element type"),
        ("A float16 tensor's data must be type of function Float16Array() { }", Outcome.SKIP, "float16 data"),
        ("Program Add requires f16 but the device does not support it.", Outcome.SKIP, "shader-f16"),
        ("error: 'f16' type used without 'f16' extension enabled", Outcome.SKIP, "shader-f16"),
        ("no available backend found. ERR: [webgpu] backend not found.", Outcome.SKIP, "no such backend"),
        (
            "no available backend found. ERR: [wasm] Error: WebAssembly SIMD is not supported in the current"
            " environment.",
            Outcome.SKIP,
            "the browser lacks a WebAssembly feature",
        ),
        (
            "no available backend found. ERR: [webgpu] TypeError: e.requestAdapterInfo is not a function",
            Outcome.SKIP,
            "a browser API",
        ),
        (
            "no available backend found. ERR: [wasm] Error: Aborted(both async and sync fetching of the wasm failed)",
            Outcome.SKIP,
            "does not start",
        ),
        (
            "no available backend found. ERR: [webgpu] Error: Failed to get GPU adapter. You may need to enable flag",
            Outcome.INFRA,
            "no GPU adapter",
        ),
        (
            "no available backend found. ERR: [webgpu] Error: WebGPU is not supported in current environment",
            Outcome.INFRA,
            "no WebGPU",
        ),
        (
            "failed to call OrtRun(). ERROR_CODE: 2, ERROR_MESSAGE: At least one output should be requested.",
            Outcome.SKIP,
            "an output of that name",
        ),
    ],
)
def test_a_message_that_says_nothing_about_the_revision_is_known(message: str, outcome: Outcome, says: str) -> None:
    found = RULES.first([message])
    assert found is not None
    assert found[0].outcome is outcome
    assert says in found[0].says
    assert found[1] == message


@pytest.mark.parametrize(
    "message",
    [
        "Failed to find kernel for AveragePool(19) (node:'' ep:'JsExecutionProvider'). Kernel not found",
        SESSION + "Could not find an implementation for GridSample(20) node with name ''",
        "failed to call OrtRun(). ERROR_CODE: 6, ERROR_MESSAGE: std::bad_alloc",
        "RangeError: WebAssembly.Memory(): could not allocate memory",
        '[WebGPU] Kernel "[Cast] c" failed. Error: Unsupported data type: 7',
        'kernel "[Conv] c" is not allowed to be called recursively',
        "wasm3.getValue is not a function",
        "Resize: Coordinate transform mode pytorch is not supported",
        # Not of a type that the build lacks: the model declares another than the operator gives, or an optimiser made
        # a mistake, which is a bug that one looks for.
        SESSION
        + "Type Error: Type (tensor(int32)) of output arg (y) of node () does not match expected type (tensor(int64))",
        "",
    ],
)
def test_any_other_error_is_the_revisions_own(message: str) -> None:
    assert RULES.first([message]) is None


@pytest.mark.parametrize(
    ("message", "empty"),
    [
        ("Can't create a session", True),
        ("Error: failed to call OrtRun(). error code = 6.", True),
        ("Can't create a session. ERROR_CODE: 2, ERROR_MESSAGE: x", False),
        ("anything else", False),
    ],
)
def test_messages_that_leave_the_cause_to_the_console_are_known(message: str, empty: bool) -> None:
    assert RULES.is_empty(message) is empty


def test_a_rule_for_a_stage_or_a_console_holds_only_there(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.toml"
    path.write_text(GOOD + "stage = 'load'\nconsole = 'one.*two'\n")
    rules = load_rules(path)
    assert rules.first(["aaa"], Stage.LOAD, ["one", "two"]) is not None
    assert rules.first(["aaa"], Stage.RUN, ["one", "two"]) is None
    assert rules.first(["aaa"], Stage.LOAD, ["two", "one"]) is None


GOOD = "schema = 1\nsays_nothing = []\ninfra = []\n[[skip]]\npattern = 'a+'\nsays = 'many'\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD.replace("a+", "(a"), "not a regular expression"),
        (GOOD.replace("'many'", "''"), "skip.0.says"),
        (GOOD + "colour = 'red'\n", "skip.0.colour"),
        (GOOD.replace("infra = []\n", ""), "infra"),
        (GOOD.replace("schema = 1", "schema = 9"), "schema"),
        ("kernels = ['while running Conv']\n" + GOOD, "has no group 'op'"),
        (GOOD + "stage = 'breakfast'\n", "skip.0.stage"),
        (GOOD + "console = '(a'\n", "not a regular expression"),
        (GOOD + "[providers.CPUExecutionProvider]\nbackend = 'wasm'\n", "providers.CPUExecutionProvider.says"),
        ("[", "cannot be read"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_the_place_of_the_misfit(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "verdicts.toml"
    path.write_text(GOOD)
    assert load_rules(path).first(["AAA"]) is not None
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_rules(path)


def _one_node(
    operator: str, opset: int, ir_version: int, inputs: str = "x", kind: int = TensorProto.FLOAT, **attributes: Any
) -> bytes:
    node = helper.make_node(operator, list(inputs), ["y"], **attributes)
    ports = [helper.make_tensor_value_info(name, kind, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (_one_node("Identity", 999, 8), "the model's opset is newer than this build"),
        (_one_node("Identity", 13, 999), "the model's IR version is newer than this build"),
        (_one_node("NotYetInvented", 13, 8), "this build does not know the operator"),
        (_one_node("Gelu", 13, 8), "this build does not know the operator"),
        (_one_node("Sign", 13, 8, kind=TensorProto.BOOL), "this build's operator does not take the element type"),
        (_one_node("Identity", 13, 8, inputs="xx"), "this build's operator is older than the model's"),
        (_one_node("Identity", 13, 8, noise=1), "this build's operator is older than the model's"),
    ],
)
def test_what_the_installed_onnxruntime_says_of_a_model_that_is_too_new_is_known(model: bytes, says: str) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(Exception, match="ONNXRuntimeError") as caught:
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    found = RULES.first([str(caught.value)])
    assert found is not None
    assert found[0].says.startswith(says)


@pytest.mark.parametrize(
    "message", ["Error: there is no file modle.onnx beside the script", "Error: y was given twice: report() and"]
)
def test_a_mistake_in_a_script_is_no_verdict_on_a_build(message: str) -> None:
    found = RULES.first([message])
    assert found is not None and found[0].outcome is Outcome.SKIP
    assert RULES.first([f"Error: my {message}"]) is None
