"""Tests the two revisions of somebody's boundary again, here, and says whether they are what the report says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from bisect_bot.errors import CaseError, MachineError, UsageError
from bisect_bot.model import Case, Outcome, Request, Revision, Signature, Trial
from bisect_bot.reports.claim import Claim, ClaimedCell
from bisect_bot.reports.values import counted
from bisect_bot.session.bench import Bench
from bisect_bot.session.control import Controls
from bisect_bot.session.journal import SessionState
from bisect_bot.session.rounds import ask_all, under_control
from bisect_bot.session.run import bench_of, refuse
from bisect_bot.session.supply import Supply
from bisect_bot.session.units import Unit, units
from bisect_bot.session.watcher import Watcher
from bisect_bot.session.workshop import Workshop

PURPOSE = "verify"
# Old, new, old, new: what changes between two runs of the same build is no boundary.
ROUNDS = 2


class Answer(StrEnum):
    """What came out, from the strongest word to the weakest."""

    DISAGREE = "disagree"
    CANNOT_TELL = "cannot tell"
    AGREE = "agree"


@dataclass(frozen=True, slots=True)
class Finding:
    """One cell of one revision: what the report says it is, what it is here, and why that says what it says."""

    revision: str
    target: str
    cell: ClaimedCell
    said: Outcome
    answer: Answer
    why: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer as a whole; `notes` are sentences about what was compared, and what was not."""

    session: str
    answer: Answer
    revisions: tuple[str, str]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    def of(self, revision: str) -> tuple[Answer, tuple[Finding, ...]]:
        """The answer for one revision, with its findings."""
        own = tuple(finding for finding in self.findings if finding.revision == revision)
        return worst([finding.answer for finding in own]), own


class _OnlyNew:
    """A watcher that is not told of recalled answers, which say nothing here."""

    def __init__(self, inner: Watcher) -> None:
        self.say, self.ask, self.doing = inner.say, inner.ask, inner.doing
        self.downloading, self.using = inner.downloading, inner.using
        self._tried = inner.tried

    def tried(self, trial: Trial) -> None:
        """Passes on a fresh answer."""
        if not trial.reused:
            self._tried(trial)


def verify(claim: Claim, request: Request, workshop: Workshop) -> Verification:
    """Tests the boundary of `claim` afresh, as `request` says; what earlier sessions found is not taken for it.

    All cases are run, as they may share a page; those that the claim speaks of are judged. Raises UsageError when the
    cases or revisions are not those of the claim, and MachineError when this machine cannot answer.
    """
    workshop.check_targets(request)
    supply = Supply.of(request, workshop)
    old, new = supply.ends(claim.old, claim.new)
    if old.id == new.id or supply.in_order(old, new) != (old, new):
        raise UsageError(f"the report's boundary is no step forward: {old.id} to {new.id}", "Was it changed by hand?")
    request, cases = workshop.pin(replace(request, good=old.id, bad=new.id))
    refuse(request, cases)
    names, notes = match_cases(claim, cases)
    session = workshop.journal.start_session(request)
    state = SessionState.FAILED
    try:
        targets = workshop.targets(request)
        quiet = replace(supply, workshop=replace(workshop, watcher=_OnlyNew(workshop.watcher)))
        bench = bench_of(session, request, cases, quiet)
        controls = under_control(bench, targets, request, workshop)
        _ask(units(targets, request.backends), (old, new), controls)
        state = SessionState.FINISHED
    finally:
        workshop.journal.finish_session(session, state)
    findings = _findings(claim, (old, new), names, bench)
    return Verification(
        session, worst([finding.answer for finding in findings]), (old.id, new.id), findings, (*notes, *bench.remarks)
    )


