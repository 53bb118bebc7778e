"""Cases in a zip archive, as a reporter attaches it: ONNX folders at any depth, and bare models."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath

from bisect_bot.cases.bare import free_dimensions
from bisect_bot.cases.files import MAX_FILE_BYTES
from bisect_bot.cases.finding import Found, find_cases
from bisect_bot.cases.making import Making, Source
from bisect_bot.cases.models import parse_model, signature
from bisect_bot.cases.pin import disk_errors
from bisect_bot.cases.sets import Member, make_set
from bisect_bot.cases.single import pin_folder, pin_model
from bisect_bot.cases.text import one_line
from bisect_bot.cases.zips import Archive, open_archive
from bisect_bot.errors import CaseError
from bisect_bot.model import Case
from bisect_bot.scratch import scratch

MAX_NAME_BYTES = 200
MAX_PATH_BYTES = 1000
"""File systems allow 255 and 4096; some of it goes to the folder that is unpacked into."""


def archive_source(path: Path, label: str) -> Source:
    """The cases in the zip `path`, named after their folders. `label` names it in errors.

    They are what `find_cases` finds. Raises CaseError for an archive that is damaged, that holds no case or an entry
    that could do harm (a name that leads elsewhere, a link, a bomb), and for a bare model that cannot be read.
    """
    with open_archive(path, label) as archive:
        files = safe_files(archive)
        found = find_cases(files)
        if not found:
            inner = [str(name) for name in files if name.suffix.lower() == ".zip"]
            raise CaseError(
                f"{one_line(label)} holds no case" + (f", but another zip: {inner[0]}" if inner else ""),
                "pack a folder with a model.onnx and test_data_set_0 (input and output files), or an .onnx model",
            )
        free = {case: _free(archive, files, case) for case in found if case.bare}

    def make(making: Making) -> list[Case]:
        with disk_errors(making.root), scratch(parent=making.root / "tmp") as place:
            content = place.path / "content"
            content.mkdir()
            with open_archive(path, label) as archive:
                unpack(archive, content)
            return make_set(label, [_member(content, case, path.stem, label, free.get(case)) for case in found], making)

    return Source(make, tuple(dict.fromkeys(name for names in free.values() for name in names)))


def safe_files(archive: Archive) -> Mapping[PurePosixPath, zipfile.ZipInfo]:
    """The files in `archive` by their path. Raises CaseError for a name that leads elsewhere, or is there twice."""
    files: dict[PurePosixPath, zipfile.ZipInfo] = {}
    for entry in archive.entries:
        _check_name(entry.filename, archive.label)
        if not entry.is_dir() and files.setdefault(PurePosixPath(entry.filename), entry) is not entry:
            raise _taken(entry, archive.label)
    return files


def unpack(archive: Archive, destination: Path) -> None:
    """Writes the files in `archive` into the empty folder `destination`, and nowhere else.

    Raises CaseError for an entry that `safe_files` refuses, damage, and two entries that need the same place; OSError
    when it cannot be written.
    """
    for name, entry in safe_files(archive).items():
        target = destination / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            file = target.open("xb")
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise _taken(entry, archive.label) from error
        with file:
            for piece in archive.chunks(entry):
                file.write(piece)


def _taken(entry: zipfile.ZipInfo, label: str) -> CaseError:
    where = one_line(f"{label}: entry {entry.filename!r}")
    return CaseError(f"{where} needs the place of another entry", "is it damaged?")


def _check_name(name: str, label: str) -> None:
    where = one_line(f"{label}: entry {name!r}")
    path, as_windows = PurePosixPath(name), PureWindowsPath(name)
    # Windows' rules know drives: what leaves the folder anywhere is refused everywhere.
    if "\\" in name:
        raise CaseError(f"{where} has a backslash in its name", "pack it again with another program")
    if path.is_absolute() or as_windows.anchor or ".." in path.parts or not path.parts:
        raise CaseError(f"{where} leads out of the archive", "unpack it with care and name the folder")
    if not name.isprintable():
        raise CaseError(f"{where} has control characters in its name", "rename it and pack it again")
    sizes = [len(part.encode()) for part in path.parts]
    if max(sizes) > MAX_NAME_BYTES or sum(sizes) + len(sizes) > MAX_PATH_BYTES:
        raise CaseError(f"{where} has too long a name", "rename it and pack it again")


def _free(archive: Archive, files: Mapping[PurePosixPath, zipfile.ZipInfo], case: Found) -> tuple[str, ...]:
    name = case.folder / case.model
    where = f"{archive.label}/{name}"
    content = archive.read(files[name], MAX_FILE_BYTES - 1)
    return free_dimensions(signature(parse_model(content, where), where))


def _member(content: Path, case: Found, stem: str, label: str, free: tuple[str, ...] | None) -> Member:
    folder = content / case.folder
    name = case.name(stem)
    where = f"{label}/{case.folder}" if case.folder.parts else label
    if free is None:
        return lambda making: [pin_folder(folder, case.model, where, name, making)]
    return lambda making: [pin_model(folder / case.model, f"{where}/{case.model}", name, making.only(free))]
