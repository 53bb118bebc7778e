"""One-node models whose behaviour changed between published builds, each small enough to be checked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

Arrays = Mapping[str, NDArray[np.generic]]


def one_node(
    op: str,
    inputs: Arrays,
    output: int,
    *,
    opset: int,
    ir: int,
    domain: str = "",
    outputs: int = 1,
    **attributes: Any,
) -> ModelProto:
    """A model of the one node `op`; its outputs `y0`, `y1`, … have the element type `output` and no declared shape.

    An input of the name "" is one that is left out.
    """
    names = [f"y{n}" for n in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), names, domain=domain, **attributes)],
        op.lower(),
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
            if n
        ],
        [helper.make_tensor_value_info(name, output, None) for name in names],
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def save_case(folder: Path, model: ModelProto, inputs: Arrays) -> Path:
    """Writes the ONNX folder form of a case into `folder`, expected outputs by onnxruntime on the CPU."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    inputs = {name: array for name, array in inputs.items() if name}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for index, (name, array) in enumerate(inputs.items()):
        (data / f"input_{index}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
    for index, (output, array) in enumerate(zip(model.graph.output, session.run(None, dict(inputs)), strict=True)):
        tensor = numpy_helper.from_array(np.asarray(array), output.name)
        (data / f"output_{index}.pb").write_bytes(tensor.SerializeToString())
    return folder


def counting(*shape: int) -> NDArray[np.generic]:
    """float32 1, 2, 3, … in `shape`."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def average_pool(folder: Path) -> Path:
    """AveragePool, opset 19, ceil_mode: on the CPU in 1.20.1, an error in the WebGPU kernel of 1.21.0."""
    inputs = {"x": counting(1, 1, 4, 4)}
    model = one_node(
        "AveragePool", inputs, TensorProto.FLOAT, opset=19, ir=9, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1
    )
    return save_case(folder / "average_pool", model, inputs)


def resize_crop(folder: Path) -> Path:
    """Resize, tf_crop_and_resize over the axes 2 and 3: wrong in 1.20.1 (JSEP), right in 1.30.0 (native)."""
    inputs = {
        "x": counting(1, 1, 4, 4),
        "roi": np.array([0.4, 0.6, 0.6, 0.8], np.float32),
        "": np.array([], np.float32),
        "sizes": np.array([3, 3], np.int64),
    }
    model = one_node(
        "Resize",
        inputs,
        TensorProto.FLOAT,
        opset=19,
        ir=9,
        axes=[2, 3],
        coordinate_transformation_mode="tf_crop_and_resize",
        mode="linear",
    )
    return save_case(folder / "resize_crop", model, inputs)


def grid_sample(folder: Path) -> Path:
    """GridSample, bilinear, zeros: on the CPU up to 1.21.0-dev.20241024, wrong on WebGPU from …-dev.20241205."""
    points = [[-3, -3], [-0.5, -0.5], [0.5, 0.5], [3, 3]]
    inputs = {"x": counting(1, 1, 2, 2), "grid": np.array(points, np.float32).reshape(1, 2, 2, 2)}
    model = one_node("GridSample", inputs, TensorProto.FLOAT, opset=16, ir=8, mode="bilinear")
    return save_case(folder / "grid_sample", model, inputs)


def conv_transpose_1d(folder: Path) -> Path:
    """ConvTranspose 1-D with output_padding: a shape too short up to 1.21.0-dev.20250114, right from …-dev.20250206."""
    inputs = {"x": counting(1, 1, 4), "w": counting(1, 1, 3)}
    model = one_node("ConvTranspose", inputs, TensorProto.FLOAT, opset=11, ir=7, strides=[2], output_padding=[1])
    return save_case(folder / "conv_transpose_1d", model, inputs)


def transpose_rank_1(folder: Path) -> Path:
    """Transpose of f32[8]: a shader that does not compile and zeros, without exception; fixed in …-dev.20241205."""
    inputs = {"x": counting(8)}
    return save_case(
        folder / "transpose_rank_1", one_node("Transpose", inputs, TensorProto.FLOAT, opset=17, ir=8, perm=[0]), inputs
    )


def pad_wrap(folder: Path) -> Path:
    """Pad 21 in mode wrap: on the CPU up to 1.21.0-dev.20241024, an uncaught GPU error from …-dev.20241205."""
    inputs = {"x": counting(2, 3), "pads": np.array([0, 1, 0, 1], np.int64)}
    return save_case(
        folder / "pad_wrap", one_node("Pad", inputs, TensorProto.FLOAT, opset=21, ir=10, mode="wrap"), inputs
    )


def group_query_attention(folder: Path) -> Path:
    """GroupQueryAttention with an empty past: an exception in 1.20.1 (zero-sized tensor), right afterwards."""
    q = (np.arange(32, dtype=np.float32) / 16 - 1).reshape(1, 1, 32)
    past = np.zeros((1, 2, 0, 16), np.float32)
    inputs: Arrays = {
        "q": q,
        "k": -q,
        "v": q * np.float32(2),
        "past_k": past,
        "past_v": past,
        "seqlens_k": np.zeros(1, np.int32),
        "total": np.array(1, np.int32),
    }
    model = one_node(
        "GroupQueryAttention",
        inputs,
        TensorProto.FLOAT,
        opset=17,
        ir=8,
        domain="com.microsoft",
        outputs=3,
        num_heads=2,
        kv_num_heads=2,
    )
    return save_case(folder / "group_query_attention", model, inputs)


def add(folder: Path, name: str = "add", rows: int = 2) -> Path:
    """Add of two float32[rows,3]: right everywhere."""
    inputs = {"a": counting(rows, 3), "b": counting(rows, 3)}
    return save_case(folder / name, one_node("Add", inputs, TensorProto.FLOAT, opset=13, ir=7), inputs)
