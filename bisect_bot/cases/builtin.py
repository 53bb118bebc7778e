"""Cases that come with the tool: models made here in code, expected outputs by onnxruntime on the CPU."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto, helper

from bisect_bot.cases.bare import fill_from_model
from bisect_bot.cases.folder import MODEL
from bisect_bot.cases.pin import pin
from bisect_bot.model import Case
from bisect_bot.scratch import scratch


def smoke(root: Path) -> Case:
    """The control: Add of two float32[2,3]. Every build since 1.14 can run it, on every backend.

    Opset 12 and IR version 7 are those of ONNX 1.7 (2020), which the JavaScript (WebGL) implementation knows too.
    """
    return _pinned("smoke", _add(), root)


def demo(root: Path) -> Case:
    """AveragePool with `ceil_mode=1`, as ONNX's node test test_averagepool_2d_ceil, at opset 19.

    onnxruntime-web computes it rightly in 1.20.1 and wrongly in 1.21.0-dev.20241205 (WebGPU, JSEP).
    """
    return _pinned("demo", _average_pool(), root)


def _pinned(name: str, model: ModelProto, root: Path) -> Case:
    def fill(destination: Path) -> str:
        with scratch() as place:
            source = place.path / MODEL
            onnx.save(model, source)
            return fill_from_model(source, destination, name, {}, 0)

    return pin(fill, name=name, label=name, root=root)


def _add() -> ModelProto:
    node = helper.make_node("Add", ["a", "b"], ["sum"])
    return _model(node, {"a": [2, 3], "b": [2, 3]}, {"sum": [2, 3]}, opset=12, ir_version=7)


def _average_pool() -> ModelProto:
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    return _model(node, {"x": [1, 1, 4, 4]}, {"y": [1, 1, 2, 2]}, opset=19, ir_version=9)


def _model(
    node: onnx.NodeProto, inputs: dict[str, list[int]], outputs: dict[str, list[int]], *, opset: int, ir_version: int
) -> ModelProto:
    # The IR version is set because onnx writes its newest, which older builds refuse.
    graph = helper.make_graph(
        [node],
        node.op_type,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
