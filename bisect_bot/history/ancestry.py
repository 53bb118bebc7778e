"""Finds the place of published builds in a clone of onnxruntime: on main, or which commit of main they grew from.

A handful of git processes whatever the number of builds, all of them plumbing that reads: no hook, no lazy fetch,
no write. Clones may be bare, shallow or lack blobs.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bisect_bot.history.git import Git
from bisect_bot.history.known import How, Known
from bisect_bot.history.mainline import MAIN_REFS, SOURCES, nearest, no_main, require_upstream
from bisect_bot.history.sources import Fit, Run, fit, replay

_BUMP = re.compile(r"^\+(\d+\.\d+)\.\d+\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a build says of where it comes from: `commit` (hex, ≥ 7 digits), its `date`, `sources` by path.

    `sources` are git blob ids by their path below js/web (`lib/…`), empty where nobody looked into the package.
    """

    version: str
    commit: str | None = None
    date: dt.date | None = None
    sources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Commit:
    id: str
    date: dt.date
    title: str


@dataclass(frozen=True, slots=True)
class _Main:
    """First-parent main, oldest first, and where each minor version of the product begins on it."""

    commits: tuple[str, ...]
    position: dict[str, int]
    bumps: tuple[tuple[int, str], ...]
    newest: dt.date
    oldest: dt.date


def find(repo: Path, builds: Sequence[Evidence], main: str | None = None) -> tuple[Known, ...]:
    """The place of each of `builds` in the clone `repo`, in the same order.

    `main` names upstream's main branch in the clone; by default it is looked for among `MAIN_REFS`. A build whose
    commit the clone lacks is placed by comparing its sources with main's (`how` says so). Raises UsageError when
    `repo` is no clone of onnxruntime, has no such branch, or git fails.
    """
    git = Git(repo)
    ref = _main_ref(git, main)
    require_upstream(git, ref, repo)
    line = _read_main(git, ref)
    present = _commits(git, [b.commit for b in builds if b.commit])
    by_build = {b.version: _named(b.commit, present) for b in builds}
    off_main = [c.id for c in by_build.values() if c and c.id not in line.position]
    ancestors = nearest(git, off_main, line.position)
    lacking = [b for b in builds if by_build[b.version] is None and b.sources]
    runs = _source_runs(git, ref, line, lacking) if lacking else {}
    fits = {b.version: _fit(b, runs[b.version], line) for b in lacking}
    wanted = [f.first for f in fits.values() if f] + list(ancestors.values())
    about = present | _commits(git, wanted)
    return tuple(
        _from_commit(b, commit, ancestors, line, about)
        if (commit := by_build[b.version])
        else _from_sources(b, fits.get(b.version), line, about)
        for b in builds
    )


def _from_commit(
    build: Evidence, commit: _Commit, ancestors: dict[str, str], line: _Main, about: dict[str, _Commit]
) -> Known:
    on_main = commit.id in line.position
    ancestor = commit.id if on_main else ancestors.get(commit.id)
    return Known(
        version=build.version,
        how=How.COMMIT,
        commit=commit.id,
        date=commit.date,
        title=commit.title,
        on_main=on_main,
        main_ancestor=ancestor,
        ancestor_date=about[ancestor].date if ancestor in about else None,
    )


def _from_sources(build: Evidence, found: Fit | None, line: _Main, about: dict[str, _Commit]) -> Known:
    # A commit of main would be in the clone, if the build's day lies within it.
    covered = build.date and build.commit and line.oldest < build.date < line.newest
    release = "-" not in build.version
    on_main = False if covered or release else None
    known = Known(version=build.version, how=How.NONE, commit=build.commit, date=build.date, on_main=on_main)
    if found is None:
        return known
    return known.model_copy(
        update={
            "how": How.SOURCES,
            "main_ancestor": found.first,
            "main_until": found.last,
            "ancestor_date": about[found.first].date,
            "differing": found.differing,
        }
    )


