"""What a commit changed, as a diff that `git apply` takes: to bring the change elsewhere, or to take it back."""

from __future__ import annotations

from collections.abc import Sequence

from bisect_bot.errors import BuildUnusable, UsageError
from bisect_bot.history.git import Git

# Plumbing, with all that a configuration could change named outright; whole object ids, as binary files need them.
_FORM = (
    "-r", "-p", "--root", "--no-commit-id", "--binary", "--full-index", "--no-renames", "--no-ext-diff",
    "--no-textconv", "--no-color", "--no-indent-heuristic", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
_NOTHING = "0" * 40


def diff_of(git: Git, commit: str, paths: Sequence[str]) -> bytes:
    """The diff of `commit` (a full sha) against its first parent within `paths`; b"" where it touches none of them.

    `paths` are files and folders of the tree, without wildcards; `!path` leaves out what lies below. Raises
    BuildUnusable when the clone lacks a file's content that the diff needs, or the parent; UsageError for a commit
    that it does not have.
    """
    return _diff(git, commit, paths)


def reverse_diff_of(git: Git, commit: str, paths: Sequence[str]) -> bytes:
    """The diff that takes `commit` back, within `paths`; else as `diff_of`."""
    return _diff(git, commit, paths, "-R")


def _diff(git: Git, commit: str, paths: Sequence[str], *more: str) -> bytes:
    sides = _sides(git, commit)
    within = ("--", *(_pathspec(path) for path in paths))
    if not paths:
        return b""
    try:
        return git.read_bytes("diff-tree", *_FORM, *more, *sides, *within)
    except UsageError as error:
        missing = _first_missing(git, sides, within)
        if missing is None:
            raise
        raise BuildUnusable(
            f"the clone lacks what {commit[:10]} changed in {missing}: it is a partial clone",
            "Name a complete clone with --repo, or let git fetch that file there by showing it once.",
        ) from error


def _sides(git: Git, commit: str) -> tuple[str, ...]:
    """What to compare: the first parent and the commit, or the commit alone where it is the first of history."""
    header = git.read("cat-file", "commit", f"{commit}^{{commit}}").partition("\n\n")[0]
    parents = [line.removeprefix("parent ") for line in header.splitlines() if line.startswith("parent ")]
    if not parents:
        return (commit,)
    if not git.read("cat-file", "-t", parents[0], may_fail=True):
        raise BuildUnusable(
            f"the clone ends at {commit[:10]}: what that changed is not in it",
            "Name a complete clone with --repo, or let git fetch more of its history (git fetch --unshallow).",
        )
    return (parents[0], commit)


def _pathspec(path: str) -> str:
    return f":(top,literal,exclude){path[1:]}" if path.startswith("!") else f":(top,literal){path}"


def _first_missing(git: Git, sides: Sequence[str], within: Sequence[str]) -> str | None:
    """The first changed path with a content that the clone lacks, or None."""
    raw = git.read("diff-tree", "-r", "-z", "--root", "--no-commit-id", "--no-renames", *sides, *within)
    fields = raw.split("\0")
    for entry, path in zip(fields[::2], fields[1::2], strict=False):
        _, to_mode, *blobs, _ = entry.lstrip(":").split()
        for blob in blobs if to_mode != "160000" else ():
            if blob != _NOTHING and not git.read("cat-file", "-t", blob, may_fail=True):
                return path
    return None
