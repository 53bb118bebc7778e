"""Reads every byte of what the cache holds, and removes what is no longer what was stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bisect_bot.builds.disk import disk_errors
from bisect_bot.builds.housekeeping import BUILDS, CASES, Stock
from bisect_bot.builds.in_use import TMP
from bisect_bot.builds.store import STAMP, Record, Stamp, Store, describe
from bisect_bot.scratch import scratch

RECORDS = "records"
# What is wrong with the entry at a path, in a few words; empty when nothing is. Raises OSError.
Look = Callable[[Path], str]


@dataclass(frozen=True, slots=True)
class Checked:
    """An entry of the cache that was read whole; `problem` says what was wrong with it, and is empty for a sound one.

    `what` says what it is for, as far as that is known.
    """

    kind: str
    path: Path
    what: str
    problem: str


def check(stock: Stock, case_digest: Callable[[Path], str]) -> Iterator[Checked]:
    """Reads the builds, the cases and the records of `stock`, and removes a damaged one before telling of it.

    `case_digest` gives the name that the folder of a pinned case has to have. What vanishes meanwhile is left out.
    Raises MachineError where the cache cannot be read or written.
    """
    looks: dict[str, Look] = {BUILDS: build_problem, CASES: lambda path: _case_problem(path, case_digest)}
    todo = [(e.kind.name, e.path, e.what, looks[e.kind.name]) for e in stock.entries if e.kind.name in looks]
    records = sorted(Store(stock.root).records.glob("*.json"))
    todo += [(RECORDS, path, "", record_problem) for path in records]
    for kind, path, what, look in todo:
        with disk_errors(stock.root):
            problem = _seen(path, look)
            if problem:
                _remove(path, stock.root)
        if problem is not None:
            yield Checked(kind, path, what, problem)


def build_problem(entry: Path) -> str:
    """What is wrong with the build in the folder `entry`, in a few words; empty when each byte is as it was stored."""
    try:
        stamp = Stamp.model_validate_json((entry / STAMP).read_bytes())
    except FileNotFoundError:
        return "it was never completed"
    except ValidationError:
        return f"{STAMP} cannot be read"
    if stamp.digest != f"sha256:{entry.name}":
        return "it lies under another digest than its own"
    found = describe(entry / "files").files
    differing = sorted(name for name in {*stamp.files, *found} if stamp.files.get(name) != found.get(name))
    if not differing:
        return ""
    name = differing[0]
    told = f"{name} {'was added' if name not in stamp.files else 'is missing' if name not in found else 'was changed'}"
    return told if len(differing) == 1 else f"{told}, and {len(differing) - 1} more"


def record_problem(path: Path) -> str:
    """What is wrong with the record in the file `path`; empty when nothing is."""
    try:
        record = Record.model_validate_json(path.read_bytes())
    except ValidationError:
        return "it cannot be read"
    return "" if Store(path.parent.parent).is_record_of(record.key, path) else "it lies under another key than its own"


def _case_problem(path: Path, case_digest: Callable[[Path], str]) -> str:
    return "" if case_digest(path) == path.name else "it was changed"


def _seen(path: Path, look: Look) -> str | None:
    """What `look` says; None when the entry is gone. A disk that cannot give the bytes back makes it damaged."""
    try:
        problem = look(path)
    except PermissionError:
        raise
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or error}"
    return problem if path.exists() else None


def _remove(path: Path, root: Path) -> None:
    """Removes a damaged entry at once: nobody finds it half removed."""
    with scratch(root / TMP) as place:
        try:
            path.rename(place.path / "damaged")
        except FileNotFoundError:
            return
