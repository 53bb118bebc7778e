"""Which part of the cache running processes may hold: whatever was used since the oldest of them began."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bisect_bot.builds.disk import disk_errors
from bisect_bot.scratch import living, scratch, sweep

TMP = "tmp"
_SINCE = "since"


@contextlib.contextmanager
def using(cache: Path) -> Iterator[None]:
    """Announces, until the end of the block, that what this process uses of the folder `cache` has to stay there.

    The announcement of a killed process does not count. Raises DiskFull or MachineError when it cannot be written.
    """
    with contextlib.ExitStack() as stack:
        with disk_errors(cache):
            place = stack.enter_context(scratch(cache / TMP))
            (place.path / _SINCE).touch()
        yield


def sweep_all(cache: Path) -> int:
    """Ends what dead processes left in the folder `cache`; returns how many things that were."""
    places = (cache / TMP, cache / "clones", *cache.glob("trees/*"))
    return sum(sweep(place) for place in places)


def used_since(cache: Path) -> float | None:
    """The file time from which on entries are in use by running processes; None when no process uses `cache`."""
    times: list[float] = []
    for place in living(cache / TMP):
        with contextlib.suppress(OSError):
            times.append((place / _SINCE).stat().st_mtime)
    return min(times, default=None)
