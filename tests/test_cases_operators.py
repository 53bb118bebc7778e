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
from bisect_bot.cases.operators import computes_in_half, operator_counts, operators, refuse_chance
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
    assert "folder with the outputs" in caught.value.advice


@pytest.mark.parametrize("op", RANDOM)
def test_a_seed_does_not_make_web_builds_draw_the_same_numbers(tmp_path: Path, op: str) -> None:
    onnx.save(random_model(op, seed=1.0), tmp_path / "m.onnx")
    with pytest.raises(CaseError, match=rf"{op} draws with its seed others in each implementation") as caught:
        cases.load(str(tmp_path / "m.onnx"), Making(root=tmp_path / "cache"))
    assert "with the outputs that a build gives" in caught.value.advice


def test_a_random_operator_is_taken_with_outputs_of_the_users_own(tmp_path: Path) -> None:
    model = random_model("RandomNormalLike", seed=1.0)
    folder = tmp_path / "case" / "test_data_set_0"
    folder.mkdir(parents=True)
    onnx.save(model, folder.parent / "model.onnx")
    for name in ("input_0", "output_0"):
        tensor = numpy_helper.from_array(np.ones((2, 2), np.float32), name=name[0].replace("i", "x").replace("o", "y"))
        (folder / f"{name}.pb").write_bytes(tensor.SerializeToString())
    assert cases.load(str(folder.parent), Making(root=tmp_path / "cache")).reference == "files"


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


HALF, FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT
TO_HALF, TO_FLOAT = {"to": HALF}, {"to": FLOAT}
# Nodes as (operator, inputs, output, attributes) of a model with the input x, the float16 input h, the indices i, the
# float16 weights w and the float32 weights v.
Nodes = list[tuple[str, str, str, dict[str, Any]]]


def flowing(tmp_path: Path, nodes: Nodes, outputs: dict[str, int]) -> Case:
    made_of = [helper.make_node(op, inputs.split(), [output], **extra) for op, inputs, output, extra in nodes]
    ports = [
        helper.make_tensor_value_info(name, kind, [2, 2])
        for name, kind in {"x": FLOAT, "h": HALF, "i": TensorProto.INT64}.items()
        if any(name in inputs.split() for _, inputs, _, _ in nodes)
    ]
    weights = [numpy_helper.from_array(np.ones((2, 2), kind), n) for n, kind in (("w", np.float16), ("v", np.float32))]
    ends = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    graph = helper.make_graph(made_of, "g", ports, ends, weights)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)
    return Case("m", "0" * 64, path, (), "files")


@pytest.mark.parametrize(
    ("nodes", "half"),
    [
        ([("Cast", "w", "c", TO_FLOAT), ("MatMul", "x c", "y", {})], False),
        ([("Transpose", "w", "t", {}), ("Cast", "t", "c", TO_FLOAT), ("MatMul", "x c", "y", {})], False),
        ([("Gather", "w i", "g", {}), ("Cast", "g", "c", TO_FLOAT), ("MatMul", "c v", "y", {})], False),
        ([("Cast", "h", "c", TO_FLOAT), ("MatMul", "c v", "y", {})], False),
        ([("Cast", "v", "c", TO_HALF), ("Cast", "c", "d", TO_FLOAT), ("MatMul", "x d", "y", {})], False),
        ([("Shape", "h", "s", {}), ("Reshape", "x s", "y", {})], False),
        ([("MatMul", "h w", "m", {}), ("Cast", "m", "y", TO_FLOAT)], True),
        ([("Cast", "x", "c", TO_HALF), ("MatMul", "c w", "m", {}), ("Cast", "m", "y", TO_FLOAT)], True),
        ([("Cast", "x", "c", TO_HALF), ("Reshape", "c i", "r", {}), ("Cast", "r", "y", TO_FLOAT)], True),
        ([("Gather", "w i", "g", {}), ("Relu", "g", "r", {}), ("Cast", "r", "y", TO_FLOAT)], True),
    ],
)
def test_only_what_computes_with_float16_numbers_counts_as_float16(tmp_path: Path, nodes: Nodes, half: bool) -> None:
    assert computes_in_half(flowing(tmp_path, nodes, {"y": FLOAT})) is half


def test_an_output_of_float16_does_not_make_the_others_less_exact(tmp_path: Path) -> None:
    nodes: Nodes = [("MatMul", "x v", "y", {}), ("Cast", "y", "z", TO_HALF)]
    assert not computes_in_half(flowing(tmp_path, nodes, {"y": FLOAT, "z": HALF}))


def test_nodes_that_are_computed_from_constants_alone_are_not_counted(tmp_path: Path) -> None:
    nodes: Nodes = [("MatMul", "v v", "c", {}), ("MatMul", "x c", "m", {}), ("Add", "m v", "y", {})]
    case = flowing(tmp_path, nodes, {"y": FLOAT})
    assert operators(case) == frozenset({"MatMul", "Add"})
    assert operator_counts(case) == {"MatMul": 1, "Add": 1}
