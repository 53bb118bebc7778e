"""What lies in the cache: each entry with its size on disk, and when it was last used."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bisect_bot.builds.store import STAMP, Store
from bisect_bot.scratch import PREFIX

Inode = tuple[int, int]
_BLOCK = 512  # what st_blocks counts in, whatever the file system (stat(2))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of entry: those that match `pattern` below the cache. Its file `stamp` has the time of the last use.

    Without `stamp`, or where that is missing, it is the latest change in the entry itself and directly below it. What
    is `clearable` can be had again: built, fetched, or made from the user's files. Who works in an entry of a kind that
    is `locked` holds the lock of the file beside it, `<entry>.lock`.
    """

    name: str
    pattern: str
    means: str
    stamp: str = ""
    clearable: bool = True
    locked: bool = False


LOCK = ".lock"
BUILDS, CASES, UNFINISHED = "builds", "cases", "unfinished"
KINDS = (
    Kind(BUILDS, "artifacts/*/*", "what browsers load, and the parts that it is put together from", STAMP),
    Kind(CASES, "cases/*", "pinned cases", "case.json"),
    Kind("clones", "clones/*", "private clones of upstream"),
    Kind("trees", "trees/*", "checked-out files to build from", locked=True),
    Kind("modules", "modules/*", "installed packages to build with", locked=True),
    Kind("steps", "steps/*", "what build steps made, for other folders"),
    Kind("logs", "logs/*", "what build commands said"),
    Kind("records", "keys", "what each build was made from, and came to", clearable=False),
    Kind("journal", "journal.sqlite3*", "sessions, observations, verdicts", clearable=False),
    Kind(UNFINISHED, "tmp/*", "what is being made, or was when its maker was killed", clearable=False),
)
_UNFINISHED = KINDS[-1]
OTHER = Kind("other", "*", "", clearable=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `what` says what it is for, as far as that is known; `used` and `made` are seconds since 1970.

    `own` are the bytes on disk that are this entry's alone, `shared` its files that have more than one name.
    """

    kind: Kind
    path: Path
    what: str
    used: float
    made: float
    own: int
    shared: tuple[Inode, ...] = ()

    @property
    def name(self) -> str:
        """What it is called on disk."""
        return self.path.name


@dataclass(frozen=True, slots=True)
class Stock:
    """All entries. `sizes` are the bytes and the number of names of each file that has several."""

    root: Path
    entries: tuple[Entry, ...]
    sizes: Mapping[Inode, tuple[int, int]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Bytes on disk; a file with several names counts once."""
        return sum(self.listed().values())

    def listed(self) -> dict[Path, int]:
        """The bytes of each entry; a file that several share counts for the one that was made first."""
        seen: set[Inode] = set()
        bytes_of = {}
        for entry in sorted(self.entries, key=lambda e: (e.made, e.path)):
            new = set(entry.shared) - seen
            seen |= new
            bytes_of[entry.path] = entry.own + sum(self.sizes[inode][0] for inode in new)
        return bytes_of


@dataclass(slots=True)
class Names:
    """How many names each shared file of a stock still has while entries are taken away."""

    stock: Stock
    _left: dict[Inode, int] = field(init=False)

    def __post_init__(self) -> None:
        self._left = {inode: names for inode, (_, names) in self.stock.sizes.items()}

    def take(self, entry: Entry) -> int:
        """Takes `entry` away; the bytes that the disk has more without it."""
        freed = entry.own
        for inode, count in Counter(entry.shared).items():
            self._left[inode] -= count
            if self._left[inode] <= 0:
                freed += self.stock.sizes[inode][0]
        return freed


def take_stock(root: Path) -> Stock:
    """What lies in the cache `root`; nothing when there is none. What vanishes meanwhile is left out."""
    revisions = _revisions(root)
    sizes: dict[Inode, tuple[int, int]] = {}
    entries: list[Entry] = []
    for kind, path in _places(root):
        with contextlib.suppress(FileNotFoundError):
            own, shared = _measure(path, sizes)
            what = revisions.get(path.name, "") if kind.name == BUILDS else ""
            made = path.lstat().st_mtime
            entries.append(Entry(kind, path, what, used_at(kind, path), made, own, shared))
    return Stock(root, tuple(entries), sizes)


def size_within(root: Path, limit_s: float) -> tuple[int, bool]:
    """The bytes on disk of the cache `root`, as a `Stock` counts them, and whether all was seen within `limit_s`."""
    deadline = time.monotonic() + limit_s
    own = 0
    sizes: dict[Inode, tuple[int, int]] = {}
    whole = True
    for _, path in _places(root):
        with contextlib.suppress(FileNotFoundError):
            own += _measure(path, sizes)[0]
        if time.monotonic() > deadline:
            whole = False
            break
    return own + sum(size for size, _ in sizes.values()), whole


def used_at(kind: Kind, path: Path) -> float:
    """When the entry at `path` was last used, as a file time. Raises FileNotFoundError when it is gone."""
    if kind.stamp:
        with contextlib.suppress(OSError):
            return (path / kind.stamp).lstat().st_mtime
    latest = path.lstat().st_mtime
    if path.is_dir() and not path.is_symlink():
        with os.scandir(path) as below:
            for each in below:
                with contextlib.suppress(FileNotFoundError):
                    latest = max(latest, each.stat(follow_symlinks=False).st_mtime)
    return latest


def _places(root: Path) -> Iterator[tuple[Kind, Path]]:
    known: set[str] = set()
    for kind in KINDS:
        known.add(kind.pattern.partition("/")[0])
        for path in sorted(root.glob(kind.pattern)):
            if path.name.startswith(PREFIX):
                yield _UNFINISHED, path
            elif not (kind.locked and path.name.endswith(LOCK)):
                yield kind, path
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if not any(path.match(pattern) for pattern in known):
            yield OTHER, path


def _measure(path: Path, sizes: dict[Inode, tuple[int, int]]) -> tuple[int, tuple[Inode, ...]]:
    """The bytes of `path` and all below that have one name, and the files with several, which go into `sizes`."""
    own = 0
    shared: list[Inode] = []
    for status in _all(path):
        size = getattr(status, "st_blocks", -(-status.st_size // _BLOCK)) * _BLOCK
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            inode = (status.st_dev, status.st_ino)
            shared.append(inode)
            sizes[inode] = (size, status.st_nlink)
        else:
            own += size
    return own, tuple(shared)


def _all(path: Path) -> Iterator[os.stat_result]:
    """The status of `path` and of everything below. What vanishes meanwhile is left out; links are not followed."""
    yield path.lstat()
    if not path.is_dir() or path.is_symlink():
        return
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                # Not Path's own, which costs more than the call: there are packages of a hundred thousand files.
                yield os.lstat(f"{folder}{os.sep}{name}")


def _revisions(root: Path) -> dict[str, str]:
    """The revisions that each build stands for, by its folder's name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in (Store(root).records).glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            # Not through the schema: of thousands of records two words are needed.
            record = json.loads(path.read_bytes())
            found[str(record["digest"]).removeprefix("sha256:")].add(str(record["revision"]))
    return {digest: ", ".join(sorted(names)) for digest, names in found.items()}
