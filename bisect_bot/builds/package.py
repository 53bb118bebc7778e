"""Takes out of an npm package what a browser needs, and trusts none of its entries."""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

from bisect_bot.builds.store import COMMIT_ID
from bisect_bot.errors import BuildFailed

MAX_FILE = 256 << 20
MAX_TOTAL = 1 << 30
MAX_ENTRIES = 20_000
_WANTED = (".js", ".mjs", ".wasm")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What a package says of itself. `sources` are the git blob ids of its `lib/**/*.ts` by their path.

    `commit` is the id inside its WebAssembly, `declared_commit` that of its `__commit.txt` (dev builds have it).
    """

    commit: str | None
    declared_commit: str | None
    sources: dict[str, str]


def unpack(tarball: Path, into: Path, drop: Iterable[str]) -> Unpacked:
    """Writes `package.json` and what a browser needs of `dist/` (without that folder's name) to the folder `into`.

    Source maps, what matches `drop` and unminified twins of minified files stay out. Raises BuildFailed when
    the package is damaged, too large, or holds an entry that is no plain file or would land elsewhere; OSError.
    """
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            members = dict(_checked(archive, into))
            wanted = {name for name in members if _is_wanted(name, members.keys(), tuple(drop))}
            commits: set[str] = set()
            sources: dict[str, str] = {}
            declared: str | None = None
            # In the order of the archive: a compressed stream can only be read forwards without starting anew.
            for name, member in members.items():
                if name in wanted:
                    data = _read(archive, member)
                    if name.endswith(".wasm"):
                        commits |= {found.decode() for found in COMMIT_ID.findall(data)}
                    target = into / name.removeprefix("dist/")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(data)
                elif name.startswith("lib/") and name.endswith(".ts"):
                    sources[name] = blob_id(_read(archive, member))
                elif name == "__commit.txt":
                    text = _read(archive, member).decode("ascii", "replace").strip()
                    declared = text if _COMMIT.fullmatch(text) else None
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        raise BuildFailed(f"the package cannot be unpacked: {error}") from error
    # Two ids in one package would mean that its parts were built apart: then neither speaks for it.
    return Unpacked(commits.pop() if len(commits) == 1 else None, declared, sources)


def extract(tarball: Path, folder: str, names: Iterable[str], into: Path) -> None:
    """Writes the files `names` of the package's folder `folder` to the folder `into`.

    Raises BuildFailed when the package is damaged, lacks one, or holds an entry that would land elsewhere; OSError.
    """
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            members = dict(_checked(archive, into))
            for name in names:
                member = members.get(f"{folder}/{name}")
                if member is None:
                    raise BuildFailed(f"the package lacks {folder}/{name}")
                (into / name).write_bytes(_read(archive, member))
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        raise BuildFailed(f"the package cannot be unpacked: {error}") from error


def blob_id(data: bytes) -> str:
    """The git object id of a blob with these bytes: sha1 of `blob <length>`, a zero byte and the bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _checked(archive: tarfile.TarFile, into: Path) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """Name (without the leading `package/`) and entry of every file, after all have been found harmless."""
    total = 0
    for count, member in enumerate(archive, start=1):
        name = PurePosixPath(member.name)
        if not (member.isfile() or member.isdir()):
            raise BuildFailed(f"the package holds {member.name!r}, which is no plain file")
        if name.is_absolute() or ".." in name.parts or re.search(r"[\\:\x00-\x1f]", member.name):
            raise BuildFailed(f"the package holds {member.name!r}, an entry that escapes its folder")
        total += member.size
        if member.size > MAX_FILE or total > MAX_TOTAL or count > MAX_ENTRIES:
            raise BuildFailed(f"the package is too large at {member.name!r} ({total:,} bytes so far)")
        # Python's own check besides ours: it knows platforms' peculiarities.
        tarfile.data_filter(member, str(into))
        if member.isfile() and len(name.parts) > 1:
            yield "/".join(name.parts[1:]), member


def _is_wanted(name: str, names: Iterable[str], drop: tuple[str, ...]) -> bool:
    if name == "package.json":
        return True
    if not name.startswith("dist/") or not name.endswith(_WANTED):
        return False
    stem, _, suffix = name.rpartition(".")
    if f"{stem}.min.{suffix}" in names:
        return False
    return not any(fnmatchcase(name.removeprefix("dist/"), pattern) for pattern in drop)


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file: IO[bytes] | None = archive.extractfile(member)
    if file is None:
        raise tarfile.TarError(f"{member.name!r} has no contents")
    with file:
        return file.read()
