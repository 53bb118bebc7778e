"""Cases pinned by content: `<root>/cases/<digest>/`, complete or absent, and never changed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from bisect_bot.cases.folder import MODEL, read_folder
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError, DiskFull, MachineError
from bisect_bot.model import Case
from bisect_bot.scratch import scratch

_RECORD = "case.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_SPACE = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


def pin(fill: Callable[[Path], str], *, name: str, label: str, root: Path) -> Case:
    """Pins the case that `fill` writes, in the ONNX folder form, to the empty folder that it is given.

    `fill` returns where the expected outputs come from. `label` is what the user typed, for errors. Raises
    CaseError for a case that cannot be read, DiskFull when no space is left under `root`, MachineError when it
    cannot be written for another reason.
    """
    with _disk_errors(root), scratch(parent=root / "tmp") as place:
        content = place.path / "case"
        content.mkdir()
        reference = fill(content)
        (content / _RECORD).write_text(json.dumps({"schema": 1, "reference": reference}), encoding="utf-8")
        data_sets = read_folder(content, label)
        digest = _digest(content)
        home = root / "cases" / digest
        _move(content, home, digest)
    return Case(name, digest, home / MODEL, data_sets, reference)


def load_pinned(digest: str, name: str, root: Path) -> Case:
    """The case that was pinned as `digest` under `root`, called `name`; the user's own files are not needed.

    Raises CaseError when it is not there or was changed since.
    """
    home = root / "cases" / digest
    if not _DIGEST.fullmatch(digest) or not home.is_dir():
        raise CaseError(f"the case {one_line(name)} ({digest[:12]}) is no longer in the cache", "name its files again")
    try:
        intact = _digest(home) == digest
        record = json.loads((home / _RECORD).read_text(encoding="utf-8")) if intact else {}
    except OSError as error:
        raise CaseError(f"the pinned case {home} cannot be read: {one_line(error.strerror)}") from error
    if not intact:
        raise CaseError(f"the pinned case {home} was changed", "remove that folder and name the case's files again")
    return Case(name, digest, home / MODEL, read_folder(home, name), record["reference"])


def external_files(case: Case) -> dict[str, Path]:
    """The external data of the pinned `case`: the location that the model gives each file -> the file itself."""
    home = case.model.parent
    own = {MODEL, _RECORD, *(data_set.name for data_set in case.data_sets)}
    files = (path for path in sorted(home.rglob("*")) if path.is_file())
    named = {path.relative_to(home).as_posix(): path for path in files}
    return {location: path for location, path in named.items() if location.split("/", 1)[0] not in own}


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.relative_to(folder).as_posix()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{content}  {path.relative_to(folder).as_posix()}\0".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _move(content: Path, home: Path, digest: str) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    if home.exists():
        if _digest(home) == digest:
            return
        shutil.rmtree(home)
    for path in content.rglob("*"):
        if path.is_file():
            # Renaming promises nothing about contents that are still in memory when the power fails.
            with path.open("rb+") as file:
                os.fsync(file.fileno())
    try:
        content.rename(home)
    except OSError:
        # Another process may have pinned the same case meanwhile; its bytes are the same.
        if not home.is_dir() or _digest(home) != digest:
            raise


@contextlib.contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DiskFull(f"no space is left under {root} to pin a case", "free some space") from error
        raise MachineError(f"cases cannot be kept under {root}: {one_line(error)}", "is the cache writable?") from error
