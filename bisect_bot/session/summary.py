"""Makes the report of a session from what its hunts and its bench know."""

from __future__ import annotations

import platform
from collections.abc import Sequence, Set
from dataclasses import dataclass
from importlib.metadata import version

from bisect_bot import __version__
from bisect_bot.cases import describe
from bisect_bot.model import (
    Boundary,
    Case,
    CellResult,
    Counts,
    Culprit,
    Direction,
    Outcome,
    Proof,
    Report,
    Request,
    Result,
    Revision,
    Suspect,
    Target,
    Trial,
)
from bisect_bot.reports.rows import ASIDE
from bisect_bot.reports.values import counted, short_list
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

# Cells, and commits, that a sentence names.
_CELLS = 5
_COMMITS = 8
PLACES = {"cpu": "the CPU", "gpu": "the GPU", "mixed": "both CPU and GPU"}


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the report says beside the answers.

    `reason` tells why a session ended early, `next_step` what would have come next, `searched` how many revisions and
    candidates there were to be told apart (None: each tried revision was one). `proofs` and `culprits` are of
    boundaries between commits.
    """

    revisions: tuple[Revision, ...]
    targets: tuple[Target, ...]
    warnings: tuple[str, ...]
    wall_s: float
    stopped: Result | None = None
    reason: str = ""
    next_step: str = ""
    searched: tuple[int, int] | None = None
    proofs: tuple[Proof, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    ends: tuple[Revision, Revision] | None = None


def make_report(answers: Sequence[Answer], bench: Bench, around: Circumstances) -> Report:
    """The report; its first cell is the headline."""
    cells = sorted((cell_result(a, bench.trials) for a in answers), key=lambda c: PRECEDENCE.index(c.result))
    result = around.stopped or (cells[0].result if cells else Result.UNUSABLE)
    tried = {trial.revision for trial in bench.trials} | {r.id for answer in answers for r in answer.line}
    tried |= {r.id for c in cells if c.boundary for r in (c.boundary.last_old, c.boundary.first_new)}
    revisions = tuple(r for r in around.revisions if r.id in tried)
    return Report(
        session=bench.session,
        result=result,
        cells=tuple(cells),
        targets=around.targets,
        revisions=revisions,
        trials=tuple(bench.trials),
        proofs=(*(proof for answer in answers if (proof := _proof(answer)) is not None), *around.proofs),
        counts=_counts(bench, around.searched or (len(revisions), len(revisions))),
        warnings=(*bench.remarks, *around.warnings, *_warnings(answers, bench, around.proofs)),
        reference=source_of(bench.request) or reference_of(bench.cases),
        environment=(
            *environment(around.targets),
            *_controls(bench),
            *((f"case {c.name}", describe(c)) for c in bench.cases),
        ),
        reproduce=bench.request.command,
        wall_s=around.wall_s,
        reason=around.reason,
        next_step=around.next_step,
        any_failure=bench.request.any_failure,
        culprit=_headline_of(cells, around.culprits),
        culprits=around.culprits,
        ends=around.ends,
    )


def _headline_of(cells: Sequence[CellResult], culprits: Sequence[Culprit]) -> Culprit | None:
    """The culprit of the first cell, where its answer names one."""
    named = cells[0].boundary.first_new.commit if cells and cells[0].boundary else None
    return next((each for each in culprits if each.commit == named), None)


def cell_result(answer: Answer, trials: Sequence[Trial]) -> CellResult:
    """One cell's answer in the words of the report; a cell without a conclusion was stopped."""
    conclusion = answer.conclusion
    if conclusion is None:
        boundary = _boundary(answer, answer.gap)
        direction = _direction(answer, trials) if boundary else None
        tested = _tested(answer, answer.gap)
        return CellResult(answer.cell, Result.STOPPED, direction, boundary, note="not finished", tested=tested)
    sides = (conclusion.last_old, conclusion.first_new)
    told = None if None in sides else (sides[0] or 0, sides[1] or 0)
    boundary = Boundary(*answer.around) if answer.around else _boundary(answer, told)
    ambiguous = answer.around is not None
    result = Result.RANGE if ambiguous and conclusion.result is Result.FOUND else conclusion.result
    return CellResult(
        cell=answer.cell,
        result=result,
        direction=_direction(answer, trials) if boundary else None,
        boundary=boundary,
        suspects=_suspects(answer, conclusion),
        signature=next(iter(answer.failures), None),
        confidence=conclusion.confidence,
        note=_several(answer) if ambiguous and trials else conclusion.reason,
        also=answer.failures[1:],
        tested=_tested(answer, told),
    )


