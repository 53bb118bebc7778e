"""Writing to the cache: whole files or none, and a full disk told from everything else."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bisect_bot.errors import DiskFull, MachineError

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextlib.contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turns an OSError from inside into an error that says what to do about the folder `where`.

    Raises DiskFull when no space (or quota) is left there, MachineError when it cannot be read or written.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full(where) from error
        raise MachineError(
            f"{where} cannot be used: {error.strerror or error}",
            "Name another folder for the cache with BISECT_BOT_CACHE, or repair the permissions of this one.",
        ) from error


def disk_full(where: Path | str) -> DiskFull:
    """The error for a full disk at `where`."""
    return DiskFull(
        f"No space is left for {where}.",
        "Free some, or name a folder on another disk with BISECT_BOT_CACHE. What is in the cache is whole.",
    )


def write_whole(path: Path, text: str) -> None:
    """Writes `text` to `path` so that a reader, or a crash, finds the old file or the new one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def used(stamp: Path) -> None:
    """Notes that the entry of the cache whose file `stamp` is, is used now: `cache gc` goes by that file's time.

    A cache that can only be read is used without a note.
    """
    with contextlib.suppress(OSError):
        os.utime(stamp)
