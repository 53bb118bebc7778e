"""What a merge brought: where its branches left the line that it was merged into, and their first-parent lines."""

from __future__ import annotations

from dataclasses import dataclass

from bisect_bot.history.changes import one
from bisect_bot.history.ends import shown
from bisect_bot.history.git import Git


@dataclass(frozen=True, slots=True)
class Side:
    """A branch that was merged: `count` commits on its first-parent line, up to `tip`.

    `fork` is the commit below them, the newest of that line that the other side had already (not always what git calls
    the merge base: the branch may have merged that side since). None where the histories share nothing.
    """

    tip: str
    fork: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Merge:
    """A commit (full id) that brought `sides` into the line of its first parent."""

    commit: str
    into: str
    sides: tuple[Side, ...]


def merge_at(git: Git, commit: str) -> Merge | None:
    """The merge that `commit` (full id) is; None for a commit with fewer parents. Raises UsageError as git fails."""
    into, *tips = one(git, commit).parents or ("",)
    return Merge(commit, into, tuple(side(git, tip, into) for tip in tips)) if tips else None


def side(git: Git, tip: str, into: str) -> Side:
    """The first-parent line of `tip` down to what `into` (full ids) has already. Raises UsageError as git fails."""
    listed = git.read("rev-list", "--first-parent", tip, "--not", into, "--").split()
    if not listed:
        return Side(tip, tip, 0)
    return Side(tip, next(iter(one(git, listed[-1]).parents), None), len(listed))


def on_one_line(git: Git, good: str, bad: str) -> tuple[str, str, str]:
    """Two commits (full ids) that one first-parent line leads through, to be tested for `good` and `bad`.

    These two where they are such; else one of them is replaced by the commit where its branch left the line of the
    other, as `git bisect` tests a merge base first. The third is a sentence about it, empty where nothing is replaced.
    Where there is no such commit, the two come back as they are. Raises UsageError as git fails.
    """
    base = git.read("merge-base", good, bad, may_fail=True).strip()
    old, new = (bad, good) if base == bad else (good, bad)
    fork = side(git, new, old).fork if base else old
    if fork in (None, old, new):
        return good, bad, ""
    assert fork is not None, "it was looked at"
    where = (
        f"{shown(git, old)} is on a side branch of {shown(git, new)}"
        if base == old
        else f"{shown(git, old)} and {shown(git, new)} lie on different branches"
    )
    said = (
        f"{where}: in its place {shown(git, fork)} is tested, where that branch left the line. If it answers as"
        f" {new[:10]} does, the change lies between it and {old[:10]}: search there."
    )
    return (fork, bad, said) if old == good else (good, fork, said)
