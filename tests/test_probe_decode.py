"""What a page posts is taken apart without trust."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_bot.harness.frames import Frame
from bisect_bot.model import Ending, Observation, Stage
from bisect_bot.probes.decode import Progress, decode_progress, decode_result
from bisect_bot.probes.placements import parse_placements
from bisect_bot.targets.browsers import load_config

CONFIG = load_config()
BLANK = Observation("case", "sha256:a", "ort.mjs", "webgpu", Ending.HARNESS)
ADAPTER = {"vendor": "google", "architecture": "swiftshader", "device": "", "description": "", "fallback": True}
VALUES = np.arange(4, dtype=np.float32)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def result(**changes: object) -> dict[str, object]:
    """The header of a result with one output, with some values changed."""
    return {
        "index": 0,
        "ending": "completed",
        "steps": [{"name": "", "outputs": [[{"name": "y", "dtype": "float32", "shape": [2, 2]}]]}],
        "times_ms": [["run", 1.5]],
        "errors": [],
        "console": [],
        "dispatches": 3,
        "gpu_errors": [],
        "adapter": ADAPTER,
        "found": None,
        **changes,
    }


def decoded(header: dict[str, object], *blobs: bytes) -> Observation:
    return decode_result(Frame(header, blobs or (VALUES.tobytes(),)), 0, BLANK, CONFIG)


def test_a_result_becomes_an_observation_with_its_tensors() -> None:
    seen = decoded(result())
    assert seen.ending is Ending.COMPLETED
    assert np.array_equal(seen.outputs[0][0].array(), VALUES.reshape(2, 2))
    assert seen.dispatches == 3
    assert seen.adapter is not None and seen.adapter.software


@pytest.mark.parametrize(
    "changes",
    [
        {"index": 1},
        {"steps": [{"name": "", "outputs": [[{"name": "y", "dtype": "float32", "shape": [2, 3]}]]}]},
        {"steps": [{"name": "", "outputs": [[{"name": "y", "dtype": "float99", "shape": [2, 2]}]]}]},
        {"steps": [{"name": "", "outputs": [[{"name": "y", "dtype": "float32", "shape": [-2, -2]}]]}]},
        {"steps": [{"name": "", "outputs": [[{"name": "y", "dtype": "float32", "shape": [2**62, 2**62]}]]}]},
        {"dispatches": -1},
        {"ending": "splendid"},
        {"errors": [{"stage": "nowhere", "message": "x"}]},
        {"console": None},
        {"ending": "error"},
    ],
)
def test_an_answer_that_makes_no_sense_is_our_harness_failing(changes: dict[str, object]) -> None:
    seen = decoded(result(**changes))
    assert seen.ending is Ending.HARNESS
    assert seen.errors[0].stage is Stage.HARNESS
    assert "\n" not in seen.errors[0].message and "http" not in seen.errors[0].message
    assert seen.outputs == ()


@given(st.dictionaries(st.sampled_from(sorted(result())), JSON))
def test_no_header_raises(changes: dict[str, object]) -> None:
    assert decoded(result(**changes)).case == "case"


def step(name: str, outputs: object) -> dict[str, object]:
    return {"name": name, "outputs": outputs, "dispatches": 1}


PROGRESS = {"index": 0, "step": "run 3", "steps": [step("run 2", [None])]}
Y = [{"name": "y", "dtype": "float32", "shape": [2, 2]}]


def test_outputs_that_did_not_travel_again_are_those_of_the_first_step() -> None:
    seen = decoded(result(steps=[step("", [Y]), step("run 2", [None])]))
    assert [s.name for s in seen.steps] == ["", "run 2"]
    assert seen.steps[1].outputs == seen.outputs
    assert seen.steps[1].dispatches == 1


def test_steps_that_a_page_told_of_before_come_first() -> None:
    first = decoded(result()).steps
    progress = decode_progress(Frame(PROGRESS), 0, Progress(first, "run 2"))
    assert (progress.step, [s.name for s in progress.steps]) == ("run 3", ["", "run 2"])
    seen = decode_result(Frame(result(steps=[step("run 3", [None])])), 0, BLANK, CONFIG, progress)
    assert [s.name for s in seen.steps] == ["", "run 2", "run 3"]
    assert seen.steps[2].outputs == seen.outputs


@pytest.mark.parametrize("changes", [{"index": 1}, {"step": None}, {"steps": [step("run 2", [None, None])]}])
def test_progress_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        decode_progress(Frame({**PROGRESS, **changes}), 0, Progress(decoded(result()).steps, "run 2"))


def test_node_placements_are_read_from_the_log_of_either_form() -> None:
    place = "error: 2026-11-30 10:28:17.17 [V:onnxruntime:, session_state.cc:1151 VerifyEachNodeIsAssignedToAnEp]"
    all_on_one = [f"{place}  All nodes placed on [CPUExecutionProvider]. Number of nodes: 1"]
    assert [(p.provider, p.nodes) for p in parse_placements(all_on_one)] == [("CPUExecutionProvider", ())]
    mixed = [
        f"{place} Node placements",
        f"{place}  Node(s) placed on [JsExecutionProvider]. Number of nodes: 2",
        f"{place}   Conv (first)",
        f"{place}   Conv (second)",
        f"{place}  Node(s) placed on [CPUExecutionProvider]. Number of nodes: 1",
        f"{place}   GridSample (third)",
        "log: something else",
    ]
    assert [(p.provider, p.nodes) for p in parse_placements(mixed)] == [
        ("JsExecutionProvider", ("Conv (first)", "Conv (second)")),
        ("CPUExecutionProvider", ("GridSample (third)",)),
    ]
