"""Which of many files are cases: decided by their names alone, so that it is the same for a folder and a zip."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bisect_bot.cases.folder import DATA_SET, MODEL, TENSOR_FILE
from bisect_bot.cases.npz import INPUTS
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError

MAX_FILES = 200_000
"""ONNX's node tests of all opsets, as upstream unpacks them, are about 100,000 files."""
# What macOS packs beside the files, and folders of tools.
_NOT_CASES = {"__MACOSX", "node_modules"}


@dataclass(frozen=True, slots=True)
class Found:
    """A case among files: the model file `model` in `folder`; a bare one has no data sets beside it."""

    folder: PurePosixPath
    model: str
    bare: bool

    def name(self, root: str) -> str:
        """What the case is called: its folder (`root` at the top), a bare model after its own file unless that is
        `model.onnx`."""
        stem = PurePosixPath(self.model).stem
        return stem if self.bare and self.model.lower() != MODEL else self.folder.name or root


def find_cases(names: Iterable[PurePosixPath]) -> tuple[Found, ...]:
    """The cases among the files `names`, at any depth, in the order of their folders (`opset9` before `opset10`).

    A folder with data sets (`test_data_set_N` with tensors, or `inputs.npz`) is the case of its `model.onnx`, else of
    its only `.onnx` file. Where there are no data sets, each `.onnx` file is a bare model. Hidden files are none.
    """
    models: dict[PurePosixPath, list[str]] = defaultdict(list)
    with_data: set[PurePosixPath] = set()
    for name in names:
        if any(part in _NOT_CASES or part.startswith(".") for part in name.parts):
            continue
        if name.suffix.lower() == ".onnx":
            models[name.parent].append(name.name)
        elif name.name == INPUTS and not DATA_SET.fullmatch(name.parent.name):
            with_data.add(name.parent)
        elif (TENSOR_FILE.fullmatch(name.name) or name.name == INPUTS) and DATA_SET.fullmatch(name.parent.name):
            with_data.add(name.parent.parent)
    found = []
    for folder, files in models.items():
        if folder not in with_data:
            found += [Found(folder, model, bare=True) for model in files]
        elif MODEL in files or len(files) == 1:
            found.append(Found(folder, MODEL if MODEL in files else files[0], bare=False))
    return tuple(sorted(found, key=lambda case: _natural(f"{case.folder}/{case.model}")))


def files_below(folder: Path, label: str) -> Iterator[PurePosixPath]:
    """The files below `folder`, relative to it; links are not followed.

    Raises CaseError, naming `label`, when there are more than `MAX_FILES`.
    """
    count = 0
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_CASES and not name.startswith(".")]
        count += len(folders) + len(files)
        if count > MAX_FILES:
            raise CaseError(f"{one_line(label)} holds more than {MAX_FILES} files", "name a folder further down")
        below = Path(place).relative_to(folder)
        yield from (PurePosixPath(below.as_posix(), name) for name in files)


def _natural(text: str) -> list[str | int]:
    return [int(part) if index % 2 else part for index, part in enumerate(re.split(r"([0-9]{1,18})", text))]
