"""Small cases on disk, made with onnx itself, for the tests of cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from bisect_bot import cases
from bisect_bot.model import Case


def value(name: str, shape: Sequence[int | str | None] | None, kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def identity_model(kind: int = TensorProto.FLOAT, shape: Sequence[int | str | None] | None = (2,)) -> ModelProto:
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "identity", [value("x", shape, kind)], [value("y", shape, kind)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def write_folder(
    folder: Path, model: ModelProto, inputs: Sequence[TensorProto], outputs: Sequence[TensorProto], number: int = 0
) -> Path:
    data_set = folder / f"test_data_set_{number}"
    data_set.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for index, tensor in enumerate(tensors):
            (data_set / f"{kind}_{index}.pb").write_bytes(tensor.SerializeToString())
    return folder


def identity_folder(folder: Path) -> Path:
    """A folder whose case is y = x for two floats."""
    tensor = helper.make_tensor("x", TensorProto.FLOAT, [2], [1.5, -2.0])
    return write_folder(folder, identity_model(), [tensor], [tensor])


def load(path: Path | str, root: Path, *, seed: int = 0, **dims: int) -> Case:
    return cases.load(str(path), cases.Making(root, dims, seed))


def test_the_sample_folder_is_a_case_with_the_models_names_and_the_files_values(tmp_path: Path) -> None:
    case = load(identity_folder(tmp_path / "same"), tmp_path / "cache")
    (data_set,) = case.data_sets
    assert (case.name, case.reference, data_set.name) == ("same", "files", "test_data_set_0")
    assert [(t.name, t.dtype, t.array().tolist()) for t in data_set.inputs] == [("x", "float32", [1.5, -2.0])]
    assert [(t.name, t.array().tolist()) for t in data_set.expected] == [("y", [1.5, -2.0])]
