"""Reading a user's files: only regular ones, of a bearable size, with errors that name them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError

MAX_FILE_BYTES = 2**31
"""Protobuf cannot parse a message of 2 GiB or more (larger models keep their weights in external data)."""


def read(path: Path, where: str) -> bytes:
    """The content of the regular file `path`. Raises CaseError, naming `where`, when it cannot be read as one."""
    regular(path, where)
    try:
        if path.stat().st_size >= MAX_FILE_BYTES:
            raise CaseError(f"{one_line(where)} is larger than 2 GiB", "keep the weights in external data")
        return path.read_bytes()
    except OSError as error:
        raise CaseError(f"{one_line(where)} cannot be read: {one_line(error.strerror)}") from error


def copy_inside(folder: Path, location: str, destination: Path, where: str) -> None:
    """Copies `folder/location` to `destination`, and refuses a file that really lies outside `folder`.

    Raises CaseError when the file is missing, not regular, or reached through a link that leaves the folder;
    OSError when `destination` cannot be written.
    """
    source = folder / location
    label = f"{where}: external data {location}"
    regular(source, label)
    if not source.resolve().is_relative_to(folder.resolve()):
        raise CaseError(f"{one_line(label)} lies outside the model's folder (a link)", "replace the link by the file")
    if not os.access(source, os.R_OK):
        raise CaseError(f"{one_line(label)} cannot be read: permission denied")
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.resolve(), destination)


def regular(path: Path, where: str) -> None:
    """Raises CaseError, naming `where`, when `path` is no regular file, or one that cannot be looked at."""
    try:
        exists, is_file = path.exists(), path.is_file()
    except (OSError, ValueError) as error:
        raise CaseError(f"{one_line(where)} cannot be read: {one_line(error)}") from error
    if not exists:
        raise CaseError(f"{one_line(where)} does not exist")
    if not is_file:
        raise CaseError(f"{one_line(where)} is not a regular file")
