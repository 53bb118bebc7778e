"""Zip archives from strangers: what is refused in them, and reading them without ever holding a bomb in memory.

Nothing is believed that an archive says of itself: sizes are counted while reading.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_bot.cases.files import regular
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError

MAX_DIRECTORY_BYTES = 16 * 2**20
MAX_ENTRIES = 100_000
MAX_TOTAL_BYTES = 4 * 2**30
"""A WebAssembly build addresses 4 GiB in all."""
SMALL_BYTES = 256 * 2**20
MAX_RATIO = 100
"""Zeros compress 1000 times, so the ratio counts only above `SMALL_BYTES`; weights compress hardly."""
CHUNK_BYTES = 2**20

_UNPACK = "unpack it and name the folder"
_BOMB = "if it is no zip bomb, unpack it and name the folder"
_LOCAL_HEADER_BYTES = 30
_ENCRYPTED = 0x1
_KINDS = {0, stat.S_IFREG, stat.S_IFDIR}
# Of others, zipfile unpacks as much as 4 KiB can stand for (bzip2: gigabytes) before anybody can count.
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
# What zipfile and zlib raise for damaged archives, by trial with mutated ones. It has no base class of its own.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    struct.error,
    OSError,
)


@dataclass(slots=True)
class Archive:
    """An open archive: its entries, in their order, folders among them. `label` names it in errors."""

    label: str
    entries: tuple[zipfile.ZipInfo, ...]
    _zip: zipfile.ZipFile
    _size: int
    _taken: int = 0

    def chunks(self, file: zipfile.ZipInfo) -> Iterator[bytes]:
        """The content of `file`, at most 1 MiB at a time.

        Raises CaseError for damage, and when all that was read of the archive is too much to be true.
        """
        with _damage(self.label):
            stream = self._zip.open(file)
        with stream:
            while True:
                with _damage(self.label):
                    piece = stream.read(CHUNK_BYTES)
                if not piece:
                    return
                self._count(len(piece))
                yield piece

    def read(self, file: zipfile.ZipInfo, limit: int) -> bytes:
        """The content of `file`. Raises CaseError as `chunks`, and for more than `limit` bytes."""
        content = io.BytesIO()
        for piece in self.chunks(file):
            if content.tell() + len(piece) > limit:
                where = one_line(f"{self.label}/{file.filename}")
                raise CaseError(f"{where} is larger than {limit / 2**30:.3g} GiB")
            content.write(piece)
        return content.getvalue()

    def _count(self, size: int) -> None:
        self._taken += size
        if self._taken > MAX_TOTAL_BYTES:
            raise CaseError(f"{one_line(self.label)} unpacks to more than {MAX_TOTAL_BYTES / 2**30:g} GiB", _BOMB)
        if self._taken > SMALL_BYTES and self._taken > MAX_RATIO * self._size:
            raise CaseError(f"{one_line(self.label)} unpacks to more than {MAX_RATIO} times its size", _BOMB)


@contextlib.contextmanager
def open_archive(path: Path, label: str) -> Iterator[Archive]:
    """The zip archive `path`, open. `label` names it in errors.

    Raises CaseError for what is no archive, is damaged or encrypted, holds a link, a device or the same name twice,
    or is compressed in another way than with deflate.
    """
    regular(path, label)
    with _damage(label):
        file = _Careful(path)
    with file, contextlib.ExitStack() as stack:
        with _damage(label):
            archive = stack.enter_context(zipfile.ZipFile(file))
            entries = tuple(archive.infolist())
        _check(entries, archive.start_dir, label)
        yield Archive(label, entries, archive, path.stat().st_size)


class _Careful(io.FileIO):
    """A file that gives no more at once than an honest archive's directory: zipfile reads that as a whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        """As FileIO's. Raises BadZipFile for too much."""
        wanted = os.fstat(self.fileno()).st_size - self.tell() if size is None or size < 0 else size
        if wanted > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"its directory takes more than {MAX_DIRECTORY_BYTES // 2**20} MiB")
        return super().read(size)


def _check(entries: Sequence[zipfile.ZipInfo], end: int, label: str) -> None:
    if len(entries) > MAX_ENTRIES:
        raise CaseError(f"{one_line(label)} holds {len(entries)} entries, more than {MAX_ENTRIES}", _UNPACK)
    for entry in entries:
        where = one_line(f"{label}: entry {entry.filename!r}")
        if entry.flag_bits & _ENCRYPTED:
            raise CaseError(f"{where} is encrypted", "pack it again without a password")
        if entry.compress_type not in _METHODS:
            raise CaseError(f"{where} is not compressed with deflate (method {entry.compress_type})", _UNPACK)
        if stat.S_IFMT(entry.external_attr >> 16) not in _KINDS:
            raise CaseError(f"{where} is a link or a device", "pack it again with the files themselves")
    names = Counter(entry.filename for entry in entries)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise CaseError(f"{one_line(label)} holds {one_line(repr(twice))} twice", "is it damaged?")
    places = sorted((entry.header_offset, entry.compress_size) for entry in entries)
    for (start, size), (following, _) in itertools.pairwise([*places, (end, 0)]):
        if start + _LOCAL_HEADER_BYTES + size > following:
            raise CaseError(f"{one_line(label)} holds entries that overlap, as in a zip bomb", _UNPACK)


@contextlib.contextmanager
def _damage(label: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise CaseError(
            f"{one_line(label)} is no readable zip archive: {one_line(error)}", "is the file truncated?"
        ) from error
