"""Folders that die with their owner, even when the owner is killed.

A scratch folder records who owns it (`owner.json`: process id and start time, and the process groups that
work in it). The owner removes it on the way out; `sweep` removes those whose owner is dead, and kills what
was left running in them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bisect_bot.processes import kill_group, kill_tree, started_at

# Short, because sockets are made below it, whose paths may have about 100 characters.
PREFIX = "bbot-"
OWNER_FILE = "owner.json"


@dataclass(slots=True)
class Scratch:
    """An open scratch folder. `adopt` records a process started in it, for a later `sweep` to end."""

    path: Path
    _processes: list[tuple[int, float]] = field(default_factory=list)

    def adopt(self, pid: int) -> None:
        """Records the process `pid`, leader of its own group, as working in this folder."""
        self._processes.append((pid, started_at(pid) or 0.0))
        self._write()

    def _write(self) -> None:
        owner = {"pid": os.getpid(), "started": started_at(os.getpid()), "processes": self._processes}
        temporary = self.path / f"{OWNER_FILE}.new"
        temporary.write_text(json.dumps(owner))
        temporary.replace(self.path / OWNER_FILE)


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Scratch]:
    """A new empty scratch folder under `parent` (default: the system's temporary folder), removed on exit.

    Adopted processes that still run are killed first. Raises OSError when the folder cannot be made.
    """
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    folder = Scratch(Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)))
    try:
        folder._write()
        yield folder
    finally:
        _end(folder.path, folder._processes)


def sweep(parent: Path | None = None) -> int:
    """Ends what dead owners left under `parent` (default: the system's temporary folder); returns how many.

    A folder without an owner is not known to be ours: it is removed only when it is empty and a day old.
    """
    root = parent or Path(tempfile.gettempdir())
    swept = 0
    for path in root.glob(f"{PREFIX}*") if root.is_dir() else ():
        if not _is_ours(path):
            continue
        owner = _owner(path)
        if owner is None:
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > 86400:
                    path.rmdir()
                    swept += 1
            continue
        pid, started, processes = owner
        if started_at(pid) == started:
            continue
        _end(path, processes)
        swept += 1
    return swept


def living(parent: Path) -> Iterator[Path]:
    """The scratch folders under `parent` whose owner runs, whoever started it."""
    for path in parent.glob(f"{PREFIX}*") if parent.is_dir() else ():
        owner = _owner(path)
        if owner is not None and owner[1] is not None and started_at(owner[0]) == owner[1]:
            yield path


def _is_ours(path: Path) -> bool:
    """Whether this user made `path`: the temporary folder is shared, and another's word kills nothing of ours."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and (os.name == "nt" or status.st_uid == os.getuid())


def _owner(path: Path) -> tuple[int, float | None, list[tuple[int, float]]] | None:
    try:
        data = json.loads((path / OWNER_FILE).read_text())
        return int(data["pid"]), data["started"], [(int(p), float(t)) for p, t in data["processes"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _empty(path: Path) -> None:
    """Removes all but the owner's name: where this is killed half-way, the rest can still be swept."""
    with contextlib.suppress(OSError):
        for each in path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
            elif each.name != OWNER_FILE:
                each.unlink(missing_ok=True)


def _end(path: Path, processes: list[tuple[int, float]]) -> None:
    for pid, started in processes:
        now = started_at(pid)
        if now == started:
            kill_tree(pid)
        elif now is None:
            kill_group(pid)
    # A process that is just ending may still write into the folder: try a few times.
    for _ in range(20):
        _empty(path)
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(0.1)
