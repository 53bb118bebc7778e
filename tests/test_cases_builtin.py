"""The cases that come with the tool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from bisect_bot import cases


def test_the_smoke_case_adds_two_tensors_at_an_opset_and_ir_version_that_old_builds_know(tmp_path: Path) -> None:
    case = cases.smoke(tmp_path)
    model = onnx.load(case.model)
    (data_set,) = case.data_sets
    a, b = (tensor.array().astype(np.float32) for tensor in data_set.inputs)
    assert np.array_equal(data_set.expected[0].array(), a + b)
    assert (model.ir_version, model.opset_import[0].version) == (7, 12)
    assert [node.op_type for node in model.graph.node] == ["Add"]


def test_the_demo_case_averages_what_lies_inside_of_a_window_that_leans_out(tmp_path: Path) -> None:
    case = cases.demo(tmp_path)
    model = onnx.load(case.model)
    x = case.data_sets[0].inputs[0].array().astype(np.float64)[0, 0]
    wanted = [[x[:3, :3].mean(), x[:3, 2:].mean()], [x[2:, :3].mean(), x[2:, 2:].mean()]]
    assert np.allclose(case.data_sets[0].expected[0].array()[0, 0], wanted, atol=1e-6)
    assert (model.ir_version, model.opset_import[0].version) == (9, 19)


def test_the_builtin_cases_are_the_same_each_time(tmp_path: Path) -> None:
    assert cases.smoke(tmp_path / "a").digest == cases.smoke(tmp_path / "b").digest
    assert cases.smoke(tmp_path / "a").reference.startswith("onnxruntime ")
