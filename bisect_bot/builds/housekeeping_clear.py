"""Makes room in the cache: what was not used longest goes first, and nothing that a running process may hold."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import filelock

from bisect_bot.builds.disk import disk_errors
from bisect_bot.builds.housekeeping import BUILDS, LOCK, Entry, Names, Stock, used_at
from bisect_bot.builds.in_use import TMP
from bisect_bot.scratch import scratch

# File times come from a clock that is read a little late.
_SLACK_S = 1.0
# A build is put in place before its record is written.
_UNRECORDED_S = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What may stay: what was used within `keep_s` seconds, of that at most `max_bytes`. None: no such limit.

    Builds that no record leads to are of no use to anybody, and go without any limit.
    """

    keep_s: float | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Doomed:
    """An entry that goes, and the bytes that the disk has more once those before it have gone too."""

    entry: Entry
    frees: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What goes, in order; what would have gone but is `spared`; the bytes that stay."""

    doomed: tuple[Doomed, ...]
    spared: tuple[Entry, ...]
    left: int

    @property
    def frees(self) -> int:
        """Bytes on disk."""
        return sum(each.frees for each in self.doomed)


def choose(stock: Stock, limits: Limits, *, now: float, since: float | None, kept: Collection[Path]) -> Choice:
    """What of `stock` has to go for `limits`, at the time `now`.

    What was used from `since` on may be in use by a running process (None: there is none), and stays, as do the
    entries of `kept`. Files that several entries share are freed with the last of them.
    """
    names = Names(stock)
    left = stock.total
    doomed: list[Doomed] = []
    spared: list[Entry] = []
    for entry in sorted((e for e in stock.entries if e.kind.clearable), key=lambda e: (e.used, e.path)):
        idle = now - entry.used
        lost = entry.kind.name == BUILDS and not entry.what and idle > _UNRECORDED_S
        old = limits.keep_s is not None and idle > limits.keep_s
        large = limits.max_bytes is not None and left > limits.max_bytes
        if not (lost or old or large):
            continue
        if entry.path in kept or (since is not None and entry.used > since - _SLACK_S):
            spared.append(entry)
            continue
        frees = names.take(entry)
        left -= frees
        doomed.append(Doomed(entry, frees))
    return Choice(tuple(doomed), tuple(spared), left)


def remove(cache: Path, doomed: Sequence[Doomed]) -> Iterator[Doomed]:
    """Removes each entry, and gives it back once it is gone; those that were used meanwhile, or are gone, are not.

    May be interrupted at any time: an entry is there whole, or is not there. Raises MachineError when the cache cannot
    be written.
    """
    with disk_errors(cache), scratch(cache / TMP) as place:
        for number, each in enumerate(doomed):
            gone = place.path / str(number)
            with _locked(each.entry) as mine:
                taken = mine and _take(each.entry, gone)
            if taken:
                _delete(gone)
                yield each


@contextlib.contextmanager
def _locked(entry: Entry) -> Iterator[bool]:
    """Holds the lock of `entry`, where its kind has one; gives whether nobody else does."""
    if not entry.kind.locked:
        yield True
        return
    lock = filelock.FileLock(entry.path.with_name(f"{entry.name}{LOCK}"), thread_local=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _take(entry: Entry, gone: Path) -> bool:
    """Moves `entry` away unless it was used since it was looked at; whether it did."""
    try:
        if used_at(entry.kind, entry.path) > entry.used:
            return False
        entry.path.rename(gone)
    except (FileNotFoundError, PermissionError):
        # Another process was faster. Windows moves nothing that is open.
        return False
    if used_at(entry.kind, gone) <= entry.used:
        return True
    # Somebody found it between the look and the move. Where it was made anew already, that is as good.
    with contextlib.suppress(OSError):
        gone.rename(entry.path)
        return False
    return True


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
