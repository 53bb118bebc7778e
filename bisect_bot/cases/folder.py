"""The ONNX folder form of a case: `model.onnx`, its external data, and `test_data_set_N/{input_i,output_i}.pb`.

It is what ONNX's own backend tests use (onnx/backend/test/data), and the form in which cases are pinned.
"""

from __future__ import annotations

import re
from pathlib import Path

from onnx import ModelProto

from bisect_bot.cases.files import copy_inside, read
from bisect_bot.cases.models import Port, Signature, check_model, external_locations, parse_model, signature
from bisect_bot.cases.protos import parse_tensor
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import DataSet, Tensor

MODEL = "model.onnx"
_DATA_SET = re.compile(r"test_data_set_([0-9]{1,9})")
_TENSOR = re.compile(r"(input|output)_([0-9]{1,9})\.pb")


def copy_folder(source: Path, destination: Path, label: str) -> None:
    """Copies what belongs to the case in `source` to the empty folder `destination`, and nothing else.

    Raises CaseError, with names that begin with `label`, for a model that is missing, corrupt or refused by
    onnx.checker, and for a folder without data sets; OSError when `destination` cannot be written.
    """
    copy_model(source / MODEL, destination, f"{label}/{MODEL}")
    data_sets = _data_sets(source, label)
    if not data_sets:
        raise CaseError(
            f"{one_line(label)} has no expected outputs: there is no test_data_set_0",
            f"to have inputs made from a seed and outputs by onnxruntime, name the model itself: {label}/{MODEL}",
        )
    for folder in data_sets:
        (destination / folder.name).mkdir()
        for path in folder.iterdir():
            if _TENSOR.fullmatch(path.name):
                content = read(path, f"{label}/{folder.name}/{path.name}")
                (destination / folder.name / path.name).write_bytes(content)


def copy_model(source: Path, destination: Path, where: str) -> ModelProto:
    """Copies the model `source` to `destination/model.onnx`, its external data beside it, and checks the copy.

    Returns the model, without its external data. `where` names it in errors. Raises CaseError as `copy_folder`.
    """
    content = read(source, where)
    model = parse_model(content, where)
    (destination / MODEL).write_bytes(content)
    for location in external_locations(model, where):
        first = location.split("/", 1)[0].lower()
        if first in {MODEL, "case.json"} or _DATA_SET.fullmatch(first):
            raise CaseError(f"{one_line(where)} keeps weights in {location}, a name that the case itself needs")
        copy_inside(source.parent, location, destination / location, where)
    check_model(destination / MODEL, where)
    return model


def read_folder(folder: Path, label: str) -> tuple[DataSet, ...]:
    """The data sets of the case in `folder`, in numerical order, tensors named after the graph's inputs and outputs.

    Raises CaseError, with names that begin with `label`, for files that are missing, too many, damaged, or of
    another element type (an input also: shape) than the model says.
    """
    model = parse_model(read(folder / MODEL, f"{label}/{MODEL}"), f"{label}/{MODEL}")
    ports = signature(model, f"{label}/{MODEL}")
    return tuple(_read_data_set(path, ports, f"{label}/{path.name}") for path in _data_sets(folder, label))


def _data_sets(folder: Path, label: str) -> list[Path]:
    try:
        found = [(int(m[1]), p) for p in folder.iterdir() if (m := _DATA_SET.fullmatch(p.name)) and p.is_dir()]
    except OSError as error:
        raise CaseError(f"{one_line(label)} cannot be read: {one_line(error.strerror)}") from error
    return [path for _, path in sorted(found)]


def _read_data_set(folder: Path, ports: Signature, where: str) -> DataSet:
    inputs = _numbered(folder, "input", where)
    outputs = _numbered(folder, "output", where)
    if not outputs:
        raise CaseError(f"{one_line(where)} has no expected outputs", "add output_0.pb, output_1.pb, …")
    for kind, files, wanted in (("input", inputs, ports.inputs), ("output", outputs, ports.outputs)):
        if len(files) != len(wanted):
            raise CaseError(f"{one_line(where)} has {len(files)} {kind} files, but the model has {len(wanted)} {kind}s")
    return DataSet(
        folder.name,
        tuple(_read_tensor(p, port, where, shaped=True) for p, port in zip(inputs, ports.inputs, strict=True)),
        tuple(_read_tensor(p, port, where, shaped=False) for p, port in zip(outputs, ports.outputs, strict=True)),
    )


def _numbered(folder: Path, kind: str, where: str) -> list[Path]:
    found = sorted(
        (int(m[2]), path) for path in folder.iterdir() if (m := _TENSOR.fullmatch(path.name)) and m[1] == kind
    )
    if [number for number, _ in found] != list(range(len(found))):
        raise CaseError(f"{one_line(where)} lacks {kind} files: they must be {kind}_0.pb, {kind}_1.pb, … without gaps")
    return [path for _, path in found]


def _read_tensor(path: Path, port: Port, where: str, *, shaped: bool) -> Tensor:
    label = f"{where}/{path.name}"
    tensor = parse_tensor(read(path, label), port.name, label)
    if tensor.dtype != port.kind.name:
        raise CaseError(f"{one_line(label)} is {tensor.dtype}, but the model's {port.name} is {port.kind.name}")
    # Only inputs: onnxruntime refuses an input of another shape, but merely warns of an output declared wrongly.
    if shaped and port.shape is not None and not _fits(tensor.shape, port.shape):
        raise CaseError(
            f"{one_line(label)} has shape {list(tensor.shape)}, but the model's {port.name} is {list(port.shape)}"
        )
    return tensor


def _fits(shape: tuple[int, ...], declared: tuple[int | str, ...]) -> bool:
    if len(shape) != len(declared):
        return False
    return all(isinstance(wish, str) or size == wish for size, wish in zip(shape, declared, strict=True))
