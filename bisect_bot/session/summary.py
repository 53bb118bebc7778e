"""Makes the report of a session from what its hunts and its bench know."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from bisect_bot import __version__
from bisect_bot.cases import describe
from bisect_bot.model import (
    Boundary,
    Case,
    CellResult,
    Counts,
    Direction,
    Outcome,
    Proof,
    Report,
    Result,
    Revision,
    Suspect,
    Target,
    Trial,
)
from bisect_bot.search import Conclusion
from bisect_bot.session.against import source_of
from bisect_bot.session.bench import Bench
from bisect_bot.session.loop import Answer
from bisect_bot.session.providers import provider_warnings

# Which result is the headline when cells differ: the first of these that any cell has.
PRECEDENCE = (
    Result.FOUND,
    Result.RANGE,
    Result.STOPPED,
    Result.INCONCLUSIVE,
    Result.UNUSABLE,
    Result.SAME,
)

PLACES = {"cpu": "the CPU", "gpu": "the GPU", "mixed": "both CPU and GPU"}


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the report says beside the answers. `reason` tells why a session ended early."""

    revisions: tuple[Revision, ...]
    targets: tuple[Target, ...]
    warnings: tuple[str, ...]
    wall_s: float
    stopped: Result | None = None
    reason: str = ""


def make_report(answers: Sequence[Answer], bench: Bench, around: Circumstances) -> Report:
    """The report; its first cell is the headline."""
    cells = sorted((cell_result(a, bench.trials) for a in answers), key=lambda c: PRECEDENCE.index(c.result))
    result = around.stopped or (cells[0].result if cells else Result.UNUSABLE)
    tried = {trial.revision for trial in bench.trials} | {r.id for answer in answers for r in answer.line}
    revisions = tuple(r for r in around.revisions if r.id in tried)
    return Report(
        session=bench.session,
        result=result,
        cells=tuple(cells),
        targets=around.targets,
        revisions=revisions,
        trials=tuple(bench.trials),
        proofs=tuple(proof for answer in answers if (proof := _proof(answer)) is not None),
        counts=_counts(bench, len(revisions)),
        warnings=(*bench.remarks, *around.warnings, *_warnings(answers, bench)),
        reference=source_of(bench.request) or reference_of(bench.cases),
        environment=(
            *environment(around.targets),
            *_controls(bench),
            *((f"case {c.name}", describe(c)) for c in bench.cases),
        ),
        reproduce=bench.request.command,
        wall_s=around.wall_s,
        reason=around.reason,
        any_failure=bench.request.any_failure,
    )


def cell_result(answer: Answer, trials: Sequence[Trial]) -> CellResult:
    """One cell's answer in the words of the report; a cell without a conclusion was stopped."""
    conclusion, line = answer.conclusion, answer.line
    if conclusion is None:
        boundary = _boundary(line, answer.gap)
        direction = _direction(answer, trials) if boundary else None
        return CellResult(answer.cell, Result.STOPPED, direction, boundary, note="not finished")
    sides = (conclusion.last_old, conclusion.first_new)
    boundary = None if None in sides else _boundary(line, (sides[0] or 0, sides[1] or 0))
    return CellResult(
        cell=answer.cell,
        result=conclusion.result,
        direction=_direction(answer, trials) if boundary else None,
        boundary=boundary,
        suspects=tuple(Suspect((line[i],), chance, skipped) for i, chance, skipped in conclusion.suspects),
        signature=next(iter(answer.failures), None),
        confidence=conclusion.confidence,
        note=conclusion.reason,
        also=answer.failures[1:],
    )


def reference_of(cases: Sequence[Case]) -> str:
    """Where the expected outputs come from, each source once."""
    return ", ".join(dict.fromkeys(case.reference for case in cases))


def environment(targets: Sequence[Target]) -> tuple[tuple[str, str], ...]:
    """What the verdicts may depend on, as name and value."""
    browsers = tuple((target.name, f"{target.product} {target.version}".strip()) for target in targets)
    machine = f"{platform.system()} {platform.release()} {platform.machine()}"
    return (
        ("bisect-bot", __version__),
        ("python", platform.python_version()),
        ("onnxruntime", version("onnxruntime")),
        ("platform", machine),
        *browsers,
    )


def _controls(bench: Bench) -> tuple[tuple[str, str], ...]:
    """With which builds, and how often, this machine was asked whether it is healthy."""
    builds = dict.fromkeys(ledger.pinned[0] for ledger in bench.ledgers.values() if ledger.pinned is not None)
    runs = bench.tally["controls"]
    return (("controls", f"{bench.smoke.name} on {', '.join(builds)}: {runs} run{'s' * (runs != 1)}"),) if runs else ()


def _boundary(line: Sequence[Revision], sides: tuple[int, int] | None) -> Boundary | None:
    return Boundary(line[sides[0]], line[sides[1]]) if sides else None