def _main_ref(git: Git, main: str | None) -> str:
    for ref in (main,) if main else MAIN_REFS:
        found = git.read("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", may_fail=True)
        if found:
            return found.strip()
    raise no_main(git.repo, main or "main")


def _read_main(git: Git, ref: str) -> _Main:
    commits = tuple(reversed(git.read("rev-list", "--first-parent", ref).split()))
    position = {commit: index for index, commit in enumerate(commits)}
    ends = _commits(git, [commits[0], commits[-1]])
    # The version's own history; where its blobs are missing, builds are placed without it.
    log = git.read(
        "log", "--first-parent", "--diff-merges=first-parent", "--reverse", "--no-renames", "--no-ext-diff",
        "--no-textconv", "-p", "-U0", "--format=%x01%H", ref, "--", "VERSION_NUMBER",
        may_fail=True,
    )  # fmt: skip
    bumps = [(position[block[:40]], m[1]) for block in log.split("\x01")[1:] if (m := _BUMP.search(block))]
    return _Main(commits, position, tuple(bumps), ends[commits[-1]].date, ends[commits[0]].date)


def _commits(git: Git, ids: Sequence[str]) -> dict[str, _Commit]:
    """Those of `ids` that the clone has, by full id, with the committer's day (UTC) and the title."""
    if not ids:
        return {}
    names = sorted({i for i in ids if re.fullmatch(r"[0-9a-f]{7,40}", i)})
    text = git.read("log", "--no-walk=unsorted", "--ignore-missing", "--format=%H%x00%ct%x00%s%x01", *names, "--")
    found = [record.strip("\n").split("\0") for record in text.split("\x01")[:-1]]
    return {
        full: _Commit(full, dt.datetime.fromtimestamp(int(seconds), dt.UTC).date(), title)
        for full, seconds, title in found
    }


def _named(abbreviated: str | None, present: dict[str, _Commit]) -> _Commit | None:
    # More than one: the abbreviation became ambiguous, and names nothing.
    found = [c for full, c in present.items() if abbreviated and full.startswith(abbreviated)]
    return found[0] if len(found) == 1 else None


def _source_runs(git: Git, ref: str, line: _Main, builds: Sequence[Evidence]) -> dict[str, tuple[Run, ...]]:
    log = git.read(
        "log", "--first-parent", "--diff-merges=first-parent", "--reverse", "--raw", "--no-renames", "--no-abbrev",
        "-z", "--format=%x01%H", ref, "--", SOURCES,
    )  # fmt: skip
    return replay(log, {b.version: b.sources for b in builds}, line.position, len(line.commits))


def _fit(build: Evidence, runs: Sequence[Run], line: _Main) -> Fit | None:
    """Where on main the sources fit best, among the commits that carried the build's own version number."""
    begin, end = _window(build.version, line)
    if begin is None or begin >= end:
        return None
    found = fit(runs, begin, end, len(build.sources))
    if found is None:
        return None
    first, last, differing = found
    newer_than_clone = end == len(line.commits) and last == end - 1 and differing > 0
    return None if newer_than_clone else Fit(line.commits[first], line.commits[last], differing)


def _window(version: str, line: _Main) -> tuple[int | None, int]:
    """Positions of main, begin and end, between which its version number was that of the build.

    A branch for a release leaves main before main takes the next number. Main's whole length where the clone
    does not tell; begin is None when main has not come to that version yet.
    """
    whole = len(line.commits)
    if not line.bumps:
        return 0, whole
    minor = ".".join(version.split(".")[:2])
    spans = pairwise([*line.bumps, (whole, "")])
    mine = [(begin, end) for (begin, number), (end, _) in spans if number == minor]
    if mine:
        return mine[0][0], mine[-1][1]
    newest = tuple(map(int, line.bumps[-1][1].split(".")))
    return (None, whole) if tuple(map(int, minor.split("."))) > newest else (0, whole)
