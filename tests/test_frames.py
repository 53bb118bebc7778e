"""Frames: a recurrent model is fed with what it gave, and the reference with what the reference gave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from bisect_bot.cases import Making, load, load_between, load_pinned
from bisect_bot.errors import CaseError
from bisect_bot.model import Case

Shape = list[int | str]
FEED = (("sum", "state"),)


def saved(path: Path, op: str, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape], **attributes: Any) -> Path:
    """A float32 model of the node `op`, whose first output is also given as `y`."""

    def infos(ports: Mapping[str, Shape]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports.items()]

    first = next(iter(outputs))
    nodes = [helper.make_node(op, list(inputs), [first], **attributes), helper.make_node("Identity", [first], ["y"])]
    graph = helper.make_graph(nodes, op.lower(), infos(inputs), infos({**outputs, "y": outputs[first]}))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)
    return path


@pytest.fixture
def adding(tmp_path: Path) -> Path:
    """sum = x + state: what comes back is the sum of all that was."""
    return saved(tmp_path / "adding.onnx", "Add", {"x": ["n", 2], "state": ["n", 2]}, {"sum": ["n", 2]})


@pytest.fixture
def caching(tmp_path: Path) -> Path:
    """present = past + new along axis 1: a cache that grows."""
    shapes: tuple[dict[str, Shape], dict[str, Shape]] = (
        {"past": ["batch", "past", 4], "new": ["batch", 1, 4]},
        {"present": ["batch", "total", 4]},
    )
    return saved(tmp_path / "caching.onnx", "Concat", *shapes, axis=1)


def made(path: Path, root: Path, **changes: Any) -> Case:
    """The case of `path` with three frames and the sum fed back."""
    options: dict[str, Any] = {"frames": 3, "feed": FEED, "dims": {"n": 1}, **changes}
    return load(str(path), Making(root, **options))


def values(case: Case, name: str) -> list[NDArray[Any]]:
    """The tensor `name` of each frame."""
    return [next(t.array() for t in (*frame.inputs, *frame.expected) if t.name == name) for frame in case.data_sets]


def test_each_frame_takes_what_the_reference_gave_for_the_one_before(adding: Path, tmp_path: Path) -> None:
    case = made(adding, tmp_path)
    assert [frame.name for frame in case.data_sets] == ["frame 1", "frame 2", "frame 3"]
    assert case.feed == FEED
    assert "onnxruntime" in case.reference
    x, state, total = (values(case, name) for name in ("x", "state", "sum"))
    assert not any(np.array_equal(a, b) for a, b in ((x[0], x[1]), (x[1], x[2])))
    assert np.array_equal(state[1], total[0]) and np.array_equal(state[2], total[1])
    assert np.array_equal(total[2], state[0] + x[0] + x[1] + x[2])


def test_the_first_frame_of_a_model_has_the_inputs_that_it_has_without_frames(adding: Path, tmp_path: Path) -> None:
    plain = load(str(adding), Making(tmp_path, dims={"n": 1}))
    assert made(adding, tmp_path).data_sets[0].inputs == plain.data_sets[0].inputs
    assert made(adding, tmp_path).digest == made(adding, tmp_path).digest != plain.digest
    assert made(adding, tmp_path, seed=1).digest != made(adding, tmp_path).digest


def test_frames_without_feed_are_data_sets_with_inputs_of_their_own(adding: Path, tmp_path: Path) -> None:
    case = made(adding, tmp_path, feed=())
    assert [frame.name for frame in case.data_sets] == ["test_data_set_0", "test_data_set_1", "test_data_set_2"]
    assert len({state.tobytes() for state in values(case, "state")}) == 3


def test_the_state_can_begin_with_zeros(adding: Path, tmp_path: Path) -> None:
    case = made(adding, tmp_path, initial_state="zeros")
    assert not values(case, "state")[0].any()
    assert np.array_equal(values(case, "sum")[0], values(case, "x")[0])


def test_a_dynamic_state_begins_empty_and_grows_with_what_comes_back(caching: Path, tmp_path: Path) -> None:
    feed = (("present", "past"),)
    case = made(caching, tmp_path, feed=feed, initial_state="dynamic", dims={"batch": 2})
    assert [past.shape for past in values(case, "past")] == [(2, 0, 4), (2, 1, 4), (2, 2, 4)]
    assert values(case, "present")[2].shape == (2, 3, 4)
    with pytest.raises(CaseError, match="batch"):
        made(caching, tmp_path, feed=feed, initial_state="dynamic", dims={})


def test_frames_of_a_folder_take_its_data_sets_in_turn(adding: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for number in range(2):
        data = folder / f"test_data_set_{number}"
        data.mkdir(parents=True)
        for index, value in enumerate((1 + number, 10)):
            tensor = numpy_helper.from_array(np.full((1, 2), value, np.float32))
            (data / f"input_{index}.pb").write_bytes(tensor.SerializeToString())
            (data / f"output_{index}.pb").write_bytes(tensor.SerializeToString())
    (folder / "model.onnx").write_bytes(adding.read_bytes())
    case = made(folder, tmp_path, dims={})
    assert [x[0, 0] for x in values(case, "x")] == [1, 2, 1]
    assert [total[0, 0] for total in values(case, "y")] == [11, 13, 14]
    assert values(made(folder, tmp_path, dims={}, initial_state="zeros"), "y")[2][0, 0] == 4


@pytest.mark.parametrize(
    ("feed", "match"),
    [
        ((("summe", "state"),), r"no output summe.*"),
        ((("sum", "zustand"),), r"no input zustand"),
        ((("sum", "state"), ("y", "state")), "more than one output is fed to state"),
    ],
)
def test_a_feed_that_does_not_exist_is_refused_with_the_names_that_do(
    adding: Path, tmp_path: Path, feed: tuple[tuple[str, str], ...], match: str
) -> None:
    with pytest.raises(CaseError, match=match) as raised:
        made(adding, tmp_path, feed=feed)
    if "no " in match:
        assert "outputs sum, y and the inputs x, state" in raised.value.advice


def test_a_feed_of_another_shape_is_refused(tmp_path: Path) -> None:
    ports: tuple[dict[str, Shape], dict[str, Shape]] = ({"x": [1, 2], "state": [3, 2]}, {"sum": [4, 2]})
    path = saved(tmp_path / "stacking.onnx", "Concat", *ports, axis=0)
    with pytest.raises(CaseError, match=r"sum \(float32\[4, 2\]\) cannot be fed to state \(float32\[3, 2\]\)"):
        made(path, tmp_path, dims={})


def test_what_is_no_model_cannot_be_run_by_frames(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="cannot be run by frames"):
        load("builtin:smoke", Making(tmp_path, frames=3))


def test_a_pinned_case_keeps_its_feed_and_the_names_of_its_frames(adding: Path, tmp_path: Path) -> None:
    case = made(adding, tmp_path)
    assert load_pinned(case.digest, case.name, tmp_path) == case


def test_a_case_between_others_has_no_frames_and_only_its_own_sizes(adding: Path, tmp_path: Path) -> None:
    making = Making(tmp_path, frames=3, feed=(("other", "names"),), dims={"n": 2, "m": 7})
    case = load_between(str(adding), making)
    assert (len(case.data_sets), case.feed) == (1, ())
    assert case.data_sets[0].inputs[0].shape == (2, 2)
