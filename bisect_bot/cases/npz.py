"""Data sets as numpy writes them: `inputs.npz`, and `outputs.npz` where the expected outputs are known.

They lie beside `model.onnx`, or in `test_data_set_0`, `test_data_set_1`, … The arrays are called as the model's inputs
and outputs. Without `outputs.npz`, onnxruntime on the CPU makes the outputs.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bisect_bot.cases.element_types import MAX_TENSOR_BYTES, check_size, named_type
from bisect_bot.cases.folder import MODEL, check_shape, copy_model, data_set_folders, write_data_set
from bisect_bot.cases.models import Port, signature
from bisect_bot.cases.reference import run_on_cpu
from bisect_bot.cases.text import one_line
from bisect_bot.cases.zips import open_archive
from bisect_bot.errors import CaseError
from bisect_bot.model import Tensor

INPUTS, OUTPUTS = "inputs.npz", "outputs.npz"
_HEADER_BYTES = 16 * 2**10
# The header is a Python literal, whose parser raises more than numpy says.
_BAD_HEADER = (
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    SyntaxError,
    tokenize.TokenError,
    MemoryError,
    RecursionError,
)


def keeps_npz(folder: Path) -> bool:
    """Whether the case in `folder` keeps its data sets in `.npz` files."""
    return any(path.exists() for path in (folder / INPUTS, *folder.glob(f"test_data_set_*/{INPUTS}")))


def fill_from_npz(source: Path, destination: Path, label: str, model: str = MODEL) -> str:
    """Writes the case in the folder `source` to the empty folder `destination`; returns who made the outputs.

    `model` is the name of its model file. Raises CaseError, with names that begin with `label`, for files that are
    missing or damaged, and arrays of another name, element type or number than the model's inputs or outputs.
    """
    ports = signature(copy_model(source / model, destination, f"{label}/{model}"), f"{label}/{model}")
    references: dict[str, None] = {}
    for number, place in enumerate(_places(source, label)):
        inside = label if place == source else f"{label}/{place.name}"
        inputs = _in_order(read_npz(place / INPUTS, f"{inside}/{INPUTS}"), ports.inputs, f"{inside}/{INPUTS}")
        for tensor, port in zip(inputs, ports.inputs, strict=True):
            check_shape(tensor, port, f"{inside}/{INPUTS}: {tensor.name}")
        if (place / OUTPUTS).exists():
            outputs = _in_order(read_npz(place / OUTPUTS, f"{inside}/{OUTPUTS}"), ports.outputs, f"{inside}/{OUTPUTS}")
            reference = "files"
        else:
            outputs, reference = run_on_cpu(destination / MODEL, inputs, ports, label)
        references[reference] = None
        write_data_set(destination / f"test_data_set_{number}", inputs, outputs, ports)
    return ", ".join(references)


def read_npz(path: Path, where: str) -> tuple[Tensor, ...]:
    """The arrays in the file `path`, in its order. `where` names it in errors.

    Raises CaseError for what is no `.npz` file or damaged, and for arrays that are not of numbers.
    """
    with open_archive(path, where) as archive:
        return tuple(
            parse_array(
                archive.read(file, MAX_TENSOR_BYTES + _HEADER_BYTES),
                file.filename.removesuffix(".npy"),
                f"{where}: {file.filename}",
            )
            for file in archive.entries
        )


def parse_array(content: bytes, name: str, where: str) -> Tensor:
    """The array in the `.npy` file `content`, called `name`. `where` names it in errors.

    Raises CaseError for anything but one array of numbers that fills `content` exactly. Pickles are never loaded.
    """
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"format {version[0]}.{version[1]}")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read_header(file, max_header_size=_HEADER_BYTES)
    except _BAD_HEADER as error:
        raise CaseError(f"{one_line(where)} is no numpy array: {one_line(error)}", "is the file truncated?") from error
    kind = named_type(dtype.name, where)
    shape = tuple(int(dim) for dim in shape)
    check_size(kind, shape, where)
    data = content[file.tell() :]
    if len(data) != kind.size(shape):
        raise CaseError(
            f"{one_line(where)} holds {len(data)} bytes of data where {kind.name}{list(shape)} needs"
            f" {kind.size(shape)}",
            "is the file truncated?",
        )
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if by_column else "C")
    return Tensor(name, kind.name, shape, array.astype(dtype.newbyteorder("<")).tobytes("C"))


def _places(source: Path, label: str) -> list[Path]:
    folders = data_set_folders(source, label)
    if (source / INPUTS).exists():
        if folders:
            raise CaseError(
                f"{one_line(label)} holds both {INPUTS} and {folders[0].name}", f"move {INPUTS} into a test_data_set"
            )
        return [source]
    return folders


def _in_order(tensors: Sequence[Tensor], ports: Sequence[Port], where: str) -> tuple[Tensor, ...]:
    """`tensors` in the order of `ports`, each fitting its own."""
    named = {tensor.name: tensor for tensor in tensors}
    wanted = [port.name for port in ports]
    if set(named) != set(wanted):
        raise CaseError(
            f"{one_line(where)} holds {one_line(', '.join(named) or 'nothing', 100)}, but the model has"
            f" {one_line(', '.join(wanted) or 'nothing', 100)}",
            "name the arrays as the model's inputs (outputs): np.savez('inputs.npz', **{'x': x, …})",
        )
    for port in ports:
        if named[port.name].dtype != port.kind.name:
            raise CaseError(
                f"{one_line(where)}: {one_line(port.name)} is {named[port.name].dtype}, but the model's is"
                f" {port.kind.name}",
                f"save it as array.astype('{port.kind.name}')",
            )
    return tuple(named[port.name] for port in ports)
