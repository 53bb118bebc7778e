"""Scripts: a JavaScript module that drives onnxruntime-web itself, pinned with the files beside it.

What is pinned: of a folder, its `repro.mjs` and every regular file in it at any depth; of a script that is named by
itself, the regular files directly beside it (so that a report written to a folder beside it does not change the
case). Hidden files and folders (a leading dot), links and special files are left out. `expected.json` beside the
script says what it must give.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bisect_bot.cases.expected import EXPECTED
from bisect_bot.cases.files import read
from bisect_bot.cases.making import Source
from bisect_bot.cases.pin import pin_script
from bisect_bot.cases.single import case_name
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Case

SCRIPT = "repro.mjs"
SUFFIXES = (".mjs", ".js")
MAX_FILES = 500
MAX_BYTES = 2**31
"""All files together; a page cannot hold more than that in one ArrayBuffer anyway."""


def is_script(path: Path) -> bool:
    """Whether `path` is a case of this kind: a `.mjs` or `.js` file, or a folder with `repro.mjs`.

    A folder with both `repro.mjs` and `model.onnx` is a script, and the model one of its files.
    """
    if path.is_dir():
        return (path / SCRIPT).is_file()
    return path.suffix.lower() in SUFFIXES


def script_source(path: Path, label: str) -> Source:
    """The case of the script `path`: a file, or a folder with `repro.mjs`. `label` is what the user typed, for errors.

    Making it raises CaseError for a script that exports no `run`, for files that are too many, too large or cannot be
    read, and for an `expected.json` that does not fit.
    """
    deep = path.is_dir()
    folder, script = (path, SCRIPT) if deep else (path.parent, path.name)
    name = case_name(path.resolve().name if deep else path.stem)

    def fill(destination: Path) -> str:
        content = read(folder / script, f"{label}/{script}" if deep else label)
        if b"export" not in content or b"run" not in content:
            raise CaseError(
                f"{one_line(label)} exports no function run",
                "write: export async function run({ ort, createSession, fetchAsset, report }) { … }",
            )
        for relative in _files(folder, label, deep=deep):
            _copy(folder / relative, destination / relative, f"{label}: {relative}")
        # It was named outright: it is taken even where it is hidden, or a link.
        (destination / script).write_bytes(content)
        return EXPECTED if (destination / EXPECTED).is_file() else "the script itself"

    return Source(lambda making: [pin_script(fill, script=script, name=name, label=label, root=making.root)])


def describe_script(case: Case) -> str:
    """What the script `case` is, on one line: how many files lie beside it, what is compared, and its digest."""
    beside = sum(path.is_file() for path in case.model.parent.rglob("*")) - 1
    wanted = ", ".join(f"{t.name} {t.dtype}{list(t.shape)}" for d in case.data_sets for t in d.expected)
    files = f"{beside} file{'' if beside == 1 else 's'} beside it"
    compared = f"compared: {wanted}" if wanted else "nothing compared"
    return one_line(f"script {case.model.name}, {files}; {compared}; sha256 {case.digest[:16]}", limit=400)


def _files(folder: Path, label: str, *, deep: bool) -> list[str]:
    """The files to pin, as paths relative to `folder`. Raises CaseError above the limits."""
    found: list[str] = []
    total = 0
    for entry in _walk(folder, label, deep=deep):
        relative = os.path.relpath(entry.path, folder)
        if not relative.isprintable():
            raise CaseError(f"{one_line(label)} has a file with an unprintable name: {one_line(ascii(relative))}")
        found.append(relative)
        total += entry.stat(follow_symlinks=False).st_size
        if len(found) > MAX_FILES or total > MAX_BYTES:
            raise CaseError(
                f"{one_line(label)} lies among more than {MAX_FILES} files or {MAX_BYTES // 2**30} GiB, "
                "which would all be kept with it",
                "put the script, with what it needs, into a folder of its own",
            )
    return sorted(found)


def _walk(folder: Path, label: str, *, deep: bool) -> Iterator[os.DirEntry[str]]:
    """The regular files in `folder`, and with `deep` below it, that are neither hidden nor links."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_file(follow_symlinks=False):
                    yield entry
                elif deep and entry.is_dir(follow_symlinks=False):
                    yield from _walk(Path(entry.path), label, deep=True)
    except (OSError, RecursionError) as error:
        raise CaseError(f"{one_line(label)} cannot be read: {one_line(error)}") from error


def _copy(source: Path, destination: Path, where: str) -> None:
    if not os.access(source, os.R_OK):
        raise CaseError(f"{one_line(where)} cannot be read: permission denied")
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination, follow_symlinks=False)
