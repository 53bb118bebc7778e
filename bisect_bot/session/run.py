"""Whole sessions: from a request to its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bisect_bot.errors import BisectBotError, DiskFull, MachineError, NoAdapter, OutOfBudget, UsageError
from bisect_bot.history import Line, line
from bisect_bot.model import Case, Report, Request, Result, Revision, Target, Trial
from bisect_bot.probes import run_probe
from bisect_bot.probes.upstream import refuse_upstream, upstream_driver
from bisect_bot.session import against
from bisect_bot.session.all_boundaries import with_others
from bisect_bot.session.bench import Bench
from bisect_bot.session.budget import Budget
from bisect_bot.session.control import Controls
from bisect_bot.session.doubt import second_look
from bisect_bot.session.hunting import Hunting
from bisect_bot.session.journal import SessionState
from bisect_bot.session.judging import UPSTREAM
from bisect_bot.session.machine import Surroundings, changed_since
from bisect_bot.session.ownership import latest_left, owned
from bisect_bot.session.prefetch import Prefetch
from bisect_bot.session.prefetch_jobs import Job, job_of, may_prefetch
from bisect_bot.session.providers import provider_warnings
from bisect_bot.session.replay import looked_up
from bisect_bot.session.rounds import under_control
from bisect_bot.session.summary import Circumstances, make_report
from bisect_bot.session.supply import Supply
from bisect_bot.session.tools import Observe, Tools
from bisect_bot.session.units import units
from bisect_bot.session.workshop import Workshop

STATES = {Result.STOPPED: SessionState.STOPPED, Result.UNUSABLE: SessionState.FAILED}


@dataclass(frozen=True, slots=True)
class Question:
    """A request after its words were looked up.

    `ends` are the good and the bad one, `in_order` the older and the newer. `line` are the published builds that are
    searched between them; None where they are commits.
    """

    request: Request
    supply: Supply
    ends: tuple[Revision, Revision]
    in_order: tuple[Revision, Revision]
    line: Line | None
    cases: tuple[Case, ...]


def run_request(request: Request, workshop: Workshop) -> Report:
    """Runs `request` as a new session and returns its report, which is in the journal then.

    Raises UsageError for what cannot be meant (before a session is begun) and DiskFull. What this machine cannot
    do, and Ctrl-C, end in a report too.
    """
    question = ask(request, workshop)
    session = workshop.journal.start_session(question.request)
    with owned(workshop.journal, session):
        return _run(session, question, workshop)


def resume_session(name: str | None, workshop: Workshop) -> tuple[Request, Report]:
    """Goes on with the session that `name` begins (None: the latest that was left unfinished); request and report.

    Every verdict that it had reached is recalled; the report of a finished one is given again. Raises
    UnknownSession, and UsageError for the session of a `check` or one that another process works on.
    """
    row = latest_left(workshop.journal) if name is None else workshop.journal.session(name)
    if row.request.kind != "run":
        raise UsageError(
            f"session {row.id} is a {row.request.kind}: there is nothing to go on with", f"Type: {row.request.command}"
        )
    finished = workshop.journal.report(row.id) if row.state is SessionState.FINISHED else None
    if finished is not None:
        workshop.watcher.say(f"session {row.id} is finished; this is its report")
        return row.request, finished
    with owned(workshop.journal, row.id):
        workshop.watcher.say(f"going on with session {row.id}")
        return row.request, _run(row.id, ask(row.request, workshop), workshop)


def check_request(request: Request, workshop: Workshop) -> tuple[Trial, ...]:
    """One answer of the one revision that `request` names, for every case on every target and backend.

    Raises UsageError, and MachineError when this machine cannot answer or fails the control that comes last.
    """
    workshop.check_targets(request)
    supply = Supply.of(request, workshop)
    revision = supply.meant(request.good)
    request, cases = workshop.pin(replace(request, good=revision.id, bad=revision.id))
    refuse(request, cases)
    session = workshop.journal.start_session(request)
    state = SessionState.FAILED
    try:
        targets = workshop.targets(request)
        bench = bench_of(session, request, cases, supply)
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
    supply = Supply.of(request, workshop)
    request, cases = workshop.pin(request)
    refuse(request, cases)
    good, bad = supply.ends(request.good, request.bad)
    if good.id == bad.id:
        raise UsageError(f"--good and --bad are both {good.id}", "Name two different revisions.")
    request = replace(request, good=good.id, bad=bad.id)
    old, new = supply.in_order(good, bad)
    if request.replay:
        request = looked_up(request, supply.clone.git, old_is_good=old == good)
    searched = line(supply.builds, old, new) if good.version else None
    return Question(request, supply, (good, bad), (old, new), searched, cases)


def refuse(request: Request, cases: Sequence[Case]) -> None:
    """Raises UsageError where what `request` asks cannot be asked of `cases`."""
    against.refuse(request, cases)
    if request.driver == UPSTREAM:
        refuse_upstream(request, cases)


def _run(session: str, question: Question, workshop: Workshop) -> Report:
    request, supply = question.request, question.supply
    hunting = Hunting(question.request, question.cases, supply)
    stopped, reason, next_step = None, "", ""
    ahead = _ahead(request, supply)
    bench = bench_of(session, request, question.cases, supply, question.ends[0], ahead)
    surroundings = Surroundings(lambda target: workshop.renewed(target, request))
    controls = Controls(bench, surroundings, budget=Budget.of(request, bench.tally))
    targets: tuple[Target, ...] = ()
    try:
        targets = workshop.targets(request)
        for target in targets:
            surroundings.watch(target)
        for sentence in changed_since(session, targets, workshop.journal):
            bench.remark(sentence)
        asked = units(targets, request.backends)
        if question.line is None:
            hunting.among_commits(question.in_order, asked, bench, controls)
        else:
            hunting.among_builds(question.line, asked, bench, controls)
    except KeyboardInterrupt:
        stopped, reason = Result.STOPPED, "interrupted"
    except OutOfBudget as error:
        stopped, reason, next_step = _spent(error, controls)
    except DiskFull:
        workshop.journal.finish_session(session, SessionState.STOPPED)
        raise
    except BisectBotError as error:
        stopped, reason = Result.UNUSABLE, f"{str(error).rstrip('.')}. {error.advice}".rstrip()
        if isinstance(error, NoAdapter):
            workshop.forget_adapters(targets)
    finally:
        ahead.close()
    bench.spending.save()
    targets = tuple(surroundings.now(target) for target in targets)
    around = Circumstances(
        revisions=hunting.listed,
        targets=targets,
        warnings=(*(supply.crossings(question.line.main) if question.line else ()), *supply.notes, *hunting.of_log()),
        wall_s=bench.spending.wall_s,
        stopped=stopped,
        reason=reason,
        next_step=next_step,
        searched=hunting.told_apart,
        proofs=tuple(hunting.proofs),
        culprits=tuple(hunting.culprits),
        ends=question.in_order,
    )
    report = make_report(hunting.answers(), bench, around)
    if request.all_boundaries:
        report = with_others(report, hunting.others(bench.trials), hunting.listed)
    if stopped is None:
        report = second_look(report, request, question.cases, workshop.tolerances, workshop.journal)
    workshop.journal.finish_session(session, STATES.get(report.result, SessionState.FINISHED), report)
    return report


def _spent(error: OutOfBudget, controls: Controls) -> tuple[Result, str, str]:
    """How a session ends whose budget is used up: result, reason and next step.

    What it was told last is confirmed first, or whoever goes on with it would have to test that again, and might never
    come further.
    """
    try:
        controls.confirm()
    except KeyboardInterrupt:
        return Result.STOPPED, "interrupted", ""
    except MachineError as sick:
        return Result.UNUSABLE, f"{str(sick).rstrip('.')}. {sick.advice}".rstrip(), ""
    return Result.STOPPED, str(error), error.next_step


def _upstream(supply: Supply) -> Observe:
    """Runs probes with the test runner of the commit that each artifact was made of."""
    return upstream_driver(lambda probe: supply.checkout(probe.artifact), supply.workshop.cache / "logs")


def _ahead(request: Request, supply: Supply) -> Prefetch:
    """Makes the builds of `supply` ahead as far as `request` lets it."""

    def job(revision: Revision) -> Job | None:
        return job_of(revision, supply) if may_prefetch(request) else None

    return Prefetch(supply.fetch, job, supply.workshop.cache, supply.workshop.watcher)


def bench_of(
    session: str,
    request: Request,
    cases: Sequence[Case],
    supply: Supply,
    good: Revision | None = None,
    ahead: Prefetch | None = None,
) -> Bench:
    """The bench on which the session `session` tests `cases` as `request` asks, with the builds of `supply`.

    Those that may be wanted next are made `ahead` (None: they are not).
    """
    workshop = supply.workshop
    judging = workshop.judging(request, cases)
    upstream = request.driver == UPSTREAM
    tools = Tools(
        journal=workshop.journal,
        judge=judging.judge,
        # What one driver saw is no answer of the other's.
        rules=f"{judging.digest} {request.driver}" if upstream else judging.digest,
        browsers=workshop.browsers,
        fetch=supply.fetch,
        is_intact=supply.is_intact,
        bundle_for=supply.bundle_for,
        watcher=workshop.watcher,
        lent=supply.lent,
        other_parts=supply.other_parts,
        observe=_upstream(supply) if upstream else run_probe,
    )
    if ahead is not None:
        observe = ahead.during(tools.observe)
        tools = replace(tools, fetch=ahead.fetch, observe=observe, foresee=ahead.foresee, took=ahead.took)
    return Bench(session, request, tuple(cases), workshop.smoke(), tools, good, workshop.plan(request))
