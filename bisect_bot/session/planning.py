"""What a `run` would do, in lines of text: nothing is downloaded, built or run for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bisect_bot.history import Line
from bisect_bot.history.priors import Prior
from bisect_bot.model import Candidate, Request, Revision
from bisect_bot.reports.values import counted
from bisect_bot.search import halvings
from bisect_bot.session.commit_builds import CommitBuilds
from bisect_bot.session.run import Question, ask
from bisect_bot.session.survey import AUTO
from bisect_bot.session.weights import priors_of_all
from bisect_bot.session.workshop import Workshop

# Seconds, where this machine has not measured its own yet: a build from a warm folder, the first one, and a probe.
_BUILD_S, _INSTALL_S, _PROBE_S = 5.0, 45.0, 6.0
_SHOWN = 200
# Candidates that the plan gives reasons for; and how far below an average one it calls them unlikely.
_LIKELIEST, _UNLIKELY = 8, 0.1


def plan(request: Request, workshop: Workshop) -> list[str]:
    """What `request` would do, line by line. Raises UnknownRevision, CaseError, UsageError."""
    question = ask(request, workshop)
    cases = f"{counted(len(question.cases), 'case')}: {', '.join(case.name for case in question.cases)}"
    if question.line is not None:
        more = question.request.source == AUTO and question.supply.has_clone
        after = ["then the commits between the two builds that bracket the change"] if more else []
        return [*_builds(question.line), cases, *_tests(len(question.line.main)), *after, *_crossings(question)]
    return [*_commits(question.supply.open_ground(*question.in_order), question), cases]


def _builds(line: Line) -> Iterator[str]:
    yield f"{counted(len(line.main), 'published build')} on the line from {line.main[0].id} to {line.main[-1].id}:"
    yield from (_listed(r) for r in line.main)
    yield from (f"  {r.id}  (beside main: tried only where it narrows the answer)" for r in line.aside)


def _tests(candidates: int) -> list[str]:
    steps = halvings(candidates)
    return [
        f"at most {steps + 2} builds are needed and {counted(steps, 'test')} to narrow down,"
        " besides the two ends and re-tests"
    ]


def _commits(builds: CommitBuilds, question: Question) -> Iterator[str]:
    ground = builds.ground
    runs = ground.candidates()
    commits = ground.commits[ground.begin : ground.end + 1]
    yield (
        f"{len(commits)} commits from {commits[0].revision.id} to {commits[-1].revision.id}, of which"
        f" {counted(len(runs), 'candidate')} can be told apart here:"
    )
    for run in runs[:_SHOWN]:
        place = ground.place_of(run.revision.commit or "")
        source = next(iter(ground.choices(place)), None)
        wasm = "its own" if source is None or ground.is_exact(place, source) else f"that of {source.version}"
        more = f" (and {len(run.revisions) - 1} after it)" if len(run.revisions) > 1 else ""
        yield f"{_listed(run.revision)}{more}  [wasm: {wasm}]"
    if len(runs) > _SHOWN:
        yield f"  … and {len(runs) - _SHOWN} more"
    yield from _first_guesses(runs, priors_of_all(builds, runs, question.cases, question.request.backends))
    yield from _tests(len(runs))
    minutes = (_INSTALL_S + (halvings(len(runs)) + 2) * (_BUILD_S + 2 * _PROBE_S)) / 60
    yield f"about {math.ceil(minutes)} min where nothing is cached yet"
    tools = question.supply.toolchain
    if not tools.able:
        missed = len(ground.wasm_changes(ground.begin, ground.end))
        yield (
            f"the WebAssembly cannot be built here ({', '.join(tools.lacking)}): {counted(missed, 'commit')} that"
            " change it can only be told apart where published builds lend theirs"
        )


def _first_guesses(runs: Sequence[Candidate], priors: Sequence[Prior]) -> Iterator[str]:
    """The likeliest of the candidates but the first, beside an average one, and what is next to impossible."""
    places = range(1, len(runs))
    if len(places) < 2:
        return
    yield "what speaks for and against them, which decides the order of the tests and never the answer:"
    likely = [i for i in places if priors[i].weight >= _UNLIKELY]
    for i in sorted(likely, key=lambda i: -priors[i].weight)[:_LIKELIEST]:
        yield f"  x{priors[i].weight:.1f}  {runs[i].revision.id}: {priors[i].reason}"
    unlikely = [priors[i].reason for i in places if i not in likely]
    if unlikely:
        count = counted(len(unlikely), "candidate")
        which = "one of which" if len(unlikely) > 1 else "which"
        yield f"  below x{_UNLIKELY:g}, but never ruled out: {count}, {which} {unlikely[0]}"


def _listed(revision: Revision) -> str:
    return f"  {revision.id}  {revision.date or ''}  {revision.title or ''}".rstrip()


def _crossings(question: Question) -> list[str]:
    return question.supply.crossings(question.line.main) if question.line else []
