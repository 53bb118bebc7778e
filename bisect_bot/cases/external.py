"""External data: weights that a model keeps in files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath, PureWindowsPath

from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto

from bisect_bot.cases.element_types import element_type
from bisect_bot.cases.models import text_of
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError, CaseUnsupported

_BYTES = re.compile(r"[0-9]{1,18}")


def external_files(model: ModelProto, where: str) -> Mapping[str, int]:
    """The files, relative to the model's folder, that hold external data of `model`, and the bytes that each needs.

    They are sorted. Raises CaseError, naming `where`, for a location that is empty, absolute or leaves the folder by
    its text alone, and for an offset or length that is no number or does not fit the tensor.
    """
    found: dict[str, int] = {}
    for tensor in _tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {text_of(e.key, where): text_of(e.value, where) for e in reversed(tensor.external_data)}
        location = entries.get("location", "")
        # Windows' rules know both separators and drives: what leaves the folder anywhere is refused everywhere.
        parts = PureWindowsPath(location)
        if not parts.parts or parts.anchor or ".." in parts.parts or not location.isprintable():
            raise CaseError(f"{one_line(where)} keeps weights at {one_line(repr(location))}, outside its folder")
        name = str(PurePosixPath(location))
        found[name] = max(found.get(name, 0), _end(tensor, entries, f"{where}: {text_of(tensor.name, where)}"))
    return dict(sorted(found.items()))


def _end(tensor: TensorProto, entries: Mapping[str, str], where: str) -> int:
    """Where in its file the data of `tensor` ends, as far as the model tells."""
    for key in ("offset", "length"):
        if key in entries and not _BYTES.fullmatch(entries[key]):
            raise CaseError(f"{one_line(where)} has external data with {key} {one_line(repr(entries[key]), 40)}")
    offset, length = int(entries.get("offset", 0)), int(entries["length"]) if "length" in entries else None
    try:
        needed: int | None = element_type(tensor.data_type, where).size(tensor.dims)
    except CaseUnsupported:
        needed = length  # weights may have types that no input has
    if length is not None and length != needed:
        raise CaseError(f"{one_line(where)} has {length} bytes of external data where its shape needs {needed}")
    return offset + (needed or 0)


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
