"""Whole sessions: from a request to its report."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bisect_bot.builds import crossings
from bisect_bot.errors import BisectBotError, DiskFull, NoAdapter, UsageError
from bisect_bot.history import Line, is_older, line, resolve
from bisect_bot.model import Case, Report, Request, Result, Revision, Target, Trial
from bisect_bot.reports.values import counted
from bisect_bot.session import against
from bisect_bot.session.bench import Bench, Tools
from bisect_bot.session.control import Controls
from bisect_bot.session.doubt import second_look
from bisect_bot.session.journal import SessionState
from bisect_bot.session.loop import Hunt, run_hunts
from bisect_bot.session.machine import Surroundings, changed_since
from bisect_bot.session.providers import provider_warnings
from bisect_bot.session.rounds import under_control
from bisect_bot.session.summary import Circumstances, make_report
from bisect_bot.session.units import units
from bisect_bot.session.workshop import Workshop

STATES = {Result.STOPPED: SessionState.STOPPED, Result.UNUSABLE: SessionState.FAILED}


@dataclass(frozen=True, slots=True)
class Question:
    """A request after its words were looked up: `line` is what is searched, `revisions` all there are, in order."""

    request: Request
    line: Line
    revisions: tuple[Revision, ...]
    cases: tuple[Case, ...]


def run_request(request: Request, workshop: Workshop) -> Report:
    """Runs `request` as a new session and returns its report, which is in the journal then.

    Raises UsageError for what cannot be meant (before a session is begun) and DiskFull. What this machine cannot
    do, and Ctrl-C, end in a report too.
    """
    question = ask(request, workshop)
    return _run(workshop.journal.start_session(question.request), question, workshop)


def resume_session(name: str | None, workshop: Workshop) -> tuple[Request, Report]:
    """Goes on with the session that `name` begins (None: the latest that is unfinished); its request and report.

    Every verdict that it had reached is recalled; the report of a finished one is given again. Raises
    UnknownSession, and UsageError for the session of a `check`.
    """
    row = workshop.journal.session(name)
    if row.request.kind != "run":
        raise UsageError(
            f"session {row.id} is a {row.request.kind}: there is nothing to go on with", f"Type: {row.request.command}"
        )
    finished = workshop.journal.report(row.id) if row.state is SessionState.FINISHED else None
    if finished is not None:
        workshop.watcher.say(f"session {row.id} is finished; this is its report")
        return row.request, finished
    workshop.watcher.say(f"going on with session {row.id}")
    return row.request, _run(row.id, ask(row.request, workshop), workshop)


def check_request(request: Request, workshop: Workshop) -> tuple[Trial, ...]:
    """One answer of the one revision that `request` names, for every case on every target and backend.

    Raises UsageError, and MachineError when this machine cannot answer or fails the control that comes last.
    """
    workshop.check_targets(request)
    revision = meant(request.good, workshop.revisions(), workshop)
    request, cases = workshop.pin(replace(request, good=revision.id, bad=revision.id))
    against.refuse(request, cases)
    session = workshop.journal.start_session(request)
    state = SessionState.FAILED
    try:
        targets = workshop.targets(request)
        bench = bench_of(session, request, cases, workshop)
        controls = under_control(bench, targets, request, workshop)
        trials = [t for unit in units(targets, request.backends) for t in bench.test(revision, unit, "check")]
        controls.confirm()
        for sentence in provider_warnings(trials):
            workshop.watcher.say(sentence)
        state = SessionState.FINISHED
    finally:
        workshop.journal.finish_session(session, state)
    return tuple(trials)


def ask(request: Request, workshop: Workshop) -> Question:
    """Looks up the revisions and cases that `request` names. Raises UnknownRevision, CaseError, UsageError."""
    workshop.check_targets(request)
    request, cases = workshop.pin(request)
    against.refuse(request, cases)
    revisions = workshop.revisions()
    good, bad = (meant(text, revisions, workshop) for text in (request.good, request.bad))
    if good.id == bad.id:
        raise UsageError(f"--good and --bad are both {good.id}", "Name two different revisions.")
    old, new = (good, bad) if is_older(good, bad) else (bad, good)
    return Question(replace(request, good=good.id, bad=bad.id), line(revisions, old, new), revisions, cases)


def meant(text: str, revisions: Sequence[Revision], workshop: Workshop) -> Revision:
    """The revision that `text` names; says which where it is not the name itself. Raises UnknownRevision."""
    revision = resolve(text, revisions)
    if revision.id != text:
        workshop.watcher.say(f"{text} is taken for {revision.id}")
    return revision


def plan(request: Request, workshop: Workshop) -> list[str]:
    """What `request` would do, line by line; nothing is downloaded or run for it."""
    question = ask(request, workshop)
    builds = question.line.main
    steps = math.ceil(math.log2(len(builds) - 1)) if len(builds) > 2 else 0
    listed = [f"  {r.id}  {r.date or ''}  {r.title or ''}".rstrip() for r in builds]
    aside = [f"  {r.id}  (beside main: tried only where it narrows the answer)" for r in question.line.aside]
    return [
        f"{len(builds)} published builds on the line from {builds[0].id} to {builds[-1].id}:",
        *listed,
        *aside,
        f"{counted(len(question.cases), 'case')}: {', '.join(case.name for case in question.cases)}",
        f"at most {steps + 2} builds are needed and {counted(steps, 'test')} to narrow down,"
        " besides the two ends and re-tests",
        *_crossings(question),
    ]


def _run(session: str, question: Question, workshop: Workshop) -> Report:
    begin = time.monotonic()
    request = question.request
    good = next(r for r in (question.line.main[0], question.line.main[-1]) if r.id == request.good)
    bench = bench_of(session, request, question.cases, workshop, good)
    surroundings = Surroundings(lambda target: workshop.renewed(target, request))
    controls = Controls(bench, surroundings)
    targets: tuple[Target, ...] = ()
    hunts: list[Hunt] = []
    stopped, reason = None, ""
    try:
        targets = workshop.targets(request)
        for target in targets:
            surroundings.watch(target)
        for sentence in changed_since(session, targets, workshop.journal):
            bench.remark(sentence)
        hunts = [
            Hunt(unit.cell(case), unit, question.line.main, request.bad, request.any_failure)
            for unit in units(targets, request.backends)
            for case in question.cases
        ]
        run_hunts(hunts, question.line, controls, workshop.watcher)
    except KeyboardInterrupt:
        stopped, reason = Result.STOPPED, "interrupted"
    except DiskFull:
        workshop.journal.finish_session(session, SessionState.STOPPED)
        raise
    except BisectBotError as error:
        stopped, reason = Result.UNUSABLE, f"{error}. {error.advice}".rstrip()
        if isinstance(error, NoAdapter):
            workshop.forget_adapters(targets)
    targets = tuple(surroundings.now(target) for target in targets)
    around = Circumstances(
        revisions=question.revisions,
        targets=targets,
        warnings=tuple(_crossings(question)),
        wall_s=time.monotonic() - begin,
        stopped=stopped,
        reason=reason,
    )
    report = make_report([hunt.answer() for hunt in hunts], bench, around)
    if stopped is None:
        report = second_look(report, request, question.cases, workshop.tolerances, workshop.journal)
    workshop.journal.finish_session(session, STATES.get(report.result, SessionState.FINISHED), report)
    return report


def bench_of(
    session: str, request: Request, cases: Sequence[Case], workshop: Workshop, good: Revision | None = None
) -> Bench:
    """The bench on which the session `session` tests `cases` as `request` asks."""
    judging = workshop.judging(request, cases)
    tools = Tools(
        journal=workshop.journal,
        judge=judging.judge,
        rules=judging.digest,
        browsers=workshop.browsers,
        fetch=workshop.fetch,
        is_intact=workshop.is_intact,
        bundle_for=lambda revision, backend: workshop.bundle_for(revision, backend, request.bundle),
        watcher=workshop.watcher,
    )
    return Bench(session, request, tuple(cases), workshop.smoke(), tools, good, workshop.plan(request))


def _crossings(question: Question) -> list[str]:
    """Where the range changes from one implementation to another, in sentences."""
    versions = [r.version for r in question.line.main if r.version]
    found = [
        text for backend in question.request.backends for text in crossings(versions, backend, question.request.bundle)
    ]
    return list(dict.fromkeys(found))