def match_cases(claim: Claim, cases: Sequence[Case]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The name here of each case that `claim` speaks of, and a sentence for each that has not the same content.

    Cases are known by their content, else by their name, else by being the only one. Raises CaseError for one that is
    not among `cases`.
    """
    wanted = list(dict.fromkeys(cell.case for cell in claim.cells))
    by_digest = {case.digest[:16]: case.name for case in cases}
    names = {case.name for case in cases}
    found: dict[str, str] = {}
    notes: list[str] = []
    for name in wanted:
        digest = claim.digests.get(name)
        if digest in by_digest:
            found[name] = by_digest[digest]
            continue
        if name not in names and not (len(wanted) == len(cases) == 1):
            raise CaseError(
                f"the report's case {name} is not among those that were given ({', '.join(sorted(names))})",
                "Give its file with --case.",
            )
        found[name] = name if name in names else cases[0].name
        if digest is not None:
            notes.append(f"{found[name]} is not byte for byte the report's case {name} (sha256 {digest}…).")
    return found, tuple(notes)


def worst(answers: Sequence[Answer]) -> Answer:
    """What several answers say together; nothing told means that nobody can tell."""
    return next((answer for answer in Answer if answer in answers), Answer.CANNOT_TELL)


def compare(cell: ClaimedCell, said: Outcome, trials: Sequence[Trial]) -> tuple[Answer, str]:
    """Whether `trials`, one revision's for `cell`, are what was `said`, and why."""
    outcomes = list(dict.fromkeys(trial.verdict.outcome for trial in trials))
    if not trials:
        return Answer.CANNOT_TELL, "it was not tested here"
    verdict = trials[0].verdict
    if len(outcomes) > 1:
        return Answer.CANNOT_TELL, f"runs of it disagree here ({', '.join(outcomes)})"
    if verdict.outcome not in (Outcome.GOOD, Outcome.BAD):
        return Answer.CANNOT_TELL, f"{verdict.outcome}: {verdict.reason}"
    where = f" on the {verdict.ran_on.upper()}" if verdict.ran_on in ("cpu", "gpu") else ""
    ran = f"{counted(len(trials), 'run')}{where}"
    if verdict.outcome is not said:
        return Answer.DISAGREE, f"{verdict.outcome} here, {said} in the report: {verdict.reason} ({ran})"
    if said is Outcome.BAD and (other := _another_failure(cell, trials)):
        return Answer.CANNOT_TELL, f"{other}: {verdict.reason}"
    unsaid = ", which does not say how it fails" if said is Outcome.BAD and cell.signature is None else ""
    return Answer.AGREE, f"{verdict.outcome} here as in the report{unsaid}: {verdict.reason} ({ran})"


def _another_failure(cell: ClaimedCell, trials: Sequence[Trial]) -> str:
    """How the failure of `trials`, which are all bad, is not the one that `cell` claims; empty where it is.

    Where the claim does not say how it fails, all that is asked is that they fail in one way.
    """
    shown = [trial.verdict.signature for trial in trials]
    ways = list(dict.fromkeys(_way(signature) for signature in shown))
    if len(ways) > 1:
        return f"runs of it fail here in different ways ({'; '.join(ways)})"
    claimed, mine = cell.signature, shown[0]
    if claimed is None or (mine is not None and mine.same_failure(claimed)):
        return ""
    return f"fails here in another way: {ways[0]}, instead of {_way(claimed)}"


def _way(signature: Signature | None) -> str:
    """The failure `signature` in words that are the same for the same failure."""
    if signature is None:
        return "without a word"
    words = f"{signature.kind} ({signature.message})" if signature.message else str(signature.kind)
    return f"{words} from {signature.when} on" if signature.when else words


def _ask(asked: Sequence[Unit], pair: tuple[Revision, Revision], controls: Controls) -> None:
    def test(revision: Revision, unit: Unit) -> None:
        # What earlier sessions found is recalled first: asked again until the answer is new.
        while any(trial.reused for trial in controls.test(revision, unit, PURPOSE)):
            pass

    def unanswered(_revision: Revision, _unit: Unit, error: MachineError) -> None:
        raise error

    ask_all(
        [(revision, unit) for unit in asked for _ in range(ROUNDS) for revision in pair], controls, test, unanswered
    )


def _findings(
    claim: Claim, pair: tuple[Revision, Revision], names: dict[str, str], bench: Bench
) -> tuple[Finding, ...]:
    targets = list(dict.fromkeys(trial.cell.target for trial in bench.trials))
    findings = []
    for revision, side in zip(pair, ("old", "new"), strict=True):
        for cell in claim.cells:
            for target in targets:
                own = [
                    trial
                    for trial in bench.trials
                    if (trial.revision, trial.cell.case) == (revision.id, names[cell.case])
                    and (trial.cell.target, trial.cell.backend) == (target, cell.backend)
                    and not trial.reused
                ]
                said = cell.old if side == "old" else cell.new
                findings.append(Finding(revision.id, target, cell, said, *compare(cell, said, own)))
    return tuple(findings)
