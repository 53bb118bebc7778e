"""What the `cache` commands print: as tables for a person, as JSON for a program."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from bisect_bot.builds.housekeeping import KINDS, OTHER, Stock
from bisect_bot.builds.housekeeping_check import Checked
from bisect_bot.builds.housekeeping_clear import Choice, Doomed
from bisect_bot.errors import UsageError
from bisect_bot.reports.escaping import line, shorten, terminal

_SIZE = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*(?:([KMGT])(I?)B?|B)?\s*", re.ASCII)
_POWERS = " KMGT"
_SHOWN = 30  # entries in the table for a person
_LONGEST = 60


class EntryRow(BaseModel):
    """One entry of the cache. Times are ISO 8601 in UTC."""

    model_config = ConfigDict(frozen=True)

    kind: str
    path: str = Field(description="Below the root of the cache.")
    what: str = Field(description="What it is for, as far as that is known: revisions, of a build.")
    bytes: int = Field(description="On disk. A file that several entries share counts for the oldest of them.")
    made: str
    used: str


class KindRow(BaseModel):
    """All entries of one kind together."""

    model_config = ConfigDict(frozen=True)

    kind: str
    means: str
    clearable: bool = Field(description="Whether `cache gc` may remove them.")
    entries: int
    bytes: int


class Listing(BaseModel):
    """The output of `cache ls --json`. Keys are only ever added within schema 1."""

    model_config = ConfigDict(frozen=True)

    schema_: int = Field(default=1, serialization_alias="schema")
    root: str
    bytes: int
    free_bytes: int = Field(description="What the disk has left.")
    kinds: tuple[KindRow, ...]
    entries: tuple[EntryRow, ...] = Field(description="The largest first.")


class RemovedRow(BaseModel):
    """An entry that was removed, and what the disk has more for it."""

    model_config = ConfigDict(frozen=True)

    kind: str
    path: str
    what: str
    freed_bytes: int
    used: str


class Cleared(BaseModel):
    """The output of `cache gc --json`."""

    model_config = ConfigDict(frozen=True)

    schema_: int = Field(default=1, serialization_alias="schema")
    root: str
    dry_run: bool
    freed_bytes: int
    left_bytes: int
    removed: tuple[RemovedRow, ...]
    spared: int = Field(description="Entries that would have gone, but are in use or belong to an unfinished session.")
    swept: int = Field(description="Unfinished entries whose maker is dead.")


class DamagedRow(BaseModel):
    """A damaged entry, which was removed."""

    model_config = ConfigDict(frozen=True)

    kind: str
    path: str
    what: str
    problem: str


class Verified(BaseModel):
    """The output of `cache verify --json`."""

    model_config = ConfigDict(frozen=True)

    schema_: int = Field(default=1, serialization_alias="schema")
    root: str
    checked: int
    damaged: tuple[DamagedRow, ...]
    swept: int = Field(description="Unfinished entries whose maker is dead.")


def listing(stock: Stock) -> Listing:
    """What `cache ls` tells of `stock`."""
    sizes = stock.listed()
    rows = [
        EntryRow(
            kind=entry.kind.name,
            path=_below(entry.path, stock.root),
            what=entry.what,
            bytes=sizes[entry.path],
            made=_iso(entry.made),
            used=_iso(entry.used),
        )
        for entry in sorted(stock.entries, key=lambda e: (-sizes[e.path], e.path))
    ]
    kinds = [
        KindRow(
            kind=kind.name,
            means=kind.means,
            clearable=kind.clearable,
            entries=len(mine),
            bytes=sum(row.bytes for row in mine),
        )
        for kind in (*KINDS, OTHER)
        if (mine := [row for row in rows if row.kind == kind.name])
    ]
    kinds.sort(key=lambda kind: -kind.bytes)
    there = next(path for path in (stock.root, *stock.root.parents) if path.exists())
    return Listing(
        root=str(stock.root),
        bytes=stock.total,
        free_bytes=shutil.disk_usage(there).free,
        kinds=tuple(kinds),
        entries=tuple(rows),
    )


def tables(told: Listing, now: float) -> RenderableType:
    """The same for a person, at the time `now`: by kind, the largest entries, and the sum."""
    end = terminal(f"{decimal(told.bytes)} in {told.root}, {decimal(told.free_bytes)} free on its disk")
    if not told.entries:
        return end
    kinds = Table("kind", "entries", "size", "", box=None, pad_edge=False)
    kinds.columns[1].justify = kinds.columns[2].justify = "right"
    for kind in told.kinds:
        kinds.add_row(kind.kind, str(kind.entries), decimal(kind.bytes), Text(kind.means, style="dim"))
    entries = Table("size", "made", "used", "kind", "entry", "for", box=None, pad_edge=False)
    entries.columns[0].justify = "right"
    for row in told.entries[:_SHOWN]:
        words = (decimal(row.bytes), _ago(row.made, now), _ago(row.used, now), row.kind)
        entries.add_row(*words, _entry(row.path), terminal(shorten(row.what, _LONGEST)))
    rest = len(told.entries) - _SHOWN
    more = [Text(f"and {rest} smaller (all of them: --json)", style="dim")] if rest > 0 else []
    return Group(kinds, Text(), entries, *more, Text(), end)


def cleared(stock: Stock, choice: Choice, done: Sequence[Doomed], swept: int, *, dry_run: bool) -> Cleared:
    """What `cache gc` tells after it removed `done`, of what it had chosen."""
    bytes_freed = sum(each.frees for each in done)
    rows = [
        RemovedRow(
            kind=each.entry.kind.name,
            path=_below(each.entry.path, stock.root),
            what=each.entry.what,
            freed_bytes=each.frees,
            used=_iso(each.entry.used),
        )
        for each in done
    ]
    return Cleared(
        root=str(stock.root),
        dry_run=dry_run,
        freed_bytes=bytes_freed,
        left_bytes=stock.total - bytes_freed,
        removed=tuple(rows),
        spared=len(choice.spared),
        swept=swept,
    )


def removed(told: Cleared, now: float) -> Table:
    """What went, for a person."""
    table = Table("freed", "used", "kind", "entry", "for", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    for row in told.removed:
        what = terminal(shorten(row.what, _LONGEST))
        table.add_row(decimal(row.freed_bytes), _ago(row.used, now), row.kind, _entry(row.path), what)
    return table


def freed(told: Cleared) -> str:
    """What `cache gc` did, as a sentence."""
    does = "would free" if told.dry_run else "freed"
    words = [f"{does} {decimal(told.freed_bytes)} in {_entries(len(told.removed))}"]
    words += [f"{decimal(told.left_bytes)} {'would be' if told.dry_run else 'are'} left in {told.root}"]
    if told.spared:
        stays, them = ("stays", "it") if told.spared == 1 else ("stay", "them")
        words.append(f"{_entries(told.spared)} {stays} because a running process or an unfinished session needs {them}")
    return f"{'; '.join(words)}{_swept(told.swept)}"


def damage(one: Checked, root: Path) -> str:
    """A damaged entry, as a sentence."""
    return f"damaged, and removed: {_below(one.path, root)}{f' ({one.what})' if one.what else ''}: {one.problem}"


def verified(root: Path, checked: int, bad: Sequence[Checked], swept: int) -> Verified:
    """What `cache verify` tells."""
    rows = [DamagedRow(kind=b.kind, path=_below(b.path, root), what=b.what, problem=b.problem) for b in bad]
    return Verified(root=str(root), checked=checked, damaged=tuple(rows), swept=swept)


def verdict(told: Verified) -> str:
    """The same as a sentence."""
    return f"{_entries(told.checked)} read, {len(told.damaged)} damaged{_swept(told.swept)}"


def dumps(told: BaseModel) -> str:
    """The JSON of one of the above, in ASCII: paths may hold what no UTF-8 can."""
    return told.model_dump_json(indent=1, by_alias=True, ensure_ascii=True)


def size_of(text: str) -> int:
    """The bytes that `text` means: `20GB`, `1.5 GiB`, `500M` (of 1000), `0`. Raises UsageError."""
    found = _SIZE.fullmatch(text.upper())
    if found is None:
        raise UsageError(f"{line(text)!r} is no size", "Type it like 20GB, 1.5GiB or 500MB.")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS.index(unit or " "))


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _swept(count: int) -> str:
    return f"; swept {_entries(count)} that killed processes left half made" if count else ""


def _below(path: Path, root: Path) -> str:
    # Names that are no UTF-8 are held as halves of surrogates, which JSON cannot.
    return path.relative_to(root).as_posix().encode("utf-8", "backslashreplace").decode()


def _entry(path: str) -> Text:
    """The name of an entry, short enough for a table: digests are known by their beginning."""
    folder, _, name = path.rpartition("/")
    return terminal(shorten(name, 14) if folder else name)


def _iso(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")


def _ago(iso: str, now: float) -> str:
    """How long ago, in the largest unit that gives at least one."""
    seconds = max(0.0, now - dt.datetime.fromisoformat(iso).timestamp())
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
