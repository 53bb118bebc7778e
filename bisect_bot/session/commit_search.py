"""The search among commits: which part of the artifact the change follows, then which commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bisect_bot.model import Candidate, Cell, Failure, Outcome, PartKind, Request, Result, Revision, Trial
from bisect_bot.model.commits import WASM_OF
from bisect_bot.search import Aim, Conclusion
from bisect_bot.session.bench import Bench
from bisect_bot.session.commit_builds import CommitBuilds
from bisect_bot.session.control import Controls
from bisect_bot.session.ground import Source
from bisect_bot.session.loop import Answer, Hunt, about
from bisect_bot.session.replay import given
from bisect_bot.session.units import Unit
from bisect_bot.session.weights import priors

ATTRIBUTION = "attribution"
_NO_CHANGE = "no commit between them changes what is loaded, so nothing was tested"
_ONE_WASM = "one WebAssembly stands in for all of them, so nothing was tested"


@dataclass(frozen=True, slots=True)
class Asked:
    """One cell whose change is searched among commits; `new_is_bad` tells whether the newer end was called bad.

    `kinds` are those of the failure that is searched for, where published builds have shown it (none: any): built from
    its commit, an end may fail in another way, which says nothing of it.
    """

    cell: Cell
    unit: Unit
    new_is_bad: bool
    kinds: frozenset[Failure] = frozenset()


@dataclass(frozen=True, slots=True)
class Sought:
    """The search for one cell among the candidates `runs`; `bench` has the tests, also those of swapped parts.

    Without a hunt there is nothing to be searched: all commits give the same artifact.
    """

    asked: Asked
    builds: CommitBuilds
    runs: tuple[Candidate, ...]
    bench: Bench
    hunt: Hunt | None = None

    @property
    def cell(self) -> Cell:
        """The cell that is asked about."""
        return self.asked.cell

    def answer(self) -> Answer:
        """What is known now."""
        if self.hunt is None:
            return _nothing(self.asked, self.builds)
        answer = replace(self.hunt.answer(), candidates=self.runs)
        sides = self.sides()
        if sides is None:
            return answer
        suspects = self.builds.suspects(*sides, self._guilty_between(*sides))
        around = self.builds.lenders_around(*sides) if suspects != (sides[1].revision,) else None
        return replace(answer, suspects=suspects, around=around)

    def sides(self) -> tuple[Candidate, Candidate] | None:
        """The two neighbouring candidates between which the change was found; None where it was not."""
        found = self.hunt.answer().conclusion if self.hunt else None
        if found is None or found.result is not Result.FOUND:
            return None
        assert found.last_old is not None and found.first_new is not None, "what is found has two sides"
        return self.runs[found.last_old], self.runs[found.first_new]

    def shows_the_failure(self) -> bool:
        """Whether the bad end fails in the way that was asked about."""
        failures = self.hunt.failures if self.hunt else ()
        return not failures or not self.asked.kinds or any(each.kind in self.asked.kinds for each in failures)

    def shows_the_change(self) -> bool:
        """Whether the commits show a change, by the failure that was asked about."""
        found = self.answer().conclusion
        return found is not None and found.result in (Result.FOUND, Result.RANGE) and self.shows_the_failure()

    def _guilty_between(self, old: Candidate, new: Candidate) -> PartKind | None:
        """The part that alone makes the difference between two candidates, by a test of both parts mixed."""
        lender = self.builds.source_of(new.revision)
        if self.hunt is None or lender is None or not self.builds.lenders_differ(old, new):
            return PartKind.JS
        mixed = swap(old.revision, lender)
        failures = self.hunt.failures
        said, before, after = (
            [about(trial.verdict, failures) for trial in _decided(self.cell, revision, self.bench)]
            for revision in (mixed, old.revision, new.revision)
        )
        if not said or len({*said}) > 1:
            return None
        return PartKind.JS if said[0] in before else PartKind.WASM if said[0] in after else None

    def culprit(self) -> Revision | None:
        """The one commit that is found; None where there is none, or another may be it."""
        sides = self.sides()
        return sides[1].revision if sides and self.answer().suspects == (sides[1].revision,) else None


def swap(revision: Revision, lender: Source) -> Revision:
    """The variant of `revision` that has the WebAssembly of `lender`."""
    return replace(
        revision, id=f"{revision.id} with the wasm of {lender.version}", variant=f"{WASM_OF}:{lender.version}"
    )


def settle(sought: Sequence[Sought], bench: Bench, controls: Controls) -> None:
    """Asks of each change that came with another WebAssembly which part makes it: runs the old JavaScript with that.

    Raises MachineError, DiskFull.
    """
    for each in sought:
        sides = each.sides()
        if sides is None or each.hunt is None or not each.builds.lenders_differ(*sides):
            continue
        lender = each.builds.source_of(sides[1].revision)
        assert lender is not None, "lenders that differ are there"
        mixed = swap(sides[0].revision, lender)
        if not any(t.cell == each.cell and t.revision == mixed.id for t in bench.trials):
            bench.tools.watcher.doing(f"{ATTRIBUTION}: {mixed.id}")
            controls.test(mixed, each.hunt.unit, ATTRIBUTION)


def prepare(asked: Sequence[Asked], builds: CommitBuilds, bench: Bench, controls: Controls) -> list[Sought]:
    """What is to be searched for each of `asked`, after the parts of the ends were swapped where that tells anything.

    Raises MachineError, DiskFull.
    """
    ends = builds.ground.candidates()
    if len(ends) < 2:
        return [Sought(each, builds, ends, bench) for each in asked]
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
    case = next(case for case in bench.cases if case.name == each.cell.case)
    hunt.weights = [prior.weight for prior in priors(builds, runs, case, each.cell.backend, guilty)]
    hunt.trials = [trial for trial in bench.trials if trial.cell == each.cell and trial.revision in ids]
    return Sought(each, builds, runs, bench, hunt)


def _nothing(asked: Asked, builds: CommitBuilds) -> Answer:
    """The answer where all commits give one artifact: nothing was tested, and C++ commits stay open."""
    ground = builds.ground
    old, new = ground.commits[ground.begin].revision, ground.commits[ground.end].revision
    missed = tuple(commit.revision for commit in ground.wasm_changes(ground.begin, ground.end))
    if not missed:
        conclusion = Conclusion(Result.SAME, None, None, None, (), None, _NO_CHANGE, 0, None)
        return Answer(asked.cell, (old,), conclusion, candidates=(Candidate((old,)),))
    first = Outcome.GOOD if asked.new_is_bad else Outcome.BAD
    conclusion = Conclusion(Result.RANGE, first, 0, 1, (), None, _ONE_WASM, 0, None)
    runs = (Candidate((old,)), Candidate((new,)))
    return Answer(asked.cell, (old, new), conclusion, candidates=runs, suspects=missed, around=(old, new))


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
                bench.tools.foresee(lambda: (old, new))
                controls.test(revision, unit, "end")
    lenders = [builds.source_of(revision) for revision in (old, new)]
    if len(ends) < 3 or None in lenders or lenders[0] == lenders[1]:
        return {}
    found: dict[Cell, PartKind] = {}
    for own, other in ((old, lenders[1]), (new, lenders[0])):
        left = [each for each in asked if each.cell not in found and _differ(each.cell, old, new, bench)]
        if not left or other is None:
            break
        swapped = swap(own, other)
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
    told = _decided(cell, revision, bench)
    return told[0] if told and len({t.verdict.outcome for t in told}) == 1 else None


def _decided(cell: Cell, revision: Revision, bench: Bench) -> list[Trial]:
    """The trials of `revision` that are good or bad."""
    own = (t for t in bench.trials if t.cell == cell and t.revision == revision.id)
    return [t for t in own if t.verdict.outcome in (Outcome.GOOD, Outcome.BAD)]


def _alike(one: Trial, other: Trial | None) -> bool:
    if other is None or one.verdict.outcome is not other.verdict.outcome:
        return False
    mine, theirs = one.verdict.signature, other.verdict.signature
    return mine is None or theirs is None or mine.same_failure(theirs)
