"""Tensors as protobuf files (`input_0.pb`) and back."""

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto, numpy_helper

from bisect_bot.cases.element_types import ElementType, check_size, element_type
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Tensor


def parse_tensor(content: bytes, name: str, where: str) -> Tensor:
    """The numeric tensor in the serialised TensorProto `content`, called `name` as the model's graph does.

    `where` names the file in errors. Raises CaseError for bytes that are no TensorProto, an element type that
    cannot be run, data that does not fill the shape, and data kept in another file.
    """
    proto = TensorProto()
    try:
        proto.ParseFromString(content)
    except DecodeError as error:
        raise CaseError(f"{one_line(where)} is not a tensor: {one_line(error)}", "is the file truncated?") from error
    if proto.data_type == TensorProto.UNDEFINED:
        raise CaseError(f"{one_line(where)} is not a tensor: it has no element type", "is the file truncated or empty?")
    if proto.data_location == TensorProto.EXTERNAL:
        raise CaseError(f"{one_line(where)} keeps its data in another file, which a data set may not do")
    kind = element_type(proto.data_type, where)
    shape = tuple(int(dim) for dim in proto.dims)
    check_size(kind, shape, where)
    data = _packed(proto, kind) if kind.bits == 4 else _whole(proto, kind, where)
    needed = kind.size(shape)
    if len(data) != needed:
        raise CaseError(
            f"{one_line(where)} holds {len(data)} bytes of data where {kind.name}{list(shape)} needs {needed}",
            "is the file truncated?",
        )
    return Tensor(name, kind.name, shape, data)


def _packed(proto: TensorProto, kind: ElementType) -> bytes:
    # onnx.proto: int32_data holds 4-bit elements packed two to a byte, one byte an entry.
    if proto.HasField("raw_data"):
        return bytes(proto.raw_data)
    return np.asarray(proto.int32_data, dtype=np.int32).astype(np.uint8).tobytes()


def _whole(proto: TensorProto, kind: ElementType, where: str) -> bytes:
    if proto.HasField("raw_data"):
        return bytes(proto.raw_data)  # onnx.proto: little-endian, C order, bool one byte an element
    try:
        array = numpy_helper.to_array(proto)
    except (ValueError, TypeError, OverflowError) as error:
        raise CaseError(f"{one_line(where)} is damaged: {one_line(error)}", "is the file truncated?") from error
    return array.astype(np.dtype(kind.name).newbyteorder("<")).tobytes()


def serialise_tensor(tensor: Tensor, onnx_type: int) -> bytes:
    """The TensorProto of `tensor`, whose element type is ONNX's number `onnx_type`, as bytes for a `.pb` file."""
    proto = TensorProto(name=tensor.name, data_type=onnx_type, dims=tensor.shape, raw_data=tensor.data)
    return bytes(proto.SerializeToString(deterministic=True))
