"""What upstream's test runner said becomes a verdict with the signature that our own page would give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bisect_bot import paths
from bisect_bot.model import (
    Case,
    DataSet,
    Ending,
    Failure,
    Mismatch,
    Observation,
    Outcome,
    PageError,
    Stage,
    Step,
    Tensor,
    Told,
    Verdict,
)
from bisect_bot.session.smoke import may_be_misfit, worst_smoke
from bisect_bot.verdicts import judge, load_rules, load_tolerances
from bisect_bot.verdicts.told import judge_told

TOLERANCES = load_tolerances(paths.config_file("tolerances.toml"))
RULES = load_rules(paths.config_file("verdicts.toml"))
WRONG = "AssertionError: tensor data should match: expected false to be true"


def tensor(name: str, *values: float) -> Tensor:
    """A float32 vector."""
    return Tensor(name, "float32", (len(values),), np.array(values, "<f4").tobytes())


ONE = DataSet("one", (), (tensor("y", 1, 2),))
TWO = DataSet("two", (), (tensor("y", 3, 4),))
CASE = Case("matmul", "0" * 64, Path("model.onnx"), (ONE, TWO), "files")
SEEN = Observation("matmul", "sha256:1", "ort.all.js", "webgpu", Ending.COMPLETED)


def told(**more: Any) -> Observation:
    """An observation in which the runner said no."""
    return replace(SEEN, told=Told(passed=False, message=WRONG, data_set="two"), **more)


def verdict(observation: Observation, case: Case = CASE) -> Verdict:
    """The judgement of `observation`."""
    return judge_told(observation, case, TOLERANCES, RULES)


def test_what_the_runner_passes_is_good_and_nobody_knows_where_it_ran() -> None:
    good = verdict(replace(SEEN, told=Told(passed=True)))
    assert (good.outcome, good.ran_on, good.provider) == (Outcome.GOOD, None, "webgpu")


@pytest.mark.parametrize("actual", [(9.0, 4.0), (0.0, 0.0), (float("nan"), 4.0)])
def test_a_wrong_output_has_the_signature_that_our_own_page_gives(actual: tuple[float, float]) -> None:
    printed = tensor("y", *actual)
    by_runner = verdict(told(steps=(Step(outputs=((), (printed,))),)))
    by_page = judge(
        replace(SEEN, steps=(Step(outputs=((tensor("y", 1, 2),), (printed,))),), dispatches=1), CASE, TOLERANCES, RULES
    )
    assert by_runner.outcome is by_page.outcome is Outcome.BAD
    assert by_runner.signature == by_page.signature
    assert str(by_runner.comparisons[0].first) == str(by_page.comparisons[1].first)
    assert "in two" in by_runner.reason


def test_values_that_only_the_runner_holds_for_wrong_are_bad_all_the_same() -> None:
    right = verdict(told(steps=(Step(outputs=((), (tensor("y", 3, 4),))),)))
    assert (right.outcome, right.signature and right.signature.message) == (Outcome.BAD, "y: other values")


def test_elements_without_the_whole_output_give_the_same_signature() -> None:
    wrong = replace(SEEN, told=Told(False, WRONG, "two", (Mismatch((1,), 0, 4),)))
    whole = verdict(told(steps=(Step(outputs=((), (tensor("y", 3, 0),))),)))
    assert verdict(wrong).signature == whole.signature
    assert verdict(wrong).comparisons[0].first == (Mismatch((1,), 0, 4),)


def test_a_mismatch_of_nobody_knows_which_output_is_bad_still() -> None:
    case = replace(CASE, data_sets=(replace(ONE, expected=(*ONE.expected, tensor("z", 1))),))
    seen = verdict(replace(SEEN, told=Told(False, "AssertionError: size of output tensors", "one")), case)
    assert seen.outcome is Outcome.BAD
    assert seen.signature is not None
    assert seen.signature.kind is Failure.MISMATCH


def error(stage: Stage, message: str, ending: Ending = Ending.ERROR) -> Observation:
    """An observation of an exception."""
    return told(ending=ending, errors=(PageError(stage, message),), steps=())


def test_an_exception_has_the_signature_that_our_own_page_gives() -> None:
    message = 'Error: [WebGPU] Kernel "[MatMul] MatMul" failed. Error: shared dimension does not match.'
    by_runner = verdict(error(Stage.RUN, message))
    page = replace(SEEN, ending=Ending.ERROR, errors=(PageError(Stage.RUN, message),), steps=(Step(),))
    assert by_runner.signature == judge(page, CASE, TOLERANCES, RULES).signature
    assert by_runner.signature is not None
    assert by_runner.signature.kind is Failure.KERNEL_ERROR
    assert by_runner.ran_on is None


def test_an_exception_is_not_put_down_to_a_kernel_that_another_case_complained_of() -> None:
    console = "[E:onnxruntime:, sequential_executor.cc:505 ExecuteKernel] Non-zero status code returned while running"
    seen = replace(error(Stage.CREATE, "8796032"), console=(f"{console} MatMul node. Name:'m' Status Message: no",))
    assert verdict(seen).outcome is Outcome.SKIP


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (error(Stage.LOAD, "✘ [ERROR] Unexpected end of file"), Outcome.SKIP),
        (error(Stage.LOAD, "TypeError: Cannot read properties of null (reading 'map')"), Outcome.SKIP),
        (error(Stage.RUN, "TypeError: A float16 tensor's data must be type of function Float16Array()"), Outcome.SKIP),
        (error(Stage.HARNESS, "nothing said", Ending.HARNESS), Outcome.INFRA),
        (error(Stage.CREATE, "Error: Failed to get GPU adapter.", Ending.NO_ADAPTER), Outcome.INFRA),
        (error(Stage.HARNESS, "the browser ended", Ending.BROWSER_GONE), Outcome.INFRA),
        (error(Stage.HARNESS, "the page's process died", Ending.CRASH), Outcome.BAD),
        (error(Stage.RUN, "Error: Timeout of 60000ms exceeded.", Ending.HANG), Outcome.BAD),
    ],
)
def test_what_is_no_answer_of_the_build_is_never_bad(seen: Observation, outcome: Outcome) -> None:
    assert verdict(seen).outcome is outcome


def test_a_gpu_error_beside_wrong_values_is_what_our_own_page_makes_of_it() -> None:
    lacking = "GPUValidationError: 'f16' type used without 'f16' extension enabled"
    assert verdict(told(gpu_errors=(lacking,))).outcome is Outcome.SKIP
    other = "GPUValidationError: binding size is too small\n - While validating"
    by_runner = verdict(told(gpu_errors=(other,)))
    page = replace(SEEN, gpu_errors=(other,), steps=(Step(outputs=((tensor("y", 1, 2),), (tensor("y", 0, 0),))),))
    assert by_runner.signature == judge(page, CASE, TOLERANCES, RULES).signature
    assert by_runner.signature is not None
    assert by_runner.signature.kind is Failure.GPU_ERROR


def test_a_session_that_cannot_be_released_is_bad() -> None:
    late = PageError(Stage.RELEASE, "Error: already released")
    seen = verdict(replace(SEEN, told=Told(passed=True), errors=(late,)))
    assert (seen.outcome, seen.ran_on) == (Outcome.BAD, None)


@pytest.mark.parametrize(
    ("seen", "lacking"),
    [
        (
            error(Stage.LOAD, "Uncaught SyntaxError: Unexpected token '{' in test/ort.test.js: static {"),
            "static blocks of classes",
        ),
        (
            error(Stage.LOAD, "Uncaught SyntaxError: Unexpected token '=' in dist/ort.all.js: a ||= b;"),
            "syntax of this revision's scripts (Uncaught SyntaxError: Unexpected token '=' in dist/ort.all.js: a ||=",
        ),
        (
            error(
                Stage.CREATE,
                "Error: no available backend found. ERR: [wasm] Error: WebAssembly SIMD is not supported in the "
                "current environment.",
            ),
            "a WebAssembly feature that this build needs",
        ),
    ],
)
def test_what_an_old_browser_lacks_is_a_skip_that_says_so_and_no_matter_of_parts(
    seen: Observation, lacking: str
) -> None:
    found = verdict(seen)
    assert found.outcome is Outcome.SKIP
    assert f"the browser lacks {lacking}" in found.reason
    assert not may_be_misfit(worst_smoke({"wasm": found}))
    assert may_be_misfit(worst_smoke({"wasm": verdict(error(Stage.LOAD, "wasm3.getValue is not a function"))}))
    assert not may_be_misfit(worst_smoke({"wasm": Verdict(Outcome.GOOD, "right")}))
