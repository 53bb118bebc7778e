"""One case from one folder or one model, wherever these lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bisect_bot.cases.bare import fill_from_model, free_dimensions
from bisect_bot.cases.files import read
from bisect_bot.cases.folder import MODEL, copy_folder
from bisect_bot.cases.frames import fill_frames_from_data_sets, fill_frames_from_model, frame_names
from bisect_bot.cases.making import Making, Source
from bisect_bot.cases.models import parse_model, signature
from bisect_bot.cases.npz import fill_from_npz, keeps_npz
from bisect_bot.cases.pin import pin
from bisect_bot.cases.text import one_line
from bisect_bot.model import Case


def folder_source(folder: Path, label: str) -> Source:
    """The case in `folder`, which holds `model.onnx` and data sets. `label` names it in errors."""
    return Source(lambda making: [pin_folder(folder, MODEL, label, folder.resolve().name, making)])


def model_source(path: Path, label: str) -> Source:
    """The case of the bare model `path`. Raises CaseError, naming `label`, when it is no readable model."""
    free = free_dimensions(signature(parse_model(read(path, label), label), label))
    return Source(lambda making: [pin_model(path, label, path.stem, making)], free)


def pin_folder(folder: Path, model: str, label: str, name: str, making: Making) -> Case:
    """Pins the case in `folder`, called `name`, whose model is the file `model` there.

    Its data sets are of `.pb` or of `.npz` files. Raises CaseError, naming `label`, when it cannot be read or run.
    """

    def fill(destination: Path) -> str:
        if keeps_npz(folder):
            reference = fill_from_npz(folder, destination, label, model)
        else:
            copy_folder(folder, destination, label, model)
            reference = "files"
        return fill_frames_from_data_sets(destination, label, making) if making.frames else reference

    return _pin(fill, label, name, making)


def pin_model(path: Path, label: str, name: str, making: Making) -> Case:
    """Pins the case of the bare model `path`, called `name`, with inputs from `making.seed`.

    Raises CaseError, naming `label`, when it cannot be read or run.
    """

    def fill(destination: Path) -> str:
        if making.frames:
            return fill_frames_from_model(path, destination, label, making)
        return fill_from_model(path, destination, label, making.dims, making.seed)

    return _pin(fill, label, name, making)


def _pin(fill: Callable[[Path], str], label: str, name: str, making: Making) -> Case:
    names = frame_names(making)
    return pin(fill, name=case_name(name), label=label, root=making.root, data_sets=names, feed=making.feed)


def case_name(text: str) -> str:
    """`text` as the name of a case: one line, never empty."""
    return one_line(text, limit=120) or "unnamed"
