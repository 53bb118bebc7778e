"""Verdicts of somebody's `git bisect log`, as evidence: one answer each, which no test was made for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bisect_bot.errors import UsageError
from bisect_bot.history.bisect_log import Bisection, read_bisect_log
from bisect_bot.history.ends import FULL, find_commit
from bisect_bot.history.git import Git
from bisect_bot.model import Candidate, Outcome, Request
from bisect_bot.reports.values import counted, short_list
from bisect_bot.session.loop import Given, Hunt

# More than any bisect leaves behind.
_MOST_BYTES = 1 << 20
_HOW = "Name a file with what `git bisect log` prints."
_ANSWERS = (Outcome.GOOD, Outcome.BAD)
_SHOWN = 8
_DIGITS = 10


def read_log(path: Path) -> Bisection:
    """The bisect that the file `path` has the log of. Raises UsageError."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--replay {path}: {error.strerror}", _HOW) from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"--replay {path}: no bisect log is that long", _HOW)
    # What a shell of Windows writes with `git bisect log > file`.
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return read_bisect_log(data.decode("utf-16" if is_wide else "utf-8", "replace"))


def looked_up(request: Request, git: Git, *, old_is_good: bool) -> Request:
    """`request` with the commits of its log by their full ids, and `old` and `new` as good and bad.

    What the clone lacks is kept as it was named. Raises UsageError where a commit is both good and bad under two names.
    """
    sides = {"old": "good", "new": "bad"} if old_is_good else {"old": "bad", "new": "good"}
    named = ((name if FULL.fullmatch(name) else find_commit(git, name) or name, said) for name, said in request.replay)
    told: dict[str, str] = {}
    for commit, said in named:
        word = sides.get(said, said)
        before = told.get(commit, word)
        if {before, word} == {"good", "bad"}:
            raise UsageError(
                f"--replay: the log calls {commit[:_DIGITS]} both {before} and {word}", "Take out what is wrong."
            )
        told[commit] = before if word == "skip" else word
    return replace(request, replay=tuple(told.items()))


def given(replay: Iterable[tuple[str, str]], runs: Sequence[Candidate]) -> Given:
    """What `replay` says of the candidates `runs`, one answer each, by the id of the revision that stands for it.

    Commits of one candidate give the same artifact: they are one answer, and none where they contradict each other.
    """
    holder = {revision.commit: run.revision.id for run in runs for revision in run.revisions}
    said: dict[str, set[Outcome]] = {}
    for commit, word in replay:
        if commit in holder:
            said.setdefault(holder[commit], set()).add(Outcome(word))
    told = {name: outcomes - {Outcome.SKIP} or outcomes for name, outcomes in said.items()}
    return tuple((name, next(iter(outcomes))) for name, outcomes in told.items() if len(outcomes) == 1)


def sentences(replay: Sequence[tuple[str, str]], searches: Sequence[tuple[Hunt, Sequence[Candidate]]]) -> list[str]:
    """What a reader must know of the verdicts of `replay`, which `searches` (each with its candidates) were given."""
    if not replay or not searches:
        return []
    found: list[str] = []
    holder = {r.commit: run.revision.id for _, runs in searches for run in runs for r in run.revisions}
    outside = [commit for commit, _ in replay if commit not in holder]
    if outside:
        found.append(f"Outside of what was searched, and ignored: {_of_log(outside)}.")
    tested = {t.revision for hunt, _ in searches for t in hunt.trials if t.verdict.outcome in _ANSWERS}
    untested = [commit for commit, _ in replay if commit in holder and holder[commit] not in tested]
    if untested:
        found.append(f"Taken from the log and not tested here: {_of_log(untested)}.")
    for hunt, runs in searches:
        found += [f"{hunt.cell}: {text}" for text in (*_refuted(hunt), *_contradictory(replay, runs))]
    return list(dict.fromkeys(found))


def _refuted(hunt: Hunt) -> list[str]:
    gone = [each for each in hunt.given if each not in hunt.believed and each[1] is not Outcome.SKIP]
    return [
        f"the log calls {name[:_DIGITS]} {said}, which its tests here speak against: they count, and the log does not."
        for name, said in gone
    ]


def _contradictory(replay: Sequence[tuple[str, str]], runs: Sequence[Candidate]) -> list[str]:
    said = dict(replay)
    found = []
    for run in runs:
        words = [(r.commit or "", said[r.commit or ""]) for r in run.revisions if r.commit in said]
        if {"good", "bad"} <= {word for _, word in words}:
            named = ", ".join(f"{commit[:_DIGITS]} {word}" for commit, word in words)
            found.append(f"the log tells apart commits that give the same artifact ({named}), and was ignored there.")
    return found


def _of_log(commits: Sequence[str]) -> str:
    named = short_list([commit[:_DIGITS] for commit in commits], _SHOWN)
    return f"{counted(len(commits), 'verdict')} of the bisect log ({named})"
