"""What an observation says of its revision."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bisect_bot.errors import ConfigError
from bisect_bot.model import (
    Adapter,
    Case,
    DataSet,
    Ending,
    Failure,
    Observation,
    Outcome,
    PageError,
    Placement,
    Stage,
    Step,
    Tensor,
    Verdict,
)
from bisect_bot.paths import config_file
from bisect_bot.verdicts import judge, load_rules, load_tolerances

TOLERANCES = load_tolerances(config_file("tolerances.toml"))
RULES = load_rules(config_file("verdicts.toml"))
WANTED = [1.0, 2.0, 3.0]


def tensor(values: list[float], name: str = "y", dtype: str = "float32") -> Tensor:
    array = np.asarray(values, dtype=dtype)
    return Tensor(name, dtype, array.shape, array.tobytes())


def make_case(*sets: tuple[Tensor, ...]) -> Case:
    data_sets = tuple(DataSet(f"test_data_set_{i}", (), outputs) for i, outputs in enumerate(sets))
    return Case("pool", "0" * 64, Path("model.onnx"), data_sets, "files")


CASE = make_case((tensor(WANTED),))
SEEN = Observation(
    "pool",
    "sha256:0",
    "ort.webgpu.min.mjs",
    "webgpu",
    Ending.COMPLETED,
    (Step(outputs=((tensor(WANTED),),)),),
    dispatches=3,
)


def judged(observation: Observation, case: Case = CASE) -> Verdict:
    return judge(observation, case, TOLERANCES, RULES)


def gave(*values: float) -> Observation:
    return replace(SEEN, steps=(Step(outputs=((tensor(list(values)),),)),))


def failed(message: str, stage: Stage = Stage.RUN, **changes: object) -> Observation:
    seen = replace(SEEN, ending=Ending.ERROR, steps=(), errors=(PageError(stage, message),))
    return replace(seen, **changes)  # type: ignore[arg-type]


def test_matching_outputs_are_good_with_the_largest_error_and_the_provider() -> None:
    verdict = judged(gave(1.0, 2.0, 3.0005))
    assert (verdict.outcome, verdict.signature) == (Outcome.GOOD, None)
    assert verdict.reason == "1 output matches (largest error 0.0005)"
    assert (verdict.provider, verdict.ran_on) == ("webgpu", "gpu")
    assert [c.matches for c in verdict.comparisons] == [True]


@pytest.mark.parametrize(
    ("backend", "dispatches", "providers", "ran_on"),
    [
        ("webgpu", 3, (), "gpu"),
        ("webgpu", 3, ("JsExecutionProvider",), "gpu"),
        ("webgpu", 3, ("WebGpuExecutionProvider",), "gpu"),
        ("webgpu", 3, ("JsExecutionProvider", "CPUExecutionProvider"), "mixed"),
        ("webgpu", 0, ("CPUExecutionProvider",), "cpu"),
        ("webgpu", 0, (), "cpu"),
        ("webgpu", 0, ("WebGpuExecutionProvider",), "gpu"),
        ("wasm", 0, ("CPUExecutionProvider",), "cpu"),
        ("webgl", 0, (), "gpu"),
        ("webnn", 0, (), None),
    ],
)
def test_a_good_verdict_tells_where_it_ran(
    backend: str, dispatches: int, providers: tuple[str, ...], ran_on: str | None
) -> None:
    placements = tuple(Placement(provider, ()) for provider in providers)
    verdict = judged(replace(SEEN, backend=backend, dispatches=dispatches, placements=placements))
    assert (verdict.outcome, verdict.provider, verdict.ran_on) == (Outcome.GOOD, backend, ran_on)


def test_a_mismatch_is_bad_and_its_reason_gives_the_first_element() -> None:
    verdict = judged(gave(1.0, 7.5, 9.0))
    assert (verdict.outcome, verdict.ran_on) == (Outcome.BAD, "gpu")
    assert verdict.reason == "y[1] is 7.5 instead of 2; 2 of 3 elements differ (y: other values)"
    assert verdict.signature is not None
    assert (verdict.signature.kind, verdict.signature.case) == (Failure.MISMATCH, "pool")


@pytest.mark.parametrize(
    ("values", "kind", "shape"),
    [
        ([0.0, 0.0, 0.0], Failure.ALL_ZERO, "y: all zero"),
        ([1.0, math.nan, 3.0], Failure.NAN, "y: NaN"),
        ([1.0, math.inf, 3.0], Failure.MISMATCH, "y: infinite"),
        ([5.0, 5.0, 5.0], Failure.CONSTANT, "y: constant"),
        ([3.0, 2.0, 1.0], Failure.MISMATCH, "y: other values"),
        ([1.0, 2.0], Failure.MISMATCH, "y: other shape"),
    ],
)
def test_the_signature_of_wrong_outputs_is_the_shape_of_wrongness(
    values: list[float], kind: Failure, shape: str
) -> None:
    verdict = judged(gave(*values))
    assert verdict.signature is not None
    assert (verdict.signature.kind, verdict.signature.message, verdict.signature.when) == (kind, shape, "")


@pytest.mark.parametrize(
    ("wanted", "values", "shape"),
    [
        ([math.nan, 2.0], [math.nan, 3.0], "y: other values"),
        ([math.inf, 2.0], [math.inf, 3.0], "y: other values"),
        ([2.0, 2.0], [3.0, 3.0], "y: other values"),
    ],
)
def test_what_the_expected_output_has_too_is_not_what_is_wrong(
    wanted: list[float], values: list[float], shape: str
) -> None:
    verdict = judged(gave(*values), make_case((tensor(wanted),)))
    assert verdict.signature is not None
    assert verdict.signature.message == shape


def test_two_builds_that_are_wrong_in_the_same_way_by_other_numbers_have_one_signature() -> None:
    assert judged(gave(4.0, 5.0, 6.0)).signature == judged(gave(9.0, 2.0, 3.0)).signature


def test_outputs_are_found_by_name_whatever_their_order() -> None:
    case = make_case((tensor([1.0], "a"), tensor([2.0], "b")))
    verdict = judged(replace(SEEN, steps=(Step(outputs=((tensor([2.0], "b"), tensor([1.0], "a")),)),)), case)
    assert (verdict.outcome, verdict.reason) == (Outcome.GOOD, "2 outputs match (largest error 0)")


def test_missing_unexpected_and_otherwise_typed_outputs_are_bad() -> None:
    case = make_case((tensor([1.0], "a"), tensor([2.0], "b")))
    verdict = judged(replace(SEEN, steps=(Step(outputs=((tensor([1.0], "a", "float64"), tensor([1.0], "c")),)),)), case)
    assert verdict.outcome is Outcome.BAD
    assert verdict.signature is not None
    assert verdict.signature.message == "a: other type; b: missing; c: unexpected"
    assert verdict.reason.startswith("a: type float64 instead of float32")


def test_every_data_set_is_compared_and_the_wrong_one_named() -> None:
    case = make_case((tensor(WANTED),), (tensor(WANTED),))
    verdict = judged(replace(SEEN, steps=(Step(outputs=((tensor(WANTED),), (tensor([0.0, 0.0, 0.0]),))),)), case)
    assert "in test_data_set_1" in verdict.reason
    assert [c.matches for c in verdict.comparisons] == [True, False]


def test_a_completed_run_that_lacks_a_data_set_is_no_verdict_on_the_revision() -> None:
    verdict = judged(SEEN, make_case((tensor(WANTED),), (tensor(WANTED),)))
    assert (verdict.outcome, verdict.signature) == (Outcome.INFRA, None)
    assert "1 data sets instead of 2" in verdict.reason


def test_a_gpu_error_is_bad_even_when_the_outputs_match() -> None:
    verdict = judged(replace(SEEN, gpu_errors=("[Buffer 12] is destroyed.\n - While calling Submit", "second")))
    assert verdict.outcome is Outcome.BAD
    assert verdict.signature is not None
    assert (verdict.signature.kind, verdict.signature.message) == (Failure.GPU_ERROR, "[Buffer <n>] is destroyed.")
    assert verdict.reason == "GPU error: [Buffer 12] is destroyed. - While calling Submit"
    assert all(c.matches for c in verdict.comparisons)


def test_a_gpu_error_counts_before_the_wrong_outputs_that_come_of_it() -> None:
    verdict = judged(replace(gave(0.0, 0.0, 0.0), gpu_errors=("GPUValidationError: no",)))
    assert verdict.signature is not None
    assert verdict.signature.kind is Failure.GPU_ERROR


def test_a_lost_device_is_a_failure_of_its_own_whatever_followed_from_it() -> None:
    errors = ("GPUInternalError: cannot submit 7", "device lost (unknown): the GPU process crashed")
    lost = replace(gave(0.0, 0.0, 0.0), gpu_errors=errors)
    for seen in (lost, failed("mapAsync was aborted", gpu_errors=errors)):
        verdict = judged(seen)
        assert verdict.signature is not None
        assert verdict.signature.kind is Failure.DEVICE_LOST
        assert verdict.signature.message == "device lost (unknown): the GPU process crashed"


def test_a_session_that_cannot_be_released_is_an_error_though_its_outputs_match() -> None:
    verdict = judged(replace(SEEN, errors=(PageError(Stage.RELEASE, "Error: not released 3", step="created again"),)))
    assert verdict.signature is not None
    assert (verdict.outcome, verdict.signature.kind) == (Outcome.BAD, Failure.ERROR)
    assert (verdict.signature.message, verdict.signature.when) == ("not released <n>", "created again")


def kernel(op: str, what: str) -> str:
    return f'Error: [WebGPU] Kernel "[{op}] /x/{op}_12" failed. Error: {what}'


def native(op: str, what: str) -> str:
    return (
        "failed to call OrtRun(). ERROR_CODE: 1, ERROR_MESSAGE: Non-zero status code returned while running"
        f" {op} node. Name:'{op}_nhwc' Status Message: {what}"
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (kernel("AveragePool", "using ceil() is not supported"), "AveragePool: using ceil() is not supported"),
        (native("AveragePool", "using ceil() is not supported"), "AveragePool: using ceil() is not supported"),
        (kernel("Conv", "bad at 12") + "\n" + kernel("Relu", "no input")[7:], "Conv: bad at <n>"),
        (native("If", native("MatMul", "shapes differ")), "MatMul: shapes differ"),
        (
            "Error: using ceil() in shape computation is not yet supported for AveragePool",
            "AveragePool: using ceil() in shape computation is not yet supported for AveragePool",
        ),
        ('kernel "[Conv] c" is not allowed to be called recursively', "Conv: is not allowed to be called recursively"),
    ],
)
def test_an_error_of_a_kernel_is_named_by_its_operator(message: str, expected: str) -> None:
    verdict = judged(failed(message))
    assert verdict.signature is not None
    assert (verdict.outcome, verdict.signature.kind) == (Outcome.BAD, Failure.KERNEL_ERROR)
    assert verdict.signature.message == expected


def test_the_same_words_in_another_operator_are_another_failure() -> None:
    one, other = (judged(failed(kernel(op, "shape is not supported"))).signature for op in ("Conv", "MaxPool"))
    assert one is not None and other is not None
    assert not one.same_failure(other)


def test_a_kernel_that_only_the_console_names_is_found_there() -> None:
    console = ("hello", 'warning: [WebGPU] Kernel "[Softmax] s" failed. Error: Error: axis is wrong', "bye")
    verdict = judged(failed("failed to call OrtRun(). error code = 6.", console=console))
    assert verdict.signature is not None
    assert verdict.signature.kind is Failure.KERNEL_ERROR
    assert verdict.signature.message == "Softmax: axis is wrong"


def test_a_kernel_that_is_missing_is_an_error_and_no_kernels_failure() -> None:
    verdict = judged(failed("Failed to find kernel for Conv(11) (node:'c' ep:'JsExecutionProvider').", Stage.CREATE))
    assert verdict.signature is not None
    assert verdict.signature.kind is Failure.ERROR


def test_a_shader_that_needs_f16_on_an_adapter_without_it_is_not_applicable() -> None:
    error = "Error while parsing WGSL: :1:8 error: 'f16' type used without 'f16' extension enabled"
    verdict = judged(replace(gave(0.0, 0.0, 0.0), gpu_errors=(error,)))
    assert verdict.outcome is Outcome.SKIP
    assert verdict.reason.startswith("not applicable: the adapter has no shader-f16 (")


@pytest.mark.parametrize("stage", [Stage.CREATE, Stage.RUN, Stage.RELEASE])
def test_an_error_is_bad_with_its_normalised_message(stage: Stage) -> None:
    verdict = judged(failed("failed to call OrtRun(). ERROR_CODE: 1, ERROR_MESSAGE: Conv failed at 0x1f", stage))
    assert verdict.outcome is Outcome.BAD
    assert verdict.signature is not None
    assert (verdict.signature.kind, verdict.signature.message) == (Failure.ERROR, "Conv failed at <hex>")
    assert verdict.reason.startswith(f"{stage.value}: failed to call OrtRun()")


def test_running_out_of_memory_is_an_error_with_its_own_signature() -> None:
    verdict = judged(failed("RangeError: WebAssembly.Memory(): could not allocate memory"))
    assert verdict.signature is not None
    assert (verdict.outcome, verdict.signature.kind) == (Outcome.BAD, Failure.ERROR)
    assert "could not allocate memory" in verdict.signature.message


def test_a_bundle_that_does_not_load_is_skipped() -> None:
    verdict = judged(failed("SyntaxError: Unexpected token", Stage.LOAD))
    assert (verdict.outcome, verdict.signature) == (Outcome.SKIP, None)
    assert verdict.reason == "does not load here: SyntaxError: Unexpected token"


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (Stage.LOAD, "RangeError: Array buffer allocation failed"),
        (
            Stage.CREATE,
            "no available backend found. ERR: [wasm] RangeError: WebAssembly.Memory(): could not allocate memory",
        ),
    ],
)
def test_memory_that_a_build_does_not_even_get_to_start_is_the_machines_fault(stage: Stage, message: str) -> None:
    assert judged(failed(message, stage)).outcome is Outcome.INFRA


THREADPOOLS = "[I] Creating and using per session threadpools since use_per_session_threads_ is true"


@pytest.mark.parametrize(
    ("console", "outcome"),
    [
        ((THREADPOOLS, "Dynamic block base set to 0"), Outcome.SKIP),
        (("Using global/env threadpools since use_per_session_threads_ is false",), Outcome.SKIP),
        ((THREADPOOLS, "Initializing session.", "transformed"), Outcome.BAD),
        ((), Outcome.BAD),
    ],
)
def test_a_bare_number_before_the_session_is_initialised_means_a_model_that_is_too_new(
    console: tuple[str, ...], outcome: Outcome
) -> None:
    assert judged(failed("8551320", Stage.CREATE, console=console)).outcome is outcome


def test_a_model_newer_than_the_build_is_not_applicable() -> None:
    verdict = judged(failed("Unsupported model IR version: 10, max supported IR version: 9", Stage.CREATE))
    assert (verdict.outcome, verdict.signature) == (Outcome.SKIP, None)
    assert verdict.reason.startswith("not applicable: the model's IR version is newer than this build (")


def test_builds_whose_exceptions_say_nothing_are_judged_by_their_console() -> None:
    console = ("hello", "[E] ai.onnx:Gelu(20) is not a registered function/op")
    silent = failed("Can't create a session", Stage.CREATE, console=console)
    assert judged(silent).outcome is Outcome.SKIP
    telling = failed("Can't create a session. ERROR_CODE: 1, ERROR_MESSAGE: bad", Stage.CREATE, console=console)
    assert judged(telling).outcome is Outcome.BAD


def test_an_adapter_that_the_build_did_not_get_is_the_machines_fault() -> None:
    verdict = judged(
        failed("no available backend found. ERR: [webgpu] Error: Failed to get GPU adapter.", Stage.CREATE)
    )
    assert (verdict.outcome, verdict.signature) == (Outcome.INFRA, None)


def test_wrong_outputs_count_before_an_error_in_a_later_data_set() -> None:
    case = make_case((tensor(WANTED),), (tensor(WANTED),))
    verdict = judged(failed("boom", steps=(Step(outputs=((tensor([0.0, 0.0, 0.0]),),)),)), case)
    assert verdict.signature is not None
    assert verdict.signature.kind is Failure.ALL_ZERO


@pytest.mark.parametrize(("ending", "kind"), [(Ending.CRASH, Failure.CRASH), (Ending.HANG, Failure.HANG)])
def test_a_crash_and_a_hang_are_failures_of_their_own_kind(ending: Ending, kind: Failure) -> None:
    verdict = judged(replace(SEEN, ending=ending, steps=(), errors=(PageError(Stage.RUN, "whatever 17"),)))
    assert verdict.outcome is Outcome.BAD
    assert verdict.signature is not None
    assert (verdict.signature.kind, verdict.signature.case) == (kind, "pool")
    assert "17" not in verdict.signature.message


@pytest.mark.parametrize(
    ("ending", "says"),
    [
        (Ending.BROWSER_GONE, "the browser ended"),
        (Ending.NO_WEBGPU, "no WebGPU"),
        (Ending.NO_ADAPTER, "no GPU adapter"),
        (Ending.WRONG_ADAPTER, "got google swiftshader (software)"),
        (Ending.HARNESS, "the test page or its server failed"),
    ],
)
def test_what_the_machine_could_not_answer_is_infra_with_the_reason(ending: Ending, says: str) -> None:
    adapter = Adapter("google", "swiftshader", software=True)
    errors = (PageError(Stage.HARNESS, "the\x1b[31m details"),)
    verdict = judged(replace(SEEN, ending=ending, steps=(), adapter=adapter, errors=errors))
    assert (verdict.outcome, verdict.signature, verdict.ran_on) == (Outcome.INFRA, None, None)
    assert says in verdict.reason
    assert verdict.reason.endswith("the details")


def test_an_error_of_our_own_page_is_infra() -> None:
    assert judged(failed("bad job", Stage.HARNESS)).outcome is Outcome.INFRA
    assert judged(replace(failed("x"), errors=())).outcome is Outcome.INFRA


def test_text_from_outside_reaches_no_verdict_unstripped() -> None:
    evil = "\x1b[2Jgone\u202e\n\x07"
    case = make_case((tensor([1.0], evil),))
    verdicts = [judged(failed(evil, stage)) for stage in Stage]
    verdicts += [judged(replace(SEEN, gpu_errors=(evil,))), judged(replace(SEEN, steps=(Step(outputs=((),)),)), case)]
    for verdict in verdicts:
        texts = [verdict.reason, verdict.signature.message if verdict.signature else ""]
        assert all(text.isprintable() for text in texts)
        assert "gone" in verdict.reason


def test_a_backend_without_tolerances_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError):
        judged(replace(SEEN, backend="cuda"))
