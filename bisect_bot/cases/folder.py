"""The ONNX folder form of a case: `model.onnx`, its external data, and `test_data_set_N/{input_i,output_i}.pb`.

It is what ONNX's own backend tests use (onnx/backend/test/data), and the form in which cases are pinned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from onnx import ModelProto

from bisect_bot.cases.external import external_files
from bisect_bot.cases.files import copy_inside, read
from bisect_bot.cases.models import Port, Signature, check_model, parse_model, signature
from bisect_bot.cases.protos import parse_tensor, serialise_tensor
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import DataSet, Tensor

MODEL = "model.onnx"
MAX_CASE_BYTES = 2**31 - 2**24
"""A page gets its case in one response, and Chromium makes no array buffer of 2 GiB."""
DATA_SET = re.compile(r"test_data_set_([0-9]{1,9})")
TENSOR_FILE = re.compile(r"(input|output)_([0-9]{1,9})\.pb")


def copy_folder(source: Path, destination: Path, label: str, model: str = MODEL) -> None:
    """Copies what belongs to the case in `source` to the empty folder `destination`, and nothing else.

    `model` is the name of its model file. Raises CaseError, with names that begin with `label`, for a model that is
    missing, corrupt or refused by onnx.checker, and for a folder without data sets; OSError when `destination`
    cannot be written.
    """
    copy_model(source / model, destination, f"{label}/{model}")
    data_sets = data_set_folders(source, label)
    if not data_sets:
        raise CaseError(
            f"{one_line(label)} has no expected outputs: there is no test_data_set_0",
            f"to have inputs made from a seed and outputs by onnxruntime, name the model itself: {label}/{model}",
        )
    for folder in data_sets:
        (destination / folder.name).mkdir()
        for path in folder.iterdir():
            if TENSOR_FILE.fullmatch(path.name):
                content = read(path, f"{label}/{folder.name}/{path.name}")
                (destination / folder.name / path.name).write_bytes(content)


def copy_model(source: Path, destination: Path, where: str) -> ModelProto:
    """Copies the model `source` to `destination/model.onnx`, its external data beside it, and checks the copy.

    Returns the model, without its external data. `where` names it in errors. Raises CaseError as `copy_folder`.
    """
    content = read(source, where)
    model = parse_model(content, where)
    (destination / MODEL).write_bytes(content)
    size = len(content)
    for location, needed in external_files(model, where).items():
        first = location.split("/", 1)[0].lower()
        if first in {MODEL, "case.json"} or DATA_SET.fullmatch(first):
            raise CaseError(f"{one_line(where)} keeps weights in {location}, a name that the case itself needs")
        copy_inside(source.parent, location, destination / location, where)
        there = (destination / location).stat().st_size
        if there < needed:
            raise CaseError(
                f"{one_line(where)}: external data {one_line(location)} has {there} bytes where {needed} are needed",
                "is the file truncated?",
            )
        size += there
        if size > MAX_CASE_BYTES:
            raise CaseError(f"{one_line(where)} and its weights are larger than 2 GiB, which a page cannot be sent")
    check_model(destination / MODEL, where)
    return model


def read_folder(folder: Path, label: str) -> tuple[DataSet, ...]:
    """The data sets of the case in `folder`, in numerical order, tensors named after the graph's inputs and outputs.

    Raises CaseError, with names that begin with `label`, for files that are missing, too many, damaged, or of
    another element type (an input also: shape) than the model says.
    """
    model = parse_model(read(folder / MODEL, f"{label}/{MODEL}"), f"{label}/{MODEL}")
    ports = signature(model, f"{label}/{MODEL}")
    return tuple(_read_data_set(path, ports, f"{label}/{path.name}") for path in data_set_folders(folder, label))


def data_set_folders(folder: Path, label: str) -> list[Path]:
    """The folders `test_data_set_N` in `folder`, by N. Raises CaseError, naming `label`, when it cannot be read."""
    try:
        found = [(int(m[1]), p) for p in folder.iterdir() if (m := DATA_SET.fullmatch(p.name)) and p.is_dir()]
    except OSError as error:
        raise CaseError(f"{one_line(label)} cannot be read: {one_line(error.strerror)}") from error
    return [path for _, path in sorted(found)]


def write_data_set(folder: Path, inputs: Sequence[Tensor], outputs: Sequence[Tensor], ports: Signature) -> None:
    """Makes `folder` and writes the tensors of a data set into it, in the order of `ports`."""
    folder.mkdir()
    for kind, tensors, sides in (("input", inputs, ports.inputs), ("output", outputs, ports.outputs)):
        for number, (tensor, port) in enumerate(zip(tensors, sides, strict=True)):
            (folder / f"{kind}_{number}.pb").write_bytes(serialise_tensor(tensor, port.kind.onnx))


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
        (int(m[2]), path) for path in folder.iterdir() if (m := TENSOR_FILE.fullmatch(path.name)) and m[1] == kind
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
    if shaped:
        check_shape(tensor, port, label)
    return tensor


def check_shape(tensor: Tensor, port: Port, where: str) -> None:
    """Raises CaseError, naming `where`, when `tensor` has another shape than `port` declares."""
    if port.shape is not None and not _fits(tensor.shape, port.shape):
        raise CaseError(
            f"{one_line(where)} has shape {list(tensor.shape)}, but the model's {one_line(port.name)} is"
            f" {one_line(list(port.shape))}"
        )


def _fits(shape: tuple[int, ...], declared: tuple[int | str, ...]) -> bool:
    if len(shape) != len(declared):
        return False
    return all(isinstance(wish, str) or size == wish for size, wish in zip(shape, declared, strict=True))
