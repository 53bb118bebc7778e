"""What a case needs to know of an ONNX model: its inputs and outputs, and the files that hold its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from onnx import ModelProto, ValueInfoProto

from bisect_bot.cases.element_types import ElementType, element_type
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError, CaseUnsupported


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a graph. A dimension is its size, or the name of a free one.

    `shape` is None where the model does not even tell the rank. A free dimension without a name of its own
    is called `<input>:<axis>`.
    """

    name: str
    kind: ElementType
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True)
class Signature:
    """What is fed to a model and what comes out, in graph order, without inputs that have an initialiser."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def parse_model(content: bytes, where: str) -> ModelProto:
    """The model in the serialised ModelProto `content`. Raises CaseError, naming `where`, for anything else."""
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise CaseError(
            f"{one_line(where)} is not an ONNX model: {one_line(error)}", "is the file truncated?"
        ) from error
    if not model.HasField("graph"):
        raise CaseError(f"{one_line(where)} is not an ONNX model: it has no graph", "is the file truncated or empty?")
    return model


def check_model(path: Path, where: str) -> None:
    """Lets onnx.checker look at the model at `path` and its external data. Raises CaseError with its message.

    Outputs without a shape, which the checker refuses, are let through: every runtime works them out.
    """
    copy = path.with_name(f"checked-{path.name}")
    try:
        copy.write_bytes(_with_output_shapes(parse_model(path.read_bytes(), where)).SerializeToString())
        onnx.checker.check_model(str(copy))
    except (onnx.checker.ValidationError, EncodeError, ValueError, RuntimeError, MemoryError) as error:
        message = one_line(str(error).replace(str(copy), path.name).replace(str(path.parent), ""))
        raise CaseError(f"{one_line(where)} is not a valid model: {message}") from error
    finally:
        copy.unlink(missing_ok=True)


def _with_output_shapes(model: ModelProto) -> ModelProto:
    """`model`, with an empty shape for those outputs that have none."""
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    return model


def signature(model: ModelProto, where: str) -> Signature:
    """The inputs and outputs of `model`. Raises CaseError for one that is not a numeric tensor."""
    initialised = {tensor.name for tensor in model.graph.initializer}
    initialised.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    inputs = tuple(_port(value, f"{where}: input") for value in model.graph.input if value.name not in initialised)
    return Signature(inputs, tuple(_port(value, f"{where}: output") for value in model.graph.output))


def _port(value: ValueInfoProto, where: str) -> Port:
    label = f"{where} {value.name!r}"
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        said = "has no type" if kind is None else f"is of type {kind.removesuffix('_type').replace('_', ' ')}"
        raise CaseUnsupported(
            f"{one_line(label)} {said}, which cannot be run: onnxruntime-web passes tensors only",
            "use a case whose inputs and outputs are numeric tensors",
        )
    tensor = value.type.tensor_type
    shape: tuple[int | str, ...] | None = None
    if tensor.HasField("shape"):
        shape = tuple(
            dim.dim_value
            if dim.HasField("dim_value") and dim.dim_value >= 0
            else text_of(dim.dim_param, label) or f"{value.name}:{axis}"
            for axis, dim in enumerate(tensor.shape.dim)
        )
    return Port(text_of(value.name, label), element_type(tensor.elem_type, label), shape)


def text_of(value: str | bytes, where: str) -> str:
    """`value`, a text of a model. Raises CaseError for bytes, which protobuf gives for one that is not UTF-8."""
    if isinstance(value, bytes):
        raise CaseError(f"{one_line(where)} holds a name that is no text: {one_line(value[:40])}", "is it damaged?")
    return value
