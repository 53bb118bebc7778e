"""What a clone knows of the commit that an answer names."""

from __future__ import annotations

import re

from bisect_bot.history.git import Git
from bisect_bot.model import Culprit

# Upstream merges by squashing, which ends the title with the pull request's number. A revert names two: the last is
# its own.
_PULL_REQUEST = re.compile(r"\(#([0-9]{1,9})\)")


def culprit(git: Git, commit: str) -> Culprit:
    """Author, time (ISO 8601, with its zone), title, pull request and files of `commit`, a full sha; two git processes.

    `files` differ from the first parent, sorted; a renamed one is there under both names, since finding renames needs
    contents that a partial clone may lack. They are empty where a shallow clone ends at this commit. The texts are
    the author's own: whoever shows them has to escape them. Raises UsageError when the clone lacks the commit.
    """
    form = "--format=%H%x00%P%x00%an%x00%aI%x00%s"
    shown = git.read("show", "-s", "--encoding=UTF-8", form, "--end-of-options", f"{commit}^{{commit}}")
    sha, parents, author, date, title = shown.rstrip("\n").split("\0")
    names = _changed(git, sha, parents.split())
    numbers = _PULL_REQUEST.findall(title)
    return Culprit(sha, author, date, title, int(numbers[-1]) if numbers else None, names)


def _changed(git: Git, sha: str, parents: list[str]) -> tuple[str, ...]:
    """The files in which `sha` differs from the first of `parents` (none: from nothing)."""
    if not parents and "\nparent " in git.read("cat-file", "commit", sha).partition("\n\n")[0]:
        return ()
    sides = [parents[0], sha] if parents else ["--root", "--no-commit-id", sha]
    listed = git.read("diff-tree", "-r", "-z", "--no-renames", "--name-only", *sides)
    return tuple(name for name in listed.split("\0") if name)
