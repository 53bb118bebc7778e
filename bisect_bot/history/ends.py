"""The two ends of a range: which of them is the older, and what is wrong where none is. Reads the clone."""

from __future__ import annotations

import re

from bisect_bot.errors import UnknownRevision, UsageError
from bisect_bot.history.git import Git
from bisect_bot.history.mainline import utc_day

FULL = re.compile(r"[0-9a-f]{40}")


def full_id(git: Git, name: str) -> str:
    """The full id of the commit that git takes `name` for; a full id is taken as it is.

    Raises UnknownRevision for what names no commit of the clone.
    """
    if FULL.fullmatch(name):
        return name
    found = find_commit(git, name)
    if not found:
        raise UnknownRevision(f"There is no commit {name!r} in {git.repo}.", "Give a commit, a tag or a branch of it.")
    return found


def find_commit(git: Git, name: str) -> str:
    """The full id of the commit that git takes `name` for; empty for what names none, or not just one."""
    if name.startswith("-") or not name.isprintable():
        return ""
    found = git.read(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", may_fail=True
    ).strip()
    # Git also takes what leaves commits out: ^main.
    return found if FULL.fullmatch(found) else ""


def oldest_first(git: Git, a: str, b: str) -> tuple[str, str]:
    """The commits `a` and `b` (full ids) with the ancestor first.

    Raises UsageError where neither is an ancestor of the other, naming the commit that both grew from.
    """
    base = _base(git, a, b)
    if base not in (a, b):
        raise why_not_a_range(git, a, b) or UsageError(f"{a} and {b} cannot be compared in {git.repo}.")
    return (a, b) if base == a else (b, a)


def why_not_a_range(git: Git, old: str, new: str) -> UsageError | None:
    """Why there is no first-parent line from `old` up to `new` (full ids), with what to type instead; None unknown."""
    for end in (old, new):
        if not find_commit(git, end):
            return UnknownRevision(f"{git.repo} has no commit {end[:12]}.", _how_to_get_older(git, "fetch it there"))
    base = _base(git, old, new)
    if not base:
        return UsageError(
            f"{shown(git, old)} and {shown(git, new)} have no common ancestor in {git.repo}.",
            _how_to_get_older(git, "Name two commits of one history."),
        )
    if base == new:
        return UsageError(
            f"{shown(git, new)} is older than {shown(git, old)}.",
            "Give them the other way around: the older one first.",
        )
    if base == old:
        return _on_a_side(git, old, new)
    return UsageError(
        f"{shown(git, old)} and {shown(git, new)} lie on different branches, which part at {shown(git, base)}.",
        f"Search between {base[:10]} and one of the two, or add --full-history, which tests it in place of one.",
    )


def is_shallow(git: Git) -> bool:
    """Whether the history of the clone was cut off."""
    return git.read("rev-parse", "--is-shallow-repository", may_fail=True).strip() == "true"


def deepen(git: Git) -> str:
    """What to type to get the rest of a history that was cut off."""
    return f"The clone is shallow, its history is cut off. Get the rest: git -C {git.repo} fetch --unshallow"


def _on_a_side(git: Git, old: str, new: str) -> UsageError:
    if is_shallow(git):
        return UsageError(f"The way from {shown(git, new)} back to {shown(git, old)} is not there.", deepen(git))
    text = git.read("rev-list", "--first-parent", "--ancestry-path", new, f"^{old}", "--", may_fail=True)
    merge = text.split()[-1] if text.split() else ""
    brought = f" It came with {shown(git, merge)}." if merge else ""
    below = git.read("merge-base", old, f"{merge}^1", may_fail=True).strip() if merge else ""
    return UsageError(
        f"{shown(git, old)} is on a side branch, not on the first-parent line of {new[:10]}.{brought}",
        f"Begin at {below[:10]}, where the branch left that line, or add --full-history."
        if below
        else "Name two commits of main.",
    )


def _how_to_get_older(git: Git, otherwise: str) -> str:
    return deepen(git) if is_shallow(git) else otherwise


def _base(git: Git, a: str, b: str) -> str:
    return git.read("merge-base", a, b, may_fail=True).strip()


def shown(git: Git, commit: str) -> str:
    """A commit (full id) in a reader's words: id, day, title."""
    seconds, _, title = (
        git.read("log", "--no-walk", "--format=%ct %s", commit, "--", may_fail=True).strip().partition(" ")
    )
    day = utc_day(int(seconds)) if seconds.isdigit() else None
    facts = ", ".join(str(fact) for fact in (day, "".join(c for c in title if c.isprintable())) if fact)
    return f"{commit[:10]} ({facts})" if facts else commit[:10]
