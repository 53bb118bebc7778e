"""The element types that a case can hold: ONNX's number, onnxruntime-web's name, and the size of one element.

onnxruntime-web's names are those of `Tensor.Type` in onnxruntime-common (js/common/lib/tensor.ts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnx import TensorProto

from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError, CaseUnsupported

MAX_TENSOR_BYTES = 2**31
"""A WebAssembly build of onnxruntime-web addresses 4 GiB in all and JavaScript's typed arrays end near 2 GiB."""

MAX_RANK = 64
"""That of numpy's arrays."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type by its three names: ONNX's number, onnxruntime-web's name, the bits that one element takes."""

    onnx: int
    name: str
    bits: int

    def size(self, shape: Sequence[int]) -> int:
        """Bytes that a tensor of `shape` takes; 4-bit elements are packed two to a byte, the last one padded."""
        return (math.prod(shape) * self.bits + 7) // 8


_SUPPORTED = {
    kind.onnx: kind
    for kind in (
        ElementType(TensorProto.FLOAT, "float32", 32),
        ElementType(TensorProto.UINT8, "uint8", 8),
        ElementType(TensorProto.INT8, "int8", 8),
        ElementType(TensorProto.UINT16, "uint16", 16),
        ElementType(TensorProto.INT16, "int16", 16),
        ElementType(TensorProto.INT32, "int32", 32),
        ElementType(TensorProto.INT64, "int64", 64),
        ElementType(TensorProto.BOOL, "bool", 8),
        ElementType(TensorProto.FLOAT16, "float16", 16),
        ElementType(TensorProto.DOUBLE, "float64", 64),
        ElementType(TensorProto.UINT32, "uint32", 32),
        ElementType(TensorProto.UINT64, "uint64", 64),
        ElementType(TensorProto.UINT4, "uint4", 4),
        ElementType(TensorProto.INT4, "int4", 4),
    )
}


def element_type(number: int, where: str) -> ElementType:
    """The element type with ONNX's `number`; `where` names the tensor in errors.

    Raises CaseUnsupported for one that cannot be run.
    """
    kind = _SUPPORTED.get(number)
    if kind is None:
        names = TensorProto.DataType
        name = names.Name(number).lower() if number in names.values() else f"unknown ({number})"
        raise CaseUnsupported(
            f"{one_line(where)} has element type {name}, which cannot be run: onnxruntime-web has no such tensors"
            if number != TensorProto.STRING
            else f"{one_line(where)} holds strings, which cannot be run: only numeric tensors can be compared on a GPU",
            "use a case whose inputs and outputs are numeric tensors (float16/32/64, integers, bool, int4/uint4)",
        )
    return kind


def named_type(name: str, where: str) -> ElementType:
    """The element type that onnxruntime-web calls `name`. Raises CaseError, naming `where`, as `element_type`."""
    kind = next((kind for kind in _SUPPORTED.values() if kind.name == name), None)
    if kind is not None:
        return kind
    if name == "string":
        return element_type(TensorProto.STRING, where)
    known = ", ".join(kind.name for kind in _SUPPORTED.values())
    raise CaseError(f"{one_line(where)} has the element type {one_line(name, 40)!r}", f"it can be {known}")


def check_size(kind: ElementType, shape: Sequence[int], where: str) -> None:
    """Refuses what no tensor can be, before anything is allocated (CaseError).

    That is a negative dimension, more dimensions than numpy has and a size above `MAX_TENSOR_BYTES`.
    """
    if len(shape) > MAX_RANK:
        raise CaseError(f"{one_line(where)} has {len(shape)} dimensions, more than {MAX_RANK}")
    if any(dim < 0 for dim in shape):
        raise CaseError(f"{one_line(where)} has a negative dimension: {list(shape)[:16]}")
    size = kind.size(shape)
    if size > MAX_TENSOR_BYTES:
        raise CaseError(
            f"{one_line(where)} claims {size / 2**30:.3g} GiB, more than {MAX_TENSOR_BYTES // 2**30} GiB for one tensor"
        )
