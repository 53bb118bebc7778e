"""The table of revision × case × target × backend: every cell is tested once, nothing is searched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bisect_bot.errors import (
    BisectBotError,
    BuildUnusable,
    DiskFull,
    JournalError,
    MachineError,
    NoAdapter,
    NoBrowser,
    NpmError,
)
from bisect_bot.history import line
from bisect_bot.model import (
    Case,
    Cell,
    Observation,
    Outcome,
    Report,
    Request,
    Result,
    Revision,
    Target,
    Trial,
    Verdict,
)
from bisect_bot.probes import Probe
from bisect_bot.session import against
from bisect_bot.session.bench import Bench
from bisect_bot.session.journal import SessionState
from bisect_bot.session.logs import last_lines
from bisect_bot.session.rounds import ask_all, under_control
from bisect_bot.session.run import bench_of, refuse
from bisect_bot.session.summary import Circumstances, make_report
from bisect_bot.session.supply import Supply
from bisect_bot.session.units import Unit
from bisect_bot.session.workshop import NEEDS_ADAPTER, Workshop

PURPOSE = "matrix"
RANGE = ".."
# After so many revisions in a row that this machine could not answer for, a target and backend are given up.
PATIENCE = 3
STATES = {Result.TESTED: SessionState.FINISHED, Result.STOPPED: SessionState.STOPPED}


@dataclass(frozen=True, slots=True)
class Question:
    """A request after its words were looked up; `revisions` are in the order of history, each once.

    Commits stand after the published builds, in the order in which they were named.
    """

    request: Request
    supply: Supply
    revisions: tuple[Revision, ...]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """A target and backend that cannot be tested here at all, and why."""

    target: str
    backend: str
    why: str


def matrix_request(request: Request, workshop: Workshop) -> Report:
    """Tests every revision of `request` as a new session and returns its report, which is in the journal then.

    What cannot be answered here (a browser without adapter, a hang of the machine) costs its own cells, which are
    `infra` with the reason. Raises UsageError for what cannot be meant (before a session is begun), DiskFull and
    JournalError. Ctrl-C ends in a report of what was tested.
    """
    question = ask(request, workshop)
    session = workshop.journal.start_session(question.request)
    bench = bench_of(session, question.request, question.cases, question.supply)
    targets: list[Target] = []
    result, reason = Result.TESTED, ""
    try:
        opened, closed = open_units(question.request, workshop)
        targets += dict.fromkeys(unit.target for unit in opened)
        if opened:
            fill(question.revisions, opened, closed, bench, workshop)
        else:
            result, reason = Result.UNUSABLE, closed[0].why
    except KeyboardInterrupt:
        result, reason = Result.STOPPED, "interrupted"
    except (DiskFull, JournalError):
        workshop.journal.finish_session(session, SessionState.STOPPED)
        raise
    around = Circumstances(
        revisions=question.revisions,
        targets=tuple(targets),
        warnings=tuple(question.supply.crossings(question.revisions)),
        wall_s=bench.spending.wall_s,
        stopped=result,
        reason=reason,
    )
    report = make_report([], bench, around)
    workshop.journal.finish_session(session, STATES.get(result, SessionState.FAILED), report)
    return report


def ask(request: Request, workshop: Workshop) -> Question:
    """Looks up the revisions and cases that `request` names. Raises UnknownRevision, CaseError, UsageError."""
    workshop.check_targets(request)
    supply = Supply.of(request, workshop)
    named = [expand(text, supply) for text in request.revisions]
    wanted = {revision.id: revision for _, revisions in named for revision in revisions}
    request, cases = workshop.pin(replace(request, revisions=tuple(dict.fromkeys(word for word, _ in named))))
    refuse(request, cases)
    published = tuple(revision for revision in supply.builds if revision.id in wanted)
    commits = tuple(revision for revision in wanted.values() if revision.version is None)
    return Question(request, supply, (*published, *commits), cases)


def expand(text: str, supply: Supply) -> tuple[str, tuple[Revision, ...]]:
    """What `text` means: one revision, or with `A..B` both ends and what lies between them.

    Between builds those are the builds of main, between commits the first of each run that gives the same artifact.

    Returns the same in words that will mean it tomorrow too, and the revisions. Raises UnknownRevision.
    """
    first, dots, last = text.partition(RANGE)
    if not dots:
        revision = supply.meant(text)
        return revision.id, (revision,)
    one, other = supply.ends(first, last)
    if one.id == other.id:
        return one.id, (one,)
    old, new = supply.in_order(one, other)
    if old.version is None:
        runs = supply.open_ground(old, new).ground.candidates()
        return f"{old.id}{RANGE}{new.id}", tuple(run.revision for run in runs)
    return f"{old.id}{RANGE}{new.id}", line(supply.builds, old, new).main


def open_units(request: Request, workshop: Workshop) -> tuple[tuple[Unit, ...], tuple[Closed, ...]]:
    """What can be tested here, and what cannot: a browser without an adapter still answers for the CPU."""
    opened: list[Unit] = []
    closed: list[Closed] = []
    for name, called in zip(request.targets, labels(request.targets), strict=True):
        backends = request.backends
        found: tuple[Target, ...] = ()
        try:
            found = workshop.targets(replace(request, targets=(name,)))
        except NoAdapter as error:
            closed += [Closed(called, b, _why(error)) for b in backends if b in NEEDS_ADAPTER]
            backends = tuple(b for b in backends if b not in NEEDS_ADAPTER)
            if backends:
                found = workshop.targets(replace(request, targets=(name,), backends=backends))
        except NoBrowser as error:
            closed += [Closed(called, b, _why(error)) for b in backends]
        for target in found:
            opened += [Unit(replace(target, name=called), backend) for backend in backends]
    return tuple(opened), tuple(closed)


def labels(targets: Sequence[str]) -> tuple[str, ...]:
    """What each of `targets` is called in a report, whether or not it can be tested here: `electron`, `electron-2`."""
    kinds = [target.partition(":")[0] for target in targets]
    before = [kinds[:place].count(kind) for place, kind in enumerate(kinds)]
    return tuple(f"{kind}-{same + 1}" if same else kind for kind, same in zip(kinds, before, strict=True))


def fill(
    revisions: Sequence[Revision], opened: Sequence[Unit], closed: Sequence[Closed], bench: Bench, workshop: Workshop
) -> None:
    """Tests every revision on everything that is open; `bench` has the trials, also those that gave no answer.

    Revision by revision, so that each build is fetched once and what Ctrl-C leaves are whole rows. Raises DiskFull and
    JournalError.
    """
    controls = under_control(bench, {unit.target: None for unit in opened}, bench.request, workshop)
    failed: dict[Unit, int] = {}
    no_build: dict[str, NpmError] = {}

    def test(revision: Revision, unit: Unit) -> None:
        if failed.get(unit, 0) >= PATIENCE:
            raise MachineError(f"not tested: {unit.target.name}/{unit.backend} failed {PATIENCE} times in a row")
        # npm that does not answer for one backend does not for the next.
        if revision.id in no_build:
            raise no_build[revision.id]
        _open(bench, revision, unit)
        controls.test(revision, unit, PURPOSE)
        failed.pop(unit, None)

    def note(revision: Revision, unit: Unit, error: MachineError) -> None:
        if isinstance(error, NpmError):
            no_build[revision.id] = error
        else:
            failed[unit] = failed.get(unit, 0) + 1
        if isinstance(error, NoAdapter):
            workshop.forget_adapters((unit.target,))
        _open(bench, revision, unit)
        _add(bench, workshop, _salvaged(bench, revision, unit, _why(error)))

    for revision in revisions:
        for each in closed:
            cells = (Cell(case.name, each.target, each.backend) for case in bench.cases)
            _add(bench, workshop, (_unanswered(revision, cell, each.why) for cell in cells))
    ask_all([(revision, unit) for revision in revisions for unit in opened], controls, test, note)


def _salvaged(bench: Bench, revision: Revision, unit: Unit, why: str) -> Iterator[Trial]:
    """The answers of the cases that had one before another case of their probe had none.

    None where outputs are compared with another run's: what the journal holds is compared with the case's own.
    """
    probe = _probe(bench, revision, unit) if bench.request.against == against.CASES else None
    if probe is None:
        yield from (_unanswered(revision, unit.cell(case), why) for case in bench.cases)
        return
    for key, case in zip(bench.keys(probe), probe.cases, strict=True):
        found = bench.recall_one(key, case, 1)
        if found is None:
            yield _unanswered(revision, unit.cell(case), why)
        else:
            trial = _trial(revision, unit.cell(case), probe, found)
            due = bench.tools.journal.due([(key, 1)])
            bench.ledgers[unit].add(due, [trial] if due else [])
            yield trial


def _probe(bench: Bench, revision: Revision, unit: Unit) -> Probe | None:
    try:
        return bench.probe_of(revision, unit)
    except (BuildUnusable, MachineError):
        return None


def plan(request: Request, workshop: Workshop) -> list[str]:
    """What `request` would test, line by line; nothing is downloaded or run for it."""
    question = ask(request, workshop)
    units = len(request.targets) * len(request.backends)
    shape = (len(question.revisions), len(question.cases), units)
    return [
        f"{shape[0]} revision(s):",
        *(f"  {r.id}  {r.date or ''}  {r.title or ''}".rstrip() for r in question.revisions),
        f"{shape[1]} case(s): {', '.join(case.name for case in question.cases)}",
        f"on {', '.join(request.targets)} with {', '.join(request.backends)}",
        f"{math.prod(shape)} verdict(s) in {shape[0] * units} probe(s), with at most {shape[0]} build(s) fetched",
        *question.supply.crossings(question.revisions),
    ]


def _trial(revision: Revision, cell: Cell, probe: Probe, answer: tuple[Observation, Verdict]) -> Trial:
    """The trial that an answer in the journal stands for."""
    observation, verdict = answer
    return Trial(
        revision=revision.id,
        cell=cell,
        attempt=1,
        verdict=verdict,
        artifact=probe.artifact.digest,
        bundle=probe.bundle.file,
        dispatches=observation.dispatches,
        adapter=observation.adapter,
        purpose=PURPOSE,
        reused=True,
        log=last_lines(observation, verdict),
        providers=observation.providers,
    )


def _unanswered(revision: Revision, cell: Cell, why: str) -> Trial:
    return Trial(revision.id, cell, 1, Verdict(Outcome.INFRA, why), purpose=PURPOSE)


def _add(bench: Bench, workshop: Workshop, trials: Iterable[Trial]) -> None:
    for trial in trials:
        bench.trials.append(trial)
        workshop.watcher.tried(trial)


def _open(bench: Bench, revision: Revision, unit: Unit) -> None:
    """Takes away what an earlier attempt at this question left: each cell has one answer."""
    bench.trials = [t for t in bench.trials if t.revision != revision.id or not unit.holds(t.cell)]


def _why(error: BisectBotError) -> str:
    return f"{error}. {error.advice}".rstrip()
