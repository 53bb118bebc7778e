"""The search among commits: which part of the artifact the change follows, then which commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bisect_bot.model import Candidate, Cell, Outcome, PartKind, Request, Result, Revision, Trial
from bisect_bot.search import Aim, Conclusion
from bisect_bot.session.bench import Bench
from bisect_bot.session.commit_builds import WASM_OF, CommitBuilds
from bisect_bot.session.control import Controls
from bisect_bot.session.loop import Answer, Hunt
from bisect_bot.session.replay import given
from bisect_bot.session.units import Unit

ATTRIBUTION = "attribution"


@dataclass(frozen=True, slots=True)
class Asked:
    """One cell whose change is searched among commits; `bad` tells whether the newer end was called bad."""

    cell: Cell
    unit: Unit
    new_is_bad: bool


@dataclass(frozen=True, slots=True)
class Sought:
    """The search for one cell among the candidates `runs`; `guilty` is the part that its change is known to follow.

    Without a hunt there is nothing to be searched: all commits give the same artifact.
    """

    asked: Asked
    builds: CommitBuilds
    runs: tuple[Candidate, ...]
    guilty: PartKind | None = None
    hunt: Hunt | None = None

    @property
    def cell(self) -> Cell:
        """The cell that is asked about."""
        return self.asked.cell

    def answer(self) -> Answer:
        """What is known now."""
        if self.hunt is None:
            return Answer(self.cell, (self.runs[0].revision,), _nothing(self.builds), candidates=self.runs)
        answer = replace(self.hunt.answer(), candidates=self.runs)
        found = answer.conclusion
        if found is None or found.result is not Result.FOUND or self.guilty is PartKind.JS:
            return answer
        assert found.last_old is not None and found.first_new is not None, "what is found has two sides"
        old, new = self.runs[found.last_old], self.runs[found.first_new]
        suspects = self.builds.suspects(old, new)
        around = self.builds.lenders_around(old, new) if len(suspects) > 1 else None
        return replace(answer, suspects=suspects, around=around)

    def culprit(self) -> Revision | None:
        """The one commit that is found; None where there is none, or more than one may be it."""
        answer = self.answer()
        found = answer.conclusion
        if found is None or found.result is not Result.FOUND or found.first_new is None or len(answer.suspects) > 1:
            return None
        return self.runs[found.first_new].revision


def prepare(asked: Sequence[Asked], builds: CommitBuilds, bench: Bench, controls: Controls) -> list[Sought]:
    """What is to be searched for each of `asked`, after the parts of the ends were swapped where that tells anything.

    Raises MachineError, DiskFull.
    """
    ends = builds.ground.candidates()
    if len(ends) < 2:
        return [Sought(each, builds, ends) for each in asked]
    guilty = _attributed(asked, ends, builds, bench, controls)
    return [_sought(each, builds, guilty.get(each.cell), bench) for each in asked]


def aim_of(request: Request) -> Aim:
    """When the searches of `request` have done enough."""
    return Aim(request.confidence, request.rarest)


def _sought(each: Asked, builds: CommitBuilds, guilty: PartKind | None, bench: Bench) -> Sought:
    runs = builds.ground.candidates(guilty)
    line = tuple(run.revision for run in runs)
    bad, request = line[-1 if each.new_is_bad else 0].id, bench.request
    hunt = Hunt(each.cell, each.unit, line, bad, request.any_failure, aim_of(request))
    ids = {revision.id for revision in line}
    hunt.given = given(request.replay, runs)
    hunt.trials = [trial for trial in bench.trials if trial.cell == each.cell and trial.revision in ids]
    return Sought(each, builds, runs, guilty, hunt)


def _nothing(builds: CommitBuilds) -> Conclusion:
    ground = builds.ground
    missed = len(ground.wasm_changes(ground.begin, ground.end))
    reason = "no commit between them changes what is tested"
    if missed:
        reason = f"one WebAssembly stands in for all: {missed} commits that change only C++ cannot be told apart"
    return Conclusion(Result.SAME, None, None, None, (), None, reason, 0, None)


# --- which part ---------------------------------------------------------------------------------


def _attributed(
    asked: Sequence[Asked], ends: Sequence[Candidate], builds: CommitBuilds, bench: Bench, controls: Controls
) -> dict[Cell, PartKind]:
    """The part of the artifact that each cell's change follows, where swapping the ends' parts tells.

    Where both ends have one and the same WebAssembly there is nothing to swap.
    """
    old, new = ends[0].revision, ends[-1].revision
    units = tuple(dict.fromkeys(each.unit for each in asked))
    for unit in units:
        for revision in (old, new):
            if not any(t.revision == revision.id and unit.holds(t.cell) for t in bench.trials):
                bench.tools.watcher.doing(f"end: {revision.id}")
                controls.test(revision, unit, "end")
    lenders = [builds.source_of(revision) for revision in (old, new)]
    if len(ends) < 3 or None in lenders or lenders[0] == lenders[1]:
        return {}
    found: dict[Cell, PartKind] = {}
    for own, other in ((old, lenders[1]), (new, lenders[0])):
        left = [each for each in asked if each.cell not in found and _differ(each.cell, old, new, bench)]
        if not left or other is None:
            break
        swapped = replace(own, id=f"{own.id} with the wasm of {other.version}", variant=f"{WASM_OF}:{other.version}")
        for unit in dict.fromkeys(each.unit for each in left):
            bench.tools.watcher.doing(f"{ATTRIBUTION}: {swapped.id}")
            controls.test(swapped, unit, ATTRIBUTION)
        for each in left:
            part = _follows(each.cell, swapped, own, new if own is old else old, bench)
            if part is not None:
                found[each.cell] = part
    for cell, part in found.items():
        bench.remark(f"{cell}: the change follows the {_NAMES[part]} when the parts of the two ends are swapped.")
    return found


_NAMES = {PartKind.JS: "JavaScript", PartKind.WASM: "WebAssembly"}


def _follows(cell: Cell, swapped: Revision, own: Revision, other: Revision, bench: Bench) -> PartKind | None:
    """Whose outcome the artifact with the JavaScript of `own` and the WebAssembly of `other` shows, if either's."""
    said = _said(cell, swapped, bench)
    if said is None:
        return None
    if _alike(said, _said(cell, own, bench)):
        return PartKind.JS
    return PartKind.WASM if _alike(said, _said(cell, other, bench)) else None


def _differ(cell: Cell, old: Revision, new: Revision, bench: Bench) -> bool:
    outcomes = {t.verdict.outcome for r in (old, new) if (t := _said(cell, r, bench)) is not None}
    return outcomes == {Outcome.GOOD, Outcome.BAD}


def _said(cell: Cell, revision: Revision, bench: Bench) -> Trial | None:
    """The one answer of `revision`; None where it has none or more than one."""
    own = [t for t in bench.trials if t.cell == cell and t.revision == revision.id]
    told = [t for t in own if t.verdict.outcome in (Outcome.GOOD, Outcome.BAD)]
    return told[0] if told and len({t.verdict.outcome for t in told}) == 1 else None


def _alike(one: Trial, other: Trial | None) -> bool:
    if other is None or one.verdict.outcome is not other.verdict.outcome:
        return False
    mine, theirs = one.verdict.signature, other.verdict.signature
    return mine is None or theirs is None or mine.same_failure(theirs)
