"""What went wrong first decides the verdict: step by step, and frame by frame."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_bot.model import (
    Case,
    CaseKind,
    DataSet,
    Demands,
    Ending,
    Failure,
    Foreground,
    Observation,
    Outcome,
    PageError,
    Placement,
    Signature,
    Stage,
    Step,
    Tensor,
    Verdict,
)
from bisect_bot.paths import config_file
from bisect_bot.verdicts import judge, load_rules, load_tolerances

TOLERANCES = load_tolerances(config_file("tolerances.toml"))
RULES = load_rules(config_file("verdicts.toml"))
RIGHT, ZERO, OTHER, NAN = [1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [3.0, 1.0, 2.0], [1.0, float("nan"), 3.0]
Values = list[float]


def tensor(values: Values, name: str = "y") -> Tensor:
    array = np.asarray(values, dtype=np.float32)
    return Tensor(name, "float32", array.shape, array.tobytes())


def frames(count: int) -> Case:
    sets = tuple(DataSet(f"frame {n}", (), (tensor(RIGHT),)) for n in range(1, count + 1))
    return Case("vad", "0" * 64, Path("model.onnx"), sets, "files", feed=(("y", "x"),))


ONE = Case("pool", "0" * 64, Path("model.onnx"), (DataSet("test_data_set_0", (), (tensor(RIGHT),)),), "files")


def step(name: str, *runs: Values, gpu: tuple[str, ...] = ()) -> Step:
    return Step(name, tuple((tensor(values),) for values in runs), gpu)


def seen(*steps: Step, ending: Ending = Ending.COMPLETED, **changes: object) -> Observation:
    gpu = tuple(error for each in steps for error in each.gpu_errors)
    made = Observation("pool", "sha256:0", "ort.mjs", "webgpu", ending, steps, dispatches=3, gpu_errors=gpu)
    return replace(made, **changes)  # type: ignore[arg-type]


def judged(observation: Observation, case: Case = ONE) -> Verdict:
    return judge(observation, case, TOLERANCES, RULES)


def bad(observation: Observation, case: Case = ONE) -> tuple[Failure, str, str]:
    """Kind, moment and reason of an observation that is bad."""
    verdict = judged(observation, case)
    assert verdict.outcome is Outcome.BAD, verdict
    assert verdict.signature is not None
    return verdict.signature.kind, verdict.signature.when, verdict.reason


def test_what_is_right_in_every_step_is_good() -> None:
    verdict = judged(seen(step("", RIGHT), step("run 2", RIGHT)))
    assert (verdict.outcome, verdict.reason) == (Outcome.GOOD, "2 outputs match (largest error 0)")
    assert [c.step for c in verdict.comparisons] == ["", "run 2"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("run 2", "good until run 2: "),
        ("created again", "good until the session was created again: "),
        ("created again 2, run 3", "good until the session was created again (created again 2, run 3): "),
        ("session 2", "good until another session was alive (session 2): "),
        ("other model alive", "good until another model was alive: "),
        ("page 2: run 2", "good until page 2: run 2: "),
    ],
)
def test_the_step_that_first_went_wrong_is_named(name: str, says: str) -> None:
    kind, when, reason = bad(seen(step("", RIGHT), step(name, ZERO), step("after other model", RIGHT)))
    assert (kind, when) == (Failure.ALL_ZERO, name)
    assert reason.startswith(says)


def test_what_is_wrong_from_the_start_has_no_moment() -> None:
    kind, when, reason = bad(seen(step("", ZERO), step("run 2", OTHER)))
    assert (kind, when) == (Failure.ALL_ZERO, "")
    assert reason.startswith("y[0] is 0 instead of 1")


def test_the_frame_from_which_on_it_is_wrong_is_named() -> None:
    outputs = [RIGHT] * 12 + [ZERO] * 2
    kind, when, reason = bad(seen(step("", *outputs)), frames(14))
    assert (kind, when) == (Failure.ALL_ZERO, "frame 13")
    assert reason.startswith("good at frame 1, all zero from frame 13: y[0] is 0 instead of 1 in frame 13;")


def test_a_frame_of_a_later_step_is_named_with_both() -> None:
    kind, when, reason = bad(seen(step("", RIGHT, RIGHT), step("created again", RIGHT, NAN)), frames(2))
    assert (kind, when) == (Failure.NAN, "created again, frame 2")
    assert reason.startswith("good until the session was created again, NaN from frame 2: ")


def test_data_sets_that_are_no_frames_are_no_moments() -> None:
    case = replace(frames(2), feed=())
    assert bad(seen(step("", RIGHT, ZERO)), case)[1] == ""


def test_the_same_wrong_values_at_another_time_are_another_failure() -> None:
    first, later = judged(seen(step("", ZERO))), judged(seen(step("", RIGHT), step("run 2", ZERO)))
    assert first.signature is not None and later.signature is not None
    assert not first.signature.same_failure(later.signature)


def test_only_the_first_wrong_data_set_decides_the_message() -> None:
    verdict = judged(seen(step("", ZERO, OTHER)), frames(2))
    assert verdict.signature == Signature(Failure.ALL_ZERO, "vad", "y: all zero")


def test_a_gpu_error_counts_before_the_wrong_outputs_of_its_step_and_after_those_of_steps_before() -> None:
    error = "GPUValidationError: [Buffer 3] is destroyed"
    assert bad(seen(step("", RIGHT), step("run 2", ZERO, gpu=(error,))))[:2] == (Failure.GPU_ERROR, "run 2")
    assert bad(seen(step("", ZERO), step("run 2", ZERO, gpu=(error,))))[:2] == (Failure.ALL_ZERO, "")


def test_a_gpu_error_that_no_step_names_belongs_to_the_last() -> None:
    loose = seen(step("", RIGHT), step("created again", RIGHT), gpu_errors=("GPUInternalError: late",))
    assert bad(loose)[:2] == (Failure.GPU_ERROR, "created again")


def test_an_error_is_of_the_step_and_frame_that_it_happened_in() -> None:
    error = PageError(Stage.RUN, "boom", step="run 2")
    observation = seen(step("", RIGHT, RIGHT), step("run 2", RIGHT), ending=Ending.ERROR, errors=(error,))
    assert bad(observation, frames(2))[:2] == (Failure.ERROR, "run 2, frame 2")
    again = PageError(Stage.CREATE, "boom", step="created again")
    observation = seen(step("", RIGHT), ending=Ending.ERROR, errors=(again,))
    kind, when, reason = bad(observation)
    assert (kind, when) == (Failure.ERROR, "created again")
    assert reason == "good until the session was created again: create: boom"


def test_wrong_outputs_of_an_earlier_step_count_before_what_ended_a_later_one() -> None:
    error = PageError(Stage.RUN, "boom", step="run 2")
    for ending in (Ending.ERROR, Ending.CRASH, Ending.HANG):
        observation = seen(step("", OTHER), step("run 2"), ending=ending, errors=(error,))
        assert bad(observation)[:2] == (Failure.MISMATCH, "")


def test_a_gpu_error_beside_the_exception_that_ended_a_step_is_not_the_failure() -> None:
    error = PageError(Stage.RUN, "boom")
    observation = seen(step("", gpu=("GPUValidationError: half done",)), ending=Ending.ERROR, errors=(error,))
    assert bad(observation)[0] is Failure.ERROR


def test_a_gpu_error_counts_before_wrong_outputs_though_an_exception_ended_the_step_later() -> None:
    error = PageError(Stage.RUN, "boom")
    half = step("", ZERO, gpu=("GPUValidationError: no",))
    assert bad(seen(half, ending=Ending.ERROR, errors=(error,)), frames(2))[0] is Failure.GPU_ERROR
    assert bad(seen(step("", ZERO), ending=Ending.ERROR, errors=(error,)), frames(2))[0] is Failure.ALL_ZERO


def test_a_lost_device_counts_before_the_exception_that_followed() -> None:
    error = PageError(Stage.RUN, "mapAsync was aborted", step="run 2")
    lost = step("run 2", gpu=("device lost (unknown): gone",))
    assert bad(seen(step("", RIGHT), lost, ending=Ending.ERROR, errors=(error,)))[:2] == (Failure.DEVICE_LOST, "run 2")


def test_a_session_that_is_not_created_again_failed_at_no_frame() -> None:
    error = PageError(Stage.CREATE, "boom", step="created again")
    assert bad(seen(step("", RIGHT, RIGHT), ending=Ending.ERROR, errors=(error,)), frames(2))[1] == "created again"


@pytest.mark.parametrize(("ending", "kind"), [(Ending.CRASH, Failure.CRASH), (Ending.HANG, Failure.HANG)])
def test_a_crash_and_a_hang_are_of_the_step_that_was_begun(ending: Ending, kind: Failure) -> None:
    assert bad(seen(step("", RIGHT), step("run 2"), ending=ending))[:2] == (kind, "run 2")


def test_a_step_that_lacks_a_data_set_is_no_verdict_on_the_revision() -> None:
    verdict = judged(seen(step("", RIGHT, RIGHT), step("run 2", RIGHT)), frames(2))
    assert verdict.outcome is Outcome.INFRA


# --- whatever a page says, there is a verdict --------------------------------------------------------------

TEXT = st.text(max_size=20) | st.sampled_from(
    [
        "device lost (unknown): gone",
        'Error: [WebGPU] Kernel "[Conv] c" failed. Error: no',
        "Non-zero status code returned while running Conv node. Name:'' Status Message: ",
        "8551320",
        "\x1b[2J<script>\u202e",
    ]
)
DTYPES = {"float32": 4, "float16": 2, "float64": 8, "int64": 8, "bool": 1, "uint8": 1}


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = int(np.prod(shape)) * DTYPES[dtype]
    data = draw(st.binary(min_size=size, max_size=size) | st.binary(max_size=8))
    return Tensor(draw(st.sampled_from(["y", "z", ""]) | TEXT), dtype, shape, data)


OUTPUTS = st.lists(st.lists(tensors(), max_size=2).map(tuple), max_size=3).map(tuple)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
STEPS = st.lists(st.builds(Step, TEXT, OUTPUTS, TEXTS), max_size=3).map(tuple)
OBSERVATIONS = st.builds(
    Observation,
    case=TEXT,
    artifact=TEXT,
    bundle=TEXT,
    backend=st.sampled_from(["webgpu", "wasm", "webgl"]),
    ending=st.sampled_from(list(Ending)),
    steps=STEPS,
    console=TEXTS,
    errors=st.lists(st.builds(PageError, st.sampled_from(list(Stage)), TEXT, TEXT, TEXT), max_size=2).map(tuple),
    gpu_errors=TEXTS,
    dispatches=st.integers(0, 3),
    placements=st.lists(st.builds(Placement, TEXT, TEXTS), max_size=2).map(tuple),
)
CASES = st.builds(
    Case,
    name=TEXT,
    digest=st.just("0" * 64),
    model=st.just(Path("model.onnx")),
    data_sets=st.lists(
        st.builds(DataSet, TEXT, st.just(()), st.lists(tensors(), max_size=2).map(tuple)), max_size=3
    ).map(tuple),
    reference=TEXT,
    kind=st.sampled_from(list(CaseKind)),
    feed=st.sampled_from([(), (("y", "x"),)]),
)
DEMANDS = st.builds(
    Demands,
    st.sampled_from(["", "webgpu", "wasm"]),
    st.lists(st.sampled_from(["Conv", "Add"]), max_size=2).map(tuple),
    st.lists(st.builds(Foreground, st.sampled_from(["", "y"]), st.floats(-1, 1)), max_size=2).map(tuple),
)


@settings(deadline=None, max_examples=100)
@given(OBSERVATIONS, CASES, DEMANDS)
def test_every_observation_has_a_verdict_that_can_be_printed(
    observation: Observation, case: Case, demands: Demands
) -> None:
    verdict = judge(observation, case, TOLERANCES, RULES, demands)
    assert (verdict.signature is not None) == (verdict.outcome is Outcome.BAD)
    assert verdict.reason.isprintable()
    if verdict.signature is not None:
        assert verdict.signature.message.isprintable() and verdict.signature.when.isprintable()


@pytest.mark.parametrize(
    ("kind", "first", "second", "same"),
    [
        (Failure.MISMATCH, "frame 13", "frame 17", True),
        (Failure.MISMATCH, "created again, frame 13", "created again, frame 9", True),
        (Failure.MISMATCH, "created again, frame 13", "frame 13", False),
        (Failure.MISMATCH, "", "frame 13", False),
        (Failure.MISMATCH, "run 2", "run 3", False),
        (Failure.HANG, "frame 13", "frame 17", False),
    ],
)
def test_values_that_drift_are_one_failure_at_whatever_frame_they_leave_the_tolerance(
    kind: Failure, first: str, second: str, same: bool
) -> None:
    ends = [Signature(kind, "vad", "y: other values", when) for when in (first, second)]
    assert ends[0].same_failure(ends[1]) is same


def test_an_output_that_came_twice_says_nothing_of_the_build() -> None:
    twice = Step("", ((tensor(ZERO), tensor(RIGHT)),))
    verdict = judged(seen(twice))
    assert (verdict.outcome, verdict.reason) == (Outcome.INFRA, "the page returned the output y twice")
