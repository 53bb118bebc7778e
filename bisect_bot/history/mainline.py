"""First-parent main of a clone: which ref it is, and its commits, in one git process."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from bisect_bot.errors import UsageError
from bisect_bot.history.git import Git

SOURCES = "js/web/lib"
MAIN_REFS = (
    "refs/remotes/upstream/main",
    "refs/remotes/origin/main",
    "refs/heads/main",
    "refs/remotes/origin/master",
    "refs/heads/master",
    "HEAD",
)


@dataclass(frozen=True, slots=True)
class MainLine:
    """First-parent main, oldest first: its `commits`, when each was committed (seconds since 1970), each one's place.

    `ref` is the branch it was read from. `position` counts from the oldest commit that the clone has.
    """

    ref: str
    commits: tuple[str, ...]
    seconds: tuple[int, ...]
    position: dict[str, int]

    def on(self, day: dt.date) -> str | None:
        """The last commit on or before `day` (UTC), or None when all are newer."""
        # The last in the order of the history: dates can go back a little from one commit to the next.
        places = range(len(self.commits) - 1, -1, -1)
        return next((self.commits[at] for at in places if (date := utc_day(self.seconds[at])) and date <= day), None)


def read_main_line(git: Git) -> MainLine | None:
    """First-parent main of the clone, of the first of `MAIN_REFS` that it has; None where it has none of them.

    Raises UsageError when git is missing or the folder is gone.
    """
    shown = [f"--decorate-refs={ref}" for ref in MAIN_REFS]
    text = git.read(
        "log", "--first-parent", "--ignore-missing", "--decorate=full", *shown, "--format=%H %ct %P%x00%D",
        *MAIN_REFS, "--",
        may_fail=True,
    )  # fmt: skip
    tips: dict[str, str] = {}
    below: dict[str, tuple[int, str]] = {}
    for row in text.splitlines():
        facts, _, names = row.partition("\0")
        commit, seconds, *parents = facts.split(" ")
        below[commit] = (int(seconds), parents[0] if parents else "")
        tips.update((name, commit) for name in names.replace(" -> ", ", ").split(", ") if name)
    ref = next((ref for ref in MAIN_REFS if ref in tips), None)
    if ref is None:
        return None
    commits: list[str] = []
    current = tips[ref]
    while current in below:
        commits.append(current)
        current = below[current][1]
    commits.reverse()
    seconds_of = tuple(below[commit][0] for commit in commits)
    return MainLine(ref, tuple(commits), seconds_of, {commit: place for place, commit in enumerate(commits)})


def nearest(git: Git, commits: Iterable[str], position: dict[str, int]) -> dict[str, str]:
    """The newest commit of first-parent main (`position` by id) that each of `commits` contains, where it has one."""
    names = list(commits)
    if not names:
        return {}
    # All the way down: leaving out what main reaches would also leave out what a merge brought to it.
    text = git.read("rev-list", "--parents", *names, "--")
    parents = {words[0]: words[1:] for words in (row.split() for row in text.splitlines())}
    return {commit: below for commit in names if (below := _nearest(commit, parents, position)) is not None}


def require_upstream(git: Git, main: str, shown: object) -> None:
    """Raises UsageError where the tree of the commit or ref `main` is not onnxruntime's (`shown`: the clone's name)."""
    # Of another project every commit would be missing, and so every build off its main.
    if not git.read("rev-parse", "--verify", "--quiet", f"{main}:{SOURCES}", may_fail=True):
        raise UsageError(f"{shown} is no clone of onnxruntime: its main has no {SOURCES}.", "Name one with --repo.")


def no_main(shown: object, ref: str = "main") -> UsageError:
    """What is wrong with a clone without main."""
    return UsageError(f"{shown} has no branch {ref}.", "Fetch upstream's main into the clone: `git fetch origin main`.")


def utc_day(seconds: int) -> dt.date | None:
    """The day (UTC) of seconds since 1970; None for what is no time (a commit can claim anything)."""
    try:
        return dt.date.fromordinal(719163 + seconds // 86400)
    except (ValueError, OverflowError):
        return None


def _nearest(commit: str, parents: dict[str, list[str]], position: dict[str, int]) -> str | None:
    seen: set[str] = set()
    waiting = [commit]
    best: str | None = None
    while waiting:
        current = waiting.pop()
        if current in position:
            if best is None or position[current] > position[best]:
                best = current
        elif current not in seen:
            seen.add(current)
            waiting.extend(parents.get(current, ()))
    return best