def _tested(answer: Answer, sides: tuple[int, int] | None) -> tuple[str, str] | None:
    """The revisions whose verdicts speak for the two sides, where those are runs of commits."""
    return (answer.line[sides[0]].id, answer.line[sides[1]].id) if sides and answer.candidates else None


def _suspects(answer: Answer, conclusion: Conclusion) -> tuple[Suspect, ...]:
    """The candidates that may be the first new one; commits that came with one WebAssembly share its probability."""
    if answer.around is not None:
        share = (conclusion.confidence or 0.0) / len(answer.suspects)
        return tuple(Suspect((each,), share) for each in answer.suspects)
    runs = [c.revisions for c in answer.candidates] or [(revision,) for revision in answer.line]
    return tuple(Suspect(runs[i], chance, skipped) for i, chance, skipped in conclusion.suspects)


def _several(answer: Answer) -> str:
    return (
        f"the change came with the WebAssembly of another build: any of {len(answer.suspects)} commits may be the one;"
        " built from source (see: bisect-bot doctor) they could be told apart"
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
    return (("controls", f"{bench.smoke.name} on {', '.join(builds)}: {counted(runs, 'run')}"),) if runs else ()


def _boundary(answer: Answer, sides: tuple[int, int] | None) -> Boundary | None:
    """The revisions between which the verdict changes; of runs of commits, the last old and the first new one."""
    if sides is None:
        return None
    if not answer.candidates:
        return Boundary(answer.line[sides[0]], answer.line[sides[1]])
    return Boundary(answer.candidates[sides[0]].revisions[-1], answer.candidates[sides[1]].revision)


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
    new = answer.line[conclusion.first_new] if conclusion.first_new is not None else None
    named = conclusion.result is Result.FOUND and not answer.around and new is not None and new.version is None
    commit = new.commit if named and new else None
    return Proof("retest", conclusion.retests_held, reason, conclusion.retests, answer.cell, commit)


def _counts(bench: Bench, searched: tuple[int, int]) -> Counts:
    tally = bench.tally
    revisions, candidates = searched
    return Counts(
        revisions=revisions,
        candidates=candidates,
        builds=tally["builds"],
        proof_builds=tally["proof_builds"],
        artifacts_reused=tally["artifacts_reused"],
        probes=tally["probes"],
        verdicts_reused=tally["verdicts_reused"],
        infra=tally["infra"],
        controls=tally["controls"],
        voided=tally["voided"],
    )


def _unproved(proofs: Sequence[Proof]) -> list[str]:
    return [
        f"The proof by {proof.kind} did not hold: {proof.reason}. What was found is a change, but not all of it."
        for proof in proofs
        if proof.held is False and proof.kind != "retest"
    ]


def _warnings(answers: Sequence[Answer], bench: Bench, proofs: Sequence[Proof]) -> list[str]:
    """What the reader must know to trust the answer as far as it goes, and no further."""
    found = [*_unproved(proofs), *_otherwise(answers, bench)]
    for answer in answers:
        found += _unsteady(answer)
        conclusion = answer.conclusion
        beside = [r.id for r in _sides(answer) if r.on_main is False]
        if conclusion and conclusion.result in (Result.FOUND, Result.RANGE) and beside:
            lie = "lie" if len(beside) > 1 else "lies"
            found.append(
                f"{', '.join(beside)} {lie} beside main (a release branch): fixes may have been cherry-picked onto it, "
                "so the change may have another place in the history of main."
            )
        if conclusion and conclusion.result in (Result.FOUND, Result.RANGE):
            found += _moved(answer, bench.trials)
    found += _stood_in(answers, bench.trials)
    if any(t.adapter and t.adapter.software and t.dispatches for t in bench.trials):
        found.append("WebGPU ran on a software adapter: failures that only a real GPU shows cannot be seen here.")
    found += provider_warnings(bench.trials)
    return list(dict.fromkeys(found))


def _stood_in(answers: Sequence[Answer], trials: Sequence[Trial]) -> list[str]:
    """A sentence for each published build whose WebAssembly stood in: what it means, and what cannot be seen so.

    Of a search only commits that it is about are named: those beyond its ends are in none of its revisions, or in all.
    """
    searched: set[str | None] = set()
    for answer in answers:
        # The older end was told good or bad with its own change in it: only what came after can be the answer.
        searched |= {r.commit for run in answer.candidates for r in run.revisions}
        searched -= {r.commit for r in answer.line[:1]}
    lacking: dict[str, dict[str, None]] = {}
    revisions: dict[str, dict[str, None]] = {}
    for trial in trials:
        if trial.wasm and trial.purpose not in ASIDE:
            revisions.setdefault(trial.wasm, {})[trial.revision] = None
            lacking.setdefault(trial.wasm, {}).update(dict.fromkeys(trial.approximate))
    return [
        f"The WebAssembly of {version} stood in for that of {', '.join(revisions[version])}: "
        f"{_not_apart(tuple(commits), searched)}."
        for version, commits in lacking.items()
        if commits
    ]


def _not_apart(commits: Sequence[str], searched: Set[str | None]) -> str:
    """What cannot be told apart of the C++ changes in `commits`; `searched` is empty where nothing was searched."""
    inside = [commit for commit in commits if commit in searched or not searched]
    beyond = len(commits) - len(inside)
    told = ["no change of C++ inside the range is hidden by it"]
    if inside:
        named = short_list([commit[:10] for commit in inside], _COMMITS)
        own = " of the range" if searched else ""
        told = [f"{counted(len(inside), 'commit')}{own} that change{_s(inside)} C++ cannot be told apart ({named})"]
    if beyond:
        more = f"{beyond} more" if inside else str(beyond)
        told.append(f"{more} between the range and that build {'is' if beyond == 1 else 'are'} the same for all of it")
    return "; ".join(told)


def _s(subject: Sequence[str]) -> str:
    return "s" if len(subject) == 1 else ""


def _otherwise(answers: Sequence[Answer], bench: Bench) -> list[str]:
    """A sentence for each way in which an end is not what it was called, with the cells that show it."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    expected = _called(answers, bench.request)
    opposite = {Outcome.GOOD: Outcome.BAD, Outcome.BAD: Outcome.GOOD}
    searched = {} if bench.request.any_failure else {answer.cell: answer.failures for answer in answers}
    as_called = {(t.revision, t.cell) for t in bench.trials if t.verdict.outcome is expected.get(t.revision)}
    for trial in bench.trials:
        said, mine = expected.get(trial.revision), trial.verdict.signature
        if said is None or trial.verdict.outcome is not opposite[said]:
            continue
        failures = searched.get(trial.cell, ())
        sometimes = " now and then" if (trial.revision, trial.cell) in as_called else ""
        if sometimes and said is Outcome.BAD:
            continue  # what fails now and then is bad
        if mine is None or not failures or any(mine.same_failure(failure) for failure in failures):
            words = (f"{trial.revision} was called {said}, but is {trial.verdict.outcome}{sometimes} for", ".")
        else:
            advice = "choose another good end, or let every failure count with --any-failure"
            words = (
                f"{trial.revision} was called {said}, but fails{sometimes} for",
                f", in another way than {bench.request.bad}: {advice}.",
            )
        found.setdefault(words, {})[str(trial.cell)] = None
    return [f"{begin} {short_list(list(cells), _CELLS)}{end}" for (begin, end), cells in found.items()]


def _called(answers: Sequence[Answer], request: Request) -> dict[str, Outcome]:
    """What the tested ends were called: of commits, the first of the run that an end belongs to is tested for it."""
    called = {request.good: Outcome.GOOD, request.bad: Outcome.BAD}
    runs = [run for answer in answers for run in (*answer.candidates[:1], *answer.candidates[-1:])]
    return called | {run.revision.id: called[r.id] for run in runs for r in run.revisions if r.id in called}


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
