"""What a case needs to know of an ONNX model: its inputs and outputs, and the files that hold its weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from google.protobuf.message import DecodeError, EncodeError, Message  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto, ValueInfoProto

from bisect_bot.cases.element_types import ElementType, element_type
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError


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
        raise CaseError(
            f"{one_line(label)} {said}, which cannot be run: onnxruntime-web passes tensors only",
            "use a case whose inputs and outputs are numeric tensors",
        )
    tensor = value.type.tensor_type
    shape: tuple[int | str, ...] | None = None
    if tensor.HasField("shape"):
        shape = tuple(
            dim.dim_value
            if dim.HasField("dim_value") and dim.dim_value >= 0
            else dim.dim_param or f"{value.name}:{axis}"
            for axis, dim in enumerate(tensor.shape.dim)
        )
    return Port(value.name, element_type(tensor.elem_type, label), shape)


def external_locations(model: ModelProto, where: str) -> tuple[str, ...]:
    """The files, relative to the model's folder, that hold external data of `model`; each once, sorted.

    Raises CaseError for a location that is empty, absolute or leaves the folder by its text alone.
    """
    found: set[str] = set()
    for tensor in _tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        # Windows' rules know both separators and drives: what leaves the folder anywhere is refused everywhere.
        parts = PureWindowsPath(location)
        if not parts.parts or parts.anchor or ".." in parts.parts or not location.isprintable():
            raise CaseError(f"{one_line(where)} keeps weights at {one_line(repr(location))}, outside its folder")
        found.add(str(PurePosixPath(location)))
    return tuple(sorted(found))


def _tensors(message: Message) -> Iterator[TensorProto]:
    # Initialisers, attributes, subgraphs, functions and training information all hold tensors: walk everything.
    if isinstance(message, TensorProto):
        yield message
        return
    for _, value in message.ListFields():
        if isinstance(value, Message):
            yield from _tensors(value)
        elif not isinstance(value, (str, bytes, int, float)):
            for item in value:
                if not isinstance(item, Message):
                    break
                yield from _tensors(item)
