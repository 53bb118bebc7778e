"""A clone of onnxruntime to search in: the user's own, which is only read, or a private one of a URL."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisect_bot.errors import BuildUnusable, MachineError, UnknownRevision, UsageError
from bisect_bot.history.changes import one, tree
from bisect_bot.history.commits import revision
from bisect_bot.history.ends import FULL, find_commit
from bisect_bot.history.git import Git
from bisect_bot.history.mainline import MainLine, no_main, read_main_line, require_upstream
from bisect_bot.history.private_clone import PrivateClone, private_clone, shown
from bisect_bot.history.resolve_commit import Lookup
from bisect_bot.model import Revision

UPSTREAM = "https://github.com/microsoft/onnxruntime"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# user@host:path; one letter before the colon is a drive.
_SCP = re.compile(r"[^/\\:]{2,}:(?!\\)")


@dataclass
class Clone:
    """A clone to read from: `path` is its folder, `private` the means to get more where it is ours, None for a user's.

    `say` hears what a reader has to know.
    """

    git: Git
    path: Path
    private: PrivateClone | None
    say: Callable[[str], None]
    _main: MainLine | None = field(default=None, repr=False)
    _updated: bool = field(default=False, repr=False)

    @property
    def main(self) -> MainLine:
        """First-parent main. Raises UsageError where the clone has none."""
        if self._main is None:
            self._main = read_main_line(self.git)
        if self._main is None:
            raise no_main(self.path)
        return self._main

    def resolve(self, text: str, builds: Sequence[Revision]) -> Revision:
        """The commit that `text` means, as `Lookup.resolve` says; `builds` are the published ones in order.

        A private clone is brought up to date, once, for what it does not know and for what moves (a branch, a day
        after its newest commit). Raises UnknownRevision.
        """
        if self.private and self._lookup(builds).moves(text):
            self._update(self.private, text)
        try:
            return self._lookup(builds).resolve(text)
        except UnknownRevision:
            if self.private is None or not self._update(self.private, text):
                raise
        return self._lookup(builds).resolve(text)

    def revision(self, commit: str) -> Revision:
        """The revision that `commit` (full id) is. Raises UsageError where the clone lacks it."""
        return revision(one(self.git, commit), self.main)

    def objects(self, oids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The contents of the blobs `oids` (full ids), in that order, read by one process.

        What a private clone lacks is first fetched, all of it in one go. Raises BuildUnusable, naming the first
        object that cannot be had.
        """
        waiting = list(oids)
        for attempt in range(2):
            done = 0
            for found in self.git.blobs(waiting):
                done += 1
                yield found
            waiting = waiting[done:]
            if not waiting:
                return
            if self.private is None or attempt:
                raise self._lacking(waiting[0])
            self._fetch_objects(self.private, waiting)

    def tree(self, commit: str, folders: Sequence[str]) -> Mapping[str, tuple[str, str]]:
        """The files of `commit` at or below `folders`, by path: mode and object id. One process; raises UsageError."""
        return {path: (mode, oid) for path, mode, oid in tree(self.git, commit, tuple(folders))}

    def _fetch_objects(self, private: PrivateClone, oids: Sequence[str]) -> None:
        # Asking object by object would end at the first that is not there.
        listed = self.git.read("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
        present = set(listed.split())
        missing = [oid for oid in dict.fromkeys(oids) if oid not in present]
        try:
            private.fetch_objects(missing)
        except MachineError as error:
            raise BuildUnusable(f"{len(missing)} file contents could not be fetched: {error}", error.advice) from error

    def _lacking(self, oid: str) -> BuildUnusable:
        if self.private:
            return BuildUnusable(f"The file contents {oid} cannot be had from {shown(self.private.url)}.")
        return BuildUnusable(
            f"{self.path} lacks the file contents {oid}: it is a partial clone.",
            f"Get them there (git -C {self.path} cat-file -t {oid}), or name a complete clone or a URL with --repo.",
        )

    def _lookup(self, builds: Sequence[Revision]) -> Lookup:
        return Lookup(self.git, self.main, builds, self.say)

    def _update(self, private: PrivateClone, text: str) -> bool:
        """Brings the private clone up to date, once for as long as this lives; whether something may be new."""
        before = self._updated
        if not self._updated:
            try:
                private.fetch()
                self._updated, self._main = True, None
            except MachineError as error:
                self.say(f"{error} What {text} means is looked up in what was fetched before.")
                return False
        if FULL.fullmatch(text) and not find_commit(self.git, text):
            # On no branch, but perhaps of a pull request. A server may say no.
            with contextlib.suppress(MachineError):
                private.fetch_commit(text)
                return True
        return not before


def open_clone(repo: str | None, cache: Path, *, say: Callable[[str], None], doing: Callable[[str], None]) -> Clone:
    """The clone that `repo` names: a folder on this machine, a URL, or None for upstream itself.

    A folder is only read, whatever happens. Of a URL a private clone without file contents is made below the folder
    `cache`, which takes minutes the first time: `say` hears of it, `doing` how far it is. Raises UsageError for what
    is no clone of onnxruntime, MachineError where it cannot be read or reached.
    """
    name = UPSTREAM if repo is None else repo.strip()
    if not name or name.startswith("-") or not name.isprintable():
        raise UsageError(f"{name!r} names no repository.", "--repo takes the folder of a clone, or a URL.")
    if is_url(name):
        private = private_clone(name, cache, say, doing)
        return _checked(Clone(Git(private.path), private.path, private, say), shown(name))
    path = Path(os.path.expanduser(name)).absolute()  # noqa: PTH111 - Path's own raises for unknown users
    git = Git(path)
    if not path.is_dir():
        raise UsageError(f"There is no folder {path}.", "--repo takes the folder of a clone, or a URL.")
    if not os.access(path, os.R_OK | os.X_OK):
        raise MachineError(f"{path} cannot be read.", "Its permissions do not allow it.")
    if not git.read("rev-parse", "--git-dir", may_fail=True):
        raise UsageError(f"{path} is no git repository.", "Name the top folder of a clone of onnxruntime with --repo.")
    return _checked(Clone(git, path, None, say), str(path))


def is_url(name: str) -> bool:
    """Whether `name` is an address to clone from, and not a folder of this machine."""
    return bool(_SCHEME.match(name) or (_SCP.match(name) and not Path(name).exists()))


def _checked(clone: Clone, name: str) -> Clone:
    """`clone`, when it is one of onnxruntime with the trees of its commits. Raises UsageError."""
    main = read_main_line(clone.git)
    if main is None:
        raise no_main(name)
    tip = main.commits[-1]
    if not clone.git.read("ls-tree", tip, may_fail=True):
        raise UsageError(
            f"{name} lacks the folders of its commits: it is a treeless clone.", "Name another with --repo."
        )
    require_upstream(clone.git, tip, name)
    clone._main = main
    return clone
