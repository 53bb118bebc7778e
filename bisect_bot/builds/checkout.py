"""Folders that commits' files are written into, by us: no index, no hooks, no filters.

    trees/<n>/src/…        the files of one commit, what its steps made of them, and node_modules
    trees/<n>/state.json   what of that is there: only what differs is written when another commit comes
    steps/<digest>/…       what a step made of inputs with this digest, in whichever folder
    trees/<n>.lock         held by the process that works there; the system frees it when that dies

A state that says `whole: false` was left by a process that died while it wrote: all is written anew then.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path, PurePosixPath

import filelock
from pydantic import BaseModel, ValidationError

from bisect_bot.builds.disk import used, write_whole
from bisect_bot.errors import BuildUnusable
from bisect_bot.scratch import scratch

# Mode and object id of each file by its path, as `git ls-tree` has them.
Listing = Mapping[str, tuple[str, str]]
Fetch = Callable[[list[str]], Mapping[str, bytes]]
NODE_MODULES = "node_modules"
# A folder that holds other packages is filled anew only when there are this many: changing them takes seconds.
ENOUGH_FOLDERS = 4
_LINK, _SUBMODULE, _EXECUTABLE = "120000", "160000", "100755"
_COMPILED = (".js", ".js.map", ".d.ts")


class FileState(BaseModel):
    """A file as it was written: mode and object id in git, size in bytes and time of change on the disk."""

    mode: str
    oid: str
    size: int = -1
    mtime_ns: int = 0


class StepState(BaseModel):
    """A step that was done: the digest of its inputs, and the files that it made."""

    digest: str
    outputs: tuple[str, ...]


class State(BaseModel):
    """What is in a folder. `modules` is the digest of the packages in it (empty: none, or not all)."""

    whole: bool = False
    files: dict[str, FileState] = {}
    modules: str = ""
    steps: dict[str, StepState] = {}


@dataclass(slots=True)
class Folder:
    """A folder that this process holds the lock of."""

    path: Path
    state: State

    @property
    def root(self) -> Path:
        """The top of the commit's files."""
        return self.path / "src"

    def save(self) -> None:
        """Writes the state. Raises OSError."""
        write_whole(self.path / "state.json", self.state.model_dump_json())

    def write(self, listing: Listing, fetch: Fetch) -> int:
        """Makes the files those of `listing`; returns how many had to be written.

        What steps made stays, what else lies around is removed. `fetch` gives contents by object id and is asked
        once, before anything is touched. Raises BuildUnusable for a path that leads elsewhere, and OSError.
        """
        wanted = {path: entry for path, entry in listing.items() if entry[0] != _SUBMODULE}
        if bad := next((path for path in wanted if not _is_plain(path)), None):
            raise BuildUnusable(f"the commit has a file called {bad!r}, which is not written anywhere")
        if not self.state.whole:
            self.state = State(modules=self.state.modules)
        known = self.state.files
        changed = [path for path, (mode, oid) in wanted.items() if not self._is_there(path, mode, oid)]
        made = {output for step in self.state.steps.values() for output in step.outputs}
        strays = [path for path in self.untracked() if path not in wanted and path not in made]
        strays += [path for path in known if path not in wanted]
        if not (changed or strays) and self.state.whole:
            return 0
        contents = fetch(sorted({wanted[path][1] for path in changed}))
        self.state.whole = False
        self.save()
        for path in strays:
            self._remove(path)
        for path in changed:
            mode, oid = wanted[path]
            known[path] = self._write(path, mode, oid, contents[oid])
        self.state.whole = True
        self.save()
        return len(changed)

    def overlay(self, files: Mapping[str, bytes | None]) -> None:
        """Puts `files` over the commit's (None: changed elsewhere); the next `write` takes them back. OSError."""
        for path in files:
            if path in self.state.files:
                self.state.files[path] = FileState(mode="", oid="")
        self.save()
        for path, data in files.items():
            if data is not None:
                target = self.root / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                target.write_bytes(data)

    def step(self, name: str, digest: str, run: Callable[[], object], kept: Path) -> bool:
        """Does a step unless it was done with these inputs and all that it made is there; returns whether it ran.

        What it makes is also kept in the folder `kept`, below its digest, and taken from there in other folders.
        """
        done = self.state.steps.get(name)
        if done is not None and done.digest == digest and all((self.root / path).exists() for path in done.outputs):
            return False
        # What another step made stays out of it; what this one made before would be taken for new.
        for path in self.state.steps.pop(name, StepState(digest="", outputs=())).outputs:
            self._remove(path)
        self.save()
        before = set(self.untracked())
        known = kept / digest
        if ran := not known.is_dir():
            run()
        else:
            # First, so that nobody takes it for idle while it is read.
            used(known)
            shutil.copytree(known, self.root, dirs_exist_ok=True)
        outputs = tuple(path for path in self.untracked() if path not in before)
        self.state.steps[name] = StepState(digest=digest, outputs=outputs)
        self.save()
        if ran:
            self._keep(outputs, known)
        return ran

    def _keep(self, outputs: tuple[str, ...], known: Path) -> None:
        """Copies what a step made to the folder `known`. Copies: a later run writes into its files."""
        with scratch(self.path) as place:
            staged = place.path / "files"
            for path in outputs:
                (staged / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.root / path, staged / path)
            known.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):
                # Another process may have been faster; nothing made is nothing to keep.
                staged.rename(known)

    def untracked(self) -> Iterator[str]:
        """All files that are not the commit's, without packages; sorted within each folder."""
        for folder, names, files in os.walk(self.root):
            names[:] = sorted(name for name in names if name != NODE_MODULES)
            links = [name for name in names if (Path(folder) / name).is_symlink()]
            inside = PurePosixPath(Path(folder).relative_to(self.root).as_posix())
            for name in sorted([*files, *links]):
                if (path := (inside / name).as_posix()) not in self.state.files:
                    yield path

    def _is_there(self, path: str, mode: str, oid: str) -> bool:
        known = self.state.files.get(path)
        if known is None or (known.mode, known.oid) != (mode, oid):
            return False
        with contextlib.suppress(OSError):
            seen = (self.root / path).lstat()
            return (seen.st_size, seen.st_mtime_ns) == (known.size, known.mtime_ns)
        return False

    def _write(self, path: str, mode: str, oid: str, data: bytes) -> FileState:
        target = self.root / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        if mode == _LINK:
            target.symlink_to(os.fsdecode(data))
        else:
            target.write_bytes(data)
        if mode == _EXECUTABLE:
            target.chmod(0o755)
        seen = target.lstat()
        return FileState(mode=mode, oid=oid, size=seen.st_size, mtime_ns=seen.st_mtime_ns)

    def _remove(self, path: str) -> None:
        """Removes a file, what a compiler left beside it, and folders that are empty then."""
        self.state.files.pop(path, None)
        target = self.root / path
        beside = [target.with_suffix(suffix) for suffix in _COMPILED] if target.suffix == ".ts" else []
        for each in (target, *beside):
            if each.relative_to(self.root).as_posix() not in self.state.files:
                each.unlink(missing_ok=True)
        for parent in target.parents:
            if parent == self.root or not parent.is_dir():
                break
            try:
                parent.rmdir()
            except OSError:
                break


@contextlib.contextmanager
def borrow(trees: Path, modules: str) -> Iterator[Folder]:
    """A folder below `trees` that no other process works in, if possible one that holds the packages `modules`.

    Raises OSError.
    """
    trees.mkdir(parents=True, exist_ok=True)
    numbers = sorted(int(path.name) for path in trees.iterdir() if path.is_dir() and path.name.isdigit())
    fitting = [number for number in numbers if _state(trees / str(number)).modules == modules]
    others = [number for number in numbers if number not in fitting]
    new = next(number for number in count() if number not in numbers)
    order = [*fitting, *others, new] if len(numbers) >= ENOUGH_FOLDERS else [*fitting, new, *others]
    for number in chain(order, count(max([*numbers, new]) + 1)):
        lock = filelock.FileLock(trees / f"{number}.lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            continue
        try:
            path = trees / str(number)
            (path / "src").mkdir(parents=True, exist_ok=True)
            used(path)
            yield Folder(path, _state(path))
            return
        finally:
            lock.release()


def _state(path: Path) -> State:
    try:
        return State.model_validate_json((path / "state.json").read_bytes())
    except (OSError, ValidationError):
        return State()


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    return not any(part in ("", ".", "..", ".git") or "\\" in part or ":" in part for part in parts)
