"""A second opinion on expected outputs, by onnx's own reference evaluator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from onnx import TensorProto

from bisect_bot import cases
from bisect_bot.cases import Making
from bisect_bot.cases.opinion import Opinion, second_opinion
from bisect_bot.model import Case, CaseKind, DataSet, Tensor
from bisect_bot.paths import config_file
from bisect_bot.verdicts import difference, load_tolerances
from tests import models

TOLERANCE = load_tolerances(config_file("tolerances.toml")).of("wasm")


def differs(expected: Tensor, actual: Tensor) -> str | None:
    return difference(expected, actual, TOLERANCE)


def asked(case: Case, limit_s: float = 60.0) -> Opinion:
    return second_opinion(case, limit_s, differs)


def loaded(folder: Path, root: Path) -> Case:
    return cases.load(str(folder), Making(root=root / "cache"))


def doubled(case: Case) -> Case:
    """`case` with expected outputs that are twice what they were."""
    sets = []
    for data_set in case.data_sets:
        tensors = tuple(replace(t, data=(t.array().astype(np.float32) * 2).tobytes()) for t in data_set.expected)
        sets.append(replace(data_set, expected=tensors))
    return replace(case, data_sets=tuple(sets))


@pytest.mark.parametrize("make", [models.average_pool, models.resize_crop])
def test_it_agrees_with_expected_outputs_that_are_right(tmp_path: Path, make: object) -> None:
    case = loaded(make(tmp_path), tmp_path)  # type: ignore[operator]
    opinion = asked(case)
    assert (opinion.agrees, "agrees" in opinion.text) == (True, True), opinion


def test_it_says_where_expected_outputs_are_wrong_by_its_own_results(tmp_path: Path) -> None:
    opinion = asked(doubled(loaded(models.add(tmp_path), tmp_path)))
    assert opinion.agrees is False
    assert "y0[0,0] is 2 instead of 4" in opinion.text


def test_it_has_no_opinion_of_an_operator_that_it_lacks(tmp_path: Path) -> None:
    opinion = asked(loaded(models.group_query_attention(tmp_path), tmp_path))
    assert opinion.agrees is None
    assert "cannot run it" in opinion.text and "GroupQueryAttention" in opinion.text


def test_what_takes_too_long_is_ended_without_an_opinion(tmp_path: Path) -> None:
    opinion = asked(loaded(models.add(tmp_path), tmp_path), limit_s=0.05)
    assert (opinion.agrees, "within 0.05 s" in opinion.text) == (None, True)
    children = [child.cmdline() for child in psutil.Process().children(recursive=True)]
    assert not [words for words in children if "bisect_bot.cases.evaluate" in words]


def test_a_script_and_4_bit_types_are_not_asked_about(tmp_path: Path) -> None:
    case = loaded(models.add(tmp_path), tmp_path)
    assert asked(replace(case, kind=CaseKind.SCRIPT)).agrees is None
    packed = DataSet("s", (Tensor("w", "int4", (2,), b"\x21"),), ())
    assert asked(replace(case, data_sets=(packed,))).agrees is None


def test_frames_are_fed_with_its_own_outputs(tmp_path: Path) -> None:
    """state = state + x, so that frame n gives n times x."""
    array = np.ones((2, 3), np.float32)
    model = models.one_node("Add", {"x": array, "s": array * 0}, TensorProto.FLOAT, opset=13, ir=7)
    first = loaded(models.save_case(tmp_path / "sum", model, {"x": array, "s": array * 0}), tmp_path)
    inputs = first.data_sets[0].inputs
    frames = tuple(
        DataSet(f"frame {n}", inputs, (Tensor("y0", "float32", (2, 3), (array * n).astype(np.float32).tobytes()),))
        for n in (1, 2, 3)
    )
    case = replace(first, data_sets=frames, feed=(("y0", "s"),))
    assert asked(case).agrees is True
    wrong = asked(replace(case, feed=()))
    assert (wrong.agrees, "in frame 2" in wrong.text) == (False, True)
