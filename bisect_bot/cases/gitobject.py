"""Files as they are in a revision of a clone: `REV:path`, as git itself writes it. The clone is only read."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError, UsageError
from bisect_bot.history.git import Git

_ABBREVIATED = re.compile(r"[0-9a-f]{4,39}")
_FILES = {"100644", "100755", "100664"}


@dataclass(frozen=True, slots=True)
class GitObject:
    """The file `path` in the revision `rev`, both as typed."""

    rev: str
    path: str

    def __str__(self) -> str:
        return f"{self.rev}:{self.path}"

    def read(self, repo: str | None, limit: int) -> bytes:
        """Its content, from the clone at `repo`.

        `rev` is whatever git takes for a commit: a sha (abbreviated, too), a branch, a tag. Nothing is fetched, and
        nothing is written into the clone. Raises CaseError when no clone was named, for a revision or path that it
        does not have, for what is no file, for content that a partial clone lacks and for more than `limit` bytes.
        """
        if repo is None:
            raise CaseError(f"{self._shown} is a file of a git clone, but none was named", "add --repo PATH")
        git = Git(Path(repo).expanduser())
        blob = self._blob(self._commit(git), git)
        size = git.read("cat-file", "-s", blob, may_fail=True)
        if not size:
            raise CaseError(
                f"{one_line(repo)} lacks the content of {self._shown}: it is a partial clone",
                "name a complete clone, or let git fetch it there by showing the file once",
            )
        if int(size) > limit:
            raise CaseError(f"{self._shown} is larger than {limit // 2**20} MiB")
        return git.read_bytes("cat-file", "blob", blob)

    @property
    def _shown(self) -> str:
        return one_line(self, 200)

    def _commit(self, git: Git) -> str:
        """The full sha of the commit that `rev` names."""
        if not self.rev or self.rev.startswith("-") or not str(self).isprintable():
            raise CaseError(f"{self._shown} names no git object", "type REV:path, REV being a sha, a branch or a tag")
        commit = git.read(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{self.rev}^{{commit}}", may_fail=True
        )
        if commit:
            return commit.strip()
        if _ABBREVIATED.fullmatch(self.rev) and git.read("rev-parse", f"--disambiguate={self.rev}", may_fail=True):
            raise CaseError(
                f"{self._shown}: {self.rev} is not the beginning of just one commit in {one_line(git.repo)}",
                "type more digits",
            )
        raise CaseError(
            f"{self._shown}: there is no revision {one_line(self.rev, 80)} in {one_line(git.repo)}",
            "give a commit, a branch or a tag of the clone that --repo names",
        )

    def _blob(self, commit: str, git: Git) -> str:
        """The sha of the file in `commit`."""
        above = self.path.startswith("/") or ".." in PurePosixPath(self.path).parts
        entries = {} if above else _tree(commit, self.path, git, self._shown)
        if self.path not in entries:
            raise CaseError(f"{self._shown}: {self.rev} has no file {one_line(self.path)}", self._advice(commit, git))
        mode, blob = entries[self.path]
        if mode not in _FILES:
            raise CaseError(f"{self._shown} is no file, but a folder, a link or a submodule")
        return blob

    def _advice(self, commit: str, git: Git) -> str:
        folder = PurePosixPath(self.path.lstrip("/").replace("..", ".")).parent.as_posix()
        names = _tree(commit, "" if folder == "." else f"{folder}/", git, self._shown)
        close = difflib.get_close_matches(self.path[:300], names, 3)
        return (
            f"is one of these meant: {one_line(', '.join(close))}" if close else "paths begin at the top of the clone"
        )


def _tree(commit: str, path: str, git: Git, shown: str) -> dict[str, tuple[str, str]]:
    """The entries of `commit` at `path` (ending in `/` or empty: below it): path -> mode and sha."""
    try:
        listing = git.read("ls-tree", "-z", "--full-tree", commit, *(["--", path] if path else []))
    except UsageError as error:
        raise CaseError(
            f"{shown} cannot be looked up: {one_line(error)}", "name a complete clone with --repo"
        ) from error
    found = {}
    for entry in listing.split("\0"):
        head, tab, name = entry.partition("\t")
        if tab:
            mode, _, sha = head.split()
            found[name] = (mode, sha)
    return found
