"""What each commit of a first-parent line changed, in one git process for thousands of commits.

Another way to walk (all parents instead of first ones) is another function that gives `Entry`s: what is made of them
asks for their `parents`, not for how they were found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bisect_bot.history.git import Git

_FORMAT = "--format=%H%x00%P%x00%ct%x00%s"
_REMOVED = "000000"


class Change(NamedTuple):
    """A file that is `oid` of `mode` from this commit on; both are empty for one that it removed."""

    path: str
    mode: str
    oid: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit with what it changed against its first parent. `seconds` (since 1970) are the committer's."""

    commit: str
    parents: tuple[str, ...]
    seconds: int
    title: str
    changes: tuple[Change, ...]


def first_parents(git: Git, old: str, new: str) -> Iterator[Entry]:
    """The commits from `old` up the first-parent line to `new`, oldest first, while git still finds them.

    Begins with `old` only where `old` is on that line. Ids are full. Raises UsageError where git fails, for instance
    because the clone lacks one of the two.
    """
    # What a merge brought counts as its own change. Renames are not looked for: that would read file contents, which
    # a partial clone lacks. The excluded parents (none, for a first commit) leave `old` itself in.
    pieces = git.stream(
        "log", "--reverse", "--first-parent", "--diff-merges=first-parent", "--root", "--raw", "--no-renames",
        "--no-abbrev", "--no-ext-diff", "--ignore-submodules=none", "--no-relative", "--encoding=UTF-8", "-z",
        _FORMAT, new, "--not", f"{old}^@", "--",
    )  # fmt: skip
    return _entries(_fields(pieces))


def one(git: Git, commit: str) -> Entry:
    """The one commit (full id), without its changes. Raises UsageError where the clone lacks it."""
    raw = git.read_bytes("log", "--no-walk", "--no-patch", "--encoding=UTF-8", "-z", _FORMAT, commit, "--")
    return next(_entries(_fields([raw])))


def tree(git: Git, commit: str, paths: tuple[str, ...]) -> Iterator[Change]:
    """The files of `commit` at or below `paths`, in one process. Raises UsageError where git fails."""
    if not paths:
        return
    listing = git.read_bytes("ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths)
    for row in listing.decode("utf-8", "surrogateescape").split("\0"):
        head, tab, path = row.partition("\t")
        if tab:
            mode, _, oid = head.split(" ")
            yield Change(path, mode, oid)


def _fields(pieces: Iterable[bytes]) -> Iterator[str]:
    """The NUL-terminated fields in `pieces`."""
    rest = b""
    for piece in pieces:
        whole, nul, rest = (rest + piece).rpartition(b"\0")
        if nul:
            yield from whole.decode("utf-8", "surrogateescape").split("\0")


def _entries(fields: Iterator[str]) -> Iterator[Entry]:
    """What `git log --raw -z` prints in `_FORMAT`: four fields, then two for each change."""
    head = next(fields, None)
    while head is not None:
        commit, parents, seconds, title = head, next(fields), next(fields), next(fields)
        changes: list[Change] = []
        head = None
        for field in fields:
            if not field.startswith((":", "\n:")):
                head = field
                break
            _, mode, _, oid, _ = field.split(" ")
            gone = mode == _REMOVED
            changes.append(Change(next(fields), "" if gone else mode, "" if gone else oid))
        yield Entry(commit, tuple(parents.split()), int(seconds), _readable(title), tuple(changes))


def _readable(text: str) -> str:
    """`text` without the bytes that were no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