def _direction(answer: Answer, trials: Sequence[Trial]) -> Direction | None:
    """Which way the verdict changes, by what the old end was seen to be."""
    told = answer.conclusion.old if answer.conclusion else None
    if told in (Outcome.GOOD, Outcome.BAD):
        return Direction.REGRESSION if told is Outcome.GOOD else Direction.FIX
    old = answer.line[0].id
    for trial in trials:
        if trial.revision == old and trial.cell == answer.cell:
            if trial.verdict.outcome is Outcome.GOOD:
                return Direction.REGRESSION
            if trial.verdict.outcome is Outcome.BAD:
                return Direction.FIX
    return None


def _proof(answer: Answer) -> Proof | None:
    conclusion: Conclusion | None = answer.conclusion
    if conclusion is None or conclusion.last_old is None or not conclusion.retests:
        return None
    reason = None if conclusion.retests_held else conclusion.reason
    return Proof("retest", conclusion.retests_held, reason, conclusion.retests)


def _counts(bench: Bench, revisions: int) -> Counts:
    tally = bench.tally
    return Counts(
        revisions=revisions,
        candidates=revisions,
        builds=tally["builds"],
        artifacts_reused=tally["artifacts_reused"],
        probes=tally["probes"],
        verdicts_reused=tally["verdicts_reused"],
        infra=tally["infra"],
        controls=tally["controls"],
        voided=tally["voided"],
    )


def _warnings(answers: Sequence[Answer], bench: Bench) -> list[str]:
    """What the reader must know to trust the answer as far as it goes, and no further."""
    found = _otherwise(answers, bench)
    for answer in answers:
        found += _unsteady(answer)
        conclusion = answer.conclusion
        beside = [r.id for r in _sides(answer) if r.on_main is False]
        if conclusion and conclusion.result in (Result.FOUND, Result.RANGE) and beside:
            found.append(
                f"{', '.join(beside)} lies beside main (a release branch): fixes may have been cherry-picked onto it, "
                "so the change may have another place in the history of main."
            )
        if conclusion and conclusion.result in (Result.FOUND, Result.RANGE):
            found += _moved(answer, bench.trials)
    if any(t.adapter and t.adapter.software and t.dispatches for t in bench.trials):
        found.append("WebGPU ran on a software adapter: failures that only a real GPU shows cannot be seen here.")
    found += provider_warnings(bench.trials)
    return list(dict.fromkeys(found))


def _otherwise(answers: Sequence[Answer], bench: Bench) -> list[str]:
    """A sentence for each end that is not what it was called."""
    found: list[str] = []
    expected = {bench.request.good: Outcome.GOOD, bench.request.bad: Outcome.BAD}
    opposite = {Outcome.GOOD: Outcome.BAD, Outcome.BAD: Outcome.GOOD}
    searched = {} if bench.request.any_failure else {answer.cell: answer.failures for answer in answers}
    for trial in bench.trials:
        said, mine = expected.get(trial.revision), trial.verdict.signature
        if said is None or trial.verdict.outcome is not opposite[said]:
            continue
        failures = searched.get(trial.cell, ())
        if mine is None or not failures or any(mine.same_failure(failure) for failure in failures):
            found.append(f"{trial.revision} was called {said}, but is {trial.verdict.outcome} for {trial.cell}.")
        else:
            found.append(
                f"{trial.revision} was called {said}, but fails for {trial.cell}, in another way than"
                f" {bench.request.bad}: choose another good end, or let every failure count with --any-failure."
            )
    return found


def _unsteady(answer: Answer) -> list[str]:
    """A sentence when the bad end does not always fail in the same way: each of its ways is what is searched for."""
    if len(answer.failures) < 2:
        return []
    ways = ", ".join(f"{failure.kind} {failure.when}".rstrip() for failure in answer.failures)
    return [f"{answer.cell}: the bad end failed in {len(answer.failures)} ways ({ways}); each of them counts as bad."]


def _moved(answer: Answer, trials: Sequence[Trial]) -> list[str]:
    """A sentence when the two sides of a boundary did not run in the same place: two programs are compared then."""
    places: list[str] = []
    for revision in _sides(answer):
        own = (t.verdict for t in trials if t.cell == answer.cell and t.revision == revision.id)
        places += [v.ran_on for v in own if v.ran_on][:1]
    if len(places) < 2 or places[0] == places[1] or answer.cell.backend != "webgpu":
        return []
    old, new = (revision.id for revision in _sides(answer))
    return [
        f"{answer.cell}: {old} ran it on {PLACES[places[0]]}, {new} on {PLACES[places[1]]}: "
        "what changed may be where it runs, rather than a kernel that was right before."
    ]


def _sides(answer: Answer) -> tuple[Revision, ...]:
    conclusion = answer.conclusion
    if conclusion is None or conclusion.last_old is None or conclusion.first_new is None:
        return ()
    return answer.line[conclusion.last_old], answer.line[conclusion.first_new]
