"""What a case's model computes with, and which models can have no expected outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from bisect_bot import cases
from bisect_bot.cases import Making
from bisect_bot.cases.operators import computes_in_half, operators, refuse_chance
from bisect_bot.errors import CaseError
from bisect_bot.model import Case
from tests import models


def random_model(op: str, **attributes: Any) -> ModelProto:
    """`y = x + op()`, or `op(x)` for those that take an input."""
    takes = op in ("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike")
    if not takes:
        attributes["shape"] = [2, 2]
    drawn = helper.make_node(op, ["x"] if takes else [], ["r"], **attributes)
    nodes = [drawn, helper.make_node("Cast", ["r"], ["y"], to=TensorProto.FLOAT)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


RANDOM = ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]


@pytest.mark.parametrize("op", RANDOM)
def test_a_model_that_draws_other_numbers_in_each_run_is_refused_with_advice(tmp_path: Path, op: str) -> None:
    onnx.save(random_model(op), tmp_path / "m.onnx")
    with pytest.raises(CaseError, match=rf"no expected outputs: {op} draws others in each run") as caught:
        cases.load(str(tmp_path / "m.onnx"), Making(root=tmp_path / "cache"))
    assert "seed" in caught.value.advice


def test_a_random_operator_with_a_seed_may_have_expected_outputs() -> None:
    refuse_chance(random_model("RandomNormal", seed=1.0), "m")


def test_a_random_operator_is_found_in_a_subgraph_too() -> None:
    inner = random_model("RandomNormal").graph
    branch = helper.make_graph(list(inner.node), "branch", [], list(inner.output))
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    model = helper.make_model(helper.make_graph([node], "g", [condition], list(inner.output)))
    with pytest.raises(CaseError, match="RandomNormal"):
        refuse_chance(model, "m")


@pytest.mark.parametrize(("training", "refused"), [(True, True), (False, False), (None, False)])
def test_dropout_is_refused_in_training_mode_only(training: bool | None, refused: bool) -> None:
    weights = [numpy_helper.from_array(np.array(0.5, np.float32), "ratio")]
    weights += [] if training is None else [numpy_helper.from_array(np.array(training), "training")]
    node = helper.make_node("Dropout", ["x", "ratio", *(["training"] if training is not None else [])], ["y"])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:], weights))
    if refused:
        with pytest.raises(CaseError, match="Dropout"):
            refuse_chance(model, "m")
    else:
        refuse_chance(model, "m")


def made(tmp_path: Path, model: ModelProto) -> Case:
    onnx.save(model, tmp_path / "m.onnx")
    return cases.load(str(tmp_path / "m.onnx"), Making(root=tmp_path / "cache"))


@pytest.mark.parametrize(("kind", "half"), [(np.float32, False), (np.float16, True)])
def test_a_models_operators_and_whether_it_computes_in_float16_are_known(
    tmp_path: Path, kind: type[np.generic], half: bool
) -> None:
    array = np.ones((2, 2), kind)
    output = helper.np_dtype_to_tensor_dtype(array.dtype)
    case = made(tmp_path, models.one_node("MatMul", {"a": array, "b": array}, output, opset=13, ir=7))
    assert (operators(case), computes_in_half(case)) == (frozenset({"MatMul"}), half)


def test_a_model_that_only_casts_to_float16_inside_computes_in_float16(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 13)], ir_version=7
    )
    assert computes_in_half(made(tmp_path, model))
