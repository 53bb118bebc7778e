"""`--all-boundaries`: the further changes of a session's cells, among published builds and among commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bisect_bot.errors import BuildUnusable, UsageError
from bisect_bot.history import Line
from bisect_bot.history.culprit import culprit
from bisect_bot.model import Cell, Change, Outcome, Proof, Report, Result, Revision, Trial
from bisect_bot.session.bench import Bench
from bisect_bot.session.boundaries import Further, alone, look_between, pursue
from bisect_bot.session.commit_search import Asked, Sought, prepare, settle
from bisect_bot.session.control import Controls
from bisect_bot.session.loop import Hunt, about, run_hunts
from bisect_bot.session.merges import not_searched_further
from bisect_bot.session.proving import prove_all
from bisect_bot.session.summary import cell_result
from bisect_bot.session.supply import Supply

_NOWHERE = Line((), ())


@dataclass(slots=True)
class AllBoundaries:
    """The further changes of each cell, as far as they are known by now.

    `searched` counts the commits and the candidates that were to be told apart beside those of the first search,
    `revisions` are those commits.
    """

    supply: Supply
    searched: tuple[int, int] = (0, 0)
    revisions: tuple[Revision, ...] = ()
    _builds: list[Further] = field(default_factory=list)
    _commits: list[Further] = field(default_factory=list)
    _proved: dict[str, tuple[Proof, ...]] = field(default_factory=dict)

    def among_builds(self, hunts: Sequence[Hunt], line: Line, bench: Bench, controls: Controls) -> None:
        """Searches the changes that `hunts`, which have come to their answers, came across among published builds."""
        tools = bench.tools
        look_between(hunts, line, controls, tools.watcher, bench.prices)
        self._builds = [Further(hunt) for hunt in hunts]
        pursue(self._builds, line, controls, tools.watcher, bench.prices, tools.foresee)

    def hand_off(self, bench: Bench, controls: Controls) -> None:
        """Goes on among the commits between the two builds that bracket each of them."""
        brackets: dict[tuple[Revision, Revision], list[Further]] = {}
        for further in (inner for root in self._builds for each in root.inside for inner in each.in_order()):
            sides = further.sides()
            if sides is not None:
                brackets.setdefault(sides, []).append(further)
        for pair, found in brackets.items():
            self._between(pair, found, bench, controls)

    def _between(
        self, pair: tuple[Revision, Revision], found: Sequence[Further], bench: Bench, controls: Controls
    ) -> None:
        try:
            old, new = (self.supply.commit_of(revision) for revision in pair)
            builds = self.supply.open_ground(old, new)
        except (UsageError, BuildUnusable) as error:
            bench.remark(f"The commits between {pair[0].id} and {pair[1].id} were not searched: {error}")
            return
        ground = builds.ground
        count = ground.end - ground.begin + 1
        self.searched = (self.searched[0] + count, self.searched[1] + len(ground.candidates()))
        self.revisions = tuple(dict.fromkeys((*self.revisions, *(commit.revision for commit in ground.commits))))
        asked = [_asked(each.hunt, pair[1]) for each in found if each.hunt is not None]
        begun = prepare(asked, builds, bench, controls)
        for each, sought in zip(found, begun, strict=True):
            each.commits = Further(sought.hunt, sought)
        hunts = [sought.hunt for sought in begun if sought.hunt]
        run_hunts(hunts, _NOWHERE, controls, bench.tools.watcher, bench.prices, bench.tools.foresee)
        settle(begun, bench, controls)
        roots = [each.commits for each in found if each.commits is not None]
        told = [root for root in roots if root.sought is not None and root.sought.shows_the_change()]
        for root in roots:
            if root not in told:
                bench.remark(
                    f"{root.cell}: built from their commits, {pair[0].id} and {pair[1].id} do not show the change that"
                    " they show as published: that answer is of the published builds."
                )
        self._inside(told, bench, controls)
        for root in told:
            row = root.in_order()
            self._name(row, row, bench, controls)

    def among_commits(self, told: Sequence[Sought], bench: Bench, controls: Controls) -> None:
        """Searches the changes that `told`, searches among commits with their answers, came across."""
        hunts = [sought.hunt for sought in told if sought.hunt]
        look_between(hunts, _NOWHERE, controls, bench.tools.watcher, bench.prices)
        roots = [Further(sought.hunt, sought) for sought in told]
        self._commits += roots
        self._inside(roots, bench, controls)
        for root in roots:
            row = root.in_order()
            self._name(row, row[:-1], bench, controls)

    def _inside(self, roots: Sequence[Further], bench: Bench, controls: Controls) -> None:
        tools = bench.tools
        found = pursue(roots, _NOWHERE, controls, tools.watcher, bench.prices, tools.foresee)
        settle([each.sought for each in found if each.sought is not None], bench, controls)

    def _name(self, row: Sequence[Further], wanted: Sequence[Further], bench: Bench, controls: Controls) -> None:
        """Says whose the `wanted` changes of `row` are, and proves each commit in a range that has no other of them."""
        for place, each in enumerate(row):
            found = each.sought.culprit() if each in wanted and each.sought is not None else None
            if found is None:
                continue
            merged = not_searched_further(self.supply.clone.git, found.commit or "")
            if merged and found.id not in self._proved:
                bench.remark(merged)
            if found.id not in self._proved:
                self._proved[found.id] = tuple(prove_all([alone(row, place)], bench, controls))
            each.culprit, each.proofs = culprit(self.supply.clone.git, found.commit or ""), self._proved[found.id]

    def listed(self, known: Sequence[Revision]) -> tuple[Revision, ...]:
        """`known` with the commits of the further searches, in the order of history."""
        if not self.revisions:
            return tuple(known)
        builds = [revision for revision in known if revision.version is not None]
        commits = dict.fromkeys((*self.revisions, *(revision for revision in known if revision.version is None)))
        place = self.supply.clone.main.position
        if all(revision.commit in place for revision in commits):
            return (*builds, *sorted(commits, key=lambda revision: place[revision.commit or ""]))
        return (*builds, *commits)

    def of(self, trials: Sequence[Trial]) -> dict[Cell, tuple[Change, ...]]:
        """All that is known by now, by cell and in the order of history."""
        found: dict[Cell, list[Change]] = {}
        for root in (*self._builds, *self._commits):
            own = (each for inner in root.inside for each in inner.in_order())
            found.setdefault(root.cell, []).extend(_change(each, trials) for each in own)
        return {cell: tuple(changes) for cell, changes in found.items()}


def with_others(report: Report, others: Mapping[Cell, Sequence[Change]], revisions: Iterable[Revision]) -> Report:
    """`report` with the further changes of its cells; `revisions` are all that it may list, in the order of history."""
    cells = tuple(replace(cell, others=tuple(others.get(cell.cell, ()))) for cell in report.cells)
    named = {r.id for cell in cells for each in cell.others for r in _named_by(each)}
    listed = {revision.id for revision in report.revisions} | named
    return replace(report, cells=cells, revisions=tuple(r for r in revisions if r.id in listed), all_boundaries=True)


def _named_by(change: Change) -> tuple[Revision, ...]:
    boundary = change.answer.boundary or change.between
    return boundary.last_old, boundary.first_new


def _asked(hunt: Hunt, new: Revision) -> Asked:
    told = [about(trial.verdict, hunt.failures) for trial in hunt.trials if trial.revision == new.id]
    return Asked(hunt.cell, hunt.unit, Outcome.BAD in told, frozenset(each.kind for each in hunt.failures))


def _change(further: Further, trials: Sequence[Trial]) -> Change:
    result = cell_result(further.answer(), trials)
    if result.signature is None and result.sides is not None:
        # Where neither end of the whole fails, its bad side shows how.
        shown = (t.verdict.signature for t in trials if t.cell == result.cell and t.revision in result.sides)
        result = replace(result, signature=next((each for each in shown if each is not None), None))
    return Change(further.between, result, further.culprit, (*_retests(further), *further.proofs))


def _retests(further: Further) -> tuple[Proof, ...]:
    """The repeated tests of the two sides of a change, as a proof."""
    found = further.answer().conclusion
    if found is None or found.result not in (Result.FOUND, Result.RANGE) or not found.retests:
        return ()
    return (Proof("retest", found.retests_held, None if found.retests_held else found.reason, found.retests),)
