"""Cases pinned by content: `<root>/cases/<digest>/`, complete or absent, and never changed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bisect_bot.cases.expected import read_expected
from bisect_bot.cases.folder import DATA_SET, MODEL, read_folder
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError, DiskFull, MachineError
from bisect_bot.model import Case, CaseKind, DataSet
from bisect_bot.scratch import scratch

_RECORD = "case.json"
_FILES = "files"
"""The folder of a pinned script and of what lies beside it: a page is served this and nothing else."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_SPACE = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


def pin(
    fill: Callable[[Path], str],
    *,
    name: str,
    label: str,
    root: Path,
    data_sets: Sequence[str] = (),
    feed: Sequence[tuple[str, str]] = (),
    manifest: str = "",
) -> Case:
    """Pins the case that `fill` writes, in the ONNX folder form, to the empty folder that it is given.

    `fill` returns where the expected outputs come from. `label` is what the user typed, for errors. `data_sets` are
    the names of the data sets where they have better ones than their folders', `feed` and `manifest` are as in Case.
    Raises CaseError for a case that cannot be read, DiskFull when no space is left under `root`, MachineError when it
    cannot be written for another reason.
    """
    with disk_errors(root), scratch(parent=root / "tmp") as place:
        content = place.path / "case"
        content.mkdir()
        reference = fill(content)
        extra = {"data_sets": list(data_sets), "feed": [list(pair) for pair in feed], "manifest": manifest}
        record = {"schema": 1, "reference": reference, **{key: value for key, value in extra.items() if value}}
        (content / _RECORD).write_text(json.dumps(record), encoding="utf-8")
        read = _named(read_folder(content, label), data_sets)
        digest = _digest(content)
        home = root / "cases" / digest
        _move(content, home, digest)
    return Case(
        name,
        digest,
        home / MODEL,
        read,
        reference,
        feed=tuple(feed),
        external=_external(home),
        manifest=manifest,
    )


def pin_script(fill: Callable[[Path], str], *, script: str, name: str, label: str, root: Path) -> Case:
    """Pins the script that `fill` writes, with the files beside it, to the empty folder that it is given.

    `script` is the script's own name there. `fill` returns where the expected outputs come from; raises as `pin`.
    """
    with disk_errors(root), scratch(parent=root / "tmp") as place:
        content = place.path / "case"
        (content / _FILES).mkdir(parents=True)
        record = {"kind": CaseKind.SCRIPT.value, "script": script, "reference": fill(content / _FILES)}
        (content / _RECORD).write_text(json.dumps({"schema": 1, **record}), encoding="utf-8")
        read_expected(content / _FILES, label)  # before anything is kept that cannot be read again
        digest = _digest(content)
        home = root / "cases" / digest
        _move(content, home, digest)
    return _script(home, name, record)


def _script(home: Path, name: str, record: dict[str, str]) -> Case:
    """The script that is pinned in `home`. It gets a page of its own: nobody knows what it leaves behind."""
    return Case(
        name=name,
        digest=home.name,
        model=home / _FILES / record["script"],
        data_sets=read_expected(home / _FILES, name),
        reference=record["reference"],
        kind=CaseKind.SCRIPT,
        page=f"script {home.name} {name}",
    )


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
    _note_use(home)
    if record.get("kind") == CaseKind.SCRIPT:
        return _script(home, name, record)
    data_sets = _named(read_folder(home, name), record.get("data_sets", ()))
    feed = tuple((output, name_of_input) for output, name_of_input in record.get("feed", ()))
    return Case(
        name,
        digest,
        home / MODEL,
        data_sets,
        record["reference"],
        feed=feed,
        external=_external(home),
        manifest=record.get("manifest", ""),
    )


def _external(home: Path) -> tuple[str, ...]:
    """The files of the pinned case in `home` that are neither ours nor the case's own: the model's external data."""
    files = (path.relative_to(home).as_posix() for path in sorted(home.rglob("*")) if path.is_file())
    return tuple(location for location in files if not _own(location.split("/", 1)[0]))


def _own(name: str) -> bool:
    return name in {MODEL, _RECORD} or DATA_SET.fullmatch(name) is not None


def _named(data_sets: tuple[DataSet, ...], names: Sequence[str]) -> tuple[DataSet, ...]:
    if not names:
        return data_sets
    return tuple(replace(data_set, name=name) for data_set, name in zip(data_sets, names, strict=True))


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
            _note_use(home)
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


def _note_use(home: Path) -> None:
    """Makes the record's time that of the last use, which `cache gc` goes by; a cache that is only read has no note."""
    with contextlib.suppress(OSError):
        os.utime(home / _RECORD)


@contextlib.contextmanager
def disk_errors(root: Path) -> Iterator[None]:
    """Turns an OSError of writing below `root` into DiskFull or MachineError."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DiskFull(f"no space is left under {root} to pin a case", "free some space") from error
        raise MachineError(f"cases cannot be kept under {root}: {one_line(error)}", "is the cache writable?") from error


def digest_of(folder: Path) -> str:
    """The name that the folder of a pinned case has to have: a digest of all its files. Raises OSError."""
    return _digest(folder)
