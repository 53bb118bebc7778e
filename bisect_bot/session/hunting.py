"""One session's searches, in their order: among published builds, then among the commits between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bisect_bot.errors import BuildUnusable, UsageError
from bisect_bot.history import Line
from bisect_bot.history.culprit import culprit
from bisect_bot.model import Case, Cell, Change, Culprit, Outcome, Proof, Request, Result, Revision, Trial
from bisect_bot.session.all_boundaries import AllBoundaries
from bisect_bot.session.bench import Bench
from bisect_bot.session.commit_builds import CommitBuilds
from bisect_bot.session.commit_search import Asked, Sought, aim_of, prepare, settle
from bisect_bot.session.control import Controls
from bisect_bot.session.loop import Answer, Hunt, about, run_hunts
from bisect_bot.session.merges import Branches
from bisect_bot.session.proving import prove_all
from bisect_bot.session.replay import sentences
from bisect_bot.session.supply import Supply
from bisect_bot.session.survey import AUTO
from bisect_bot.session.units import Unit

_CHANGED = (Result.FOUND, Result.RANGE)
_NOWHERE = Line((), ())


@dataclass(slots=True)
class Hunting:
    """The searches of one session and what they have brought so far.

    `searched` counts the revisions and the candidates that were to be told apart, `revisions` are all that a report
    may name, in the order of history.
    """

    request: Request
    cases: Sequence[Case]
    supply: Supply
    searched: tuple[int, int] = (0, 0)
    revisions: tuple[Revision, ...] = ()
    proofs: list[Proof] = field(default_factory=list)
    culprits: list[Culprit] = field(default_factory=list)
    _hunts: list[Hunt] = field(default_factory=list)
    _sought: dict[Cell, Sought] = field(default_factory=dict)
    _brought: dict[Cell, Sought] = field(default_factory=dict)
    _further: AllBoundaries = field(init=False)

    def __post_init__(self) -> None:
        self._further = AllBoundaries(self.supply)

    def answers(self) -> list[Answer]:
        """What is known of each cell by now: of its commits where they show the change, else of its builds."""
        return [self._answer(hunt) for hunt in self._hunts]

    def _answer(self, hunt: Hunt) -> Answer:
        brought = self._brought.get(hunt.cell)
        sought = brought if brought and brought.shows_the_change() else self._sought.get(hunt.cell)
        if sought is None:
            return hunt.answer()
        answer = sought.answer()
        return answer if hunt.main[0].version is None or sought.shows_the_change() else hunt.answer()

    def of_log(self) -> list[str]:
        """What a reader must know of the verdicts that were given, in sentences."""
        searches = [(each.hunt, each.runs) for each in self._sought.values() if each.hunt]
        return sentences(self.request.replay, searches)

    def among_builds(self, line: Line, asked: Sequence[Unit], bench: Bench, controls: Controls) -> None:
        """Searches the published builds of `line`, and goes on among commits where a clone was named."""
        self.revisions = self.supply.builds
        self._hunts = self._hunts_on(line.main, asked, self.request.bad)
        run_hunts(self._hunts, line, controls, bench.tools.watcher, bench.prices, bench.tools.foresee)
        tried = {trial.revision for trial in bench.trials} | {r.id for hunt in self._hunts for r in hunt.line}
        self.searched = (len(tried), len(tried))
        hands_off = self.request.source == AUTO and self.supply.has_clone
        if hands_off:
            self._hand_off(bench, controls)
        if self.request.all_boundaries:
            self._further.among_builds(self._hunts, line, bench, controls)
            told = [each for each in self._sought.values() if each.shows_the_change()]
            self._further.among_commits(told, bench, controls)
            if hands_off:
                self._further.hand_off(bench, controls)

    def among_commits(
        self, ends: tuple[Revision, Revision], asked: Sequence[Unit], bench: Bench, controls: Controls
    ) -> None:
        """Searches the commits between the older and the newer of `ends`."""
        old, new = ends
        builds = self.supply.open_ground(old, new)
        self._hunts = self._hunts_on((old, new), asked, self.request.bad)
        cells = [Asked(hunt.cell, hunt.unit, new_is_bad=new.id == self.request.bad) for hunt in self._hunts]
        self._search(cells, builds, bench, controls)
        if self.request.all_boundaries:
            self._further.among_commits(list(self._sought.values()), bench, controls)

    @property
    def listed(self) -> tuple[Revision, ...]:
        """All revisions that a report may name, those of the further changes among them, in the order of history."""
        return self._further.listed(self.revisions)

    @property
    def told_apart(self) -> tuple[int, int]:
        """How many revisions and candidates were to be told apart, for the further changes too."""
        first, more = self.searched, self._further.searched
        return first[0] + more[0], first[1] + more[1]

    def others(self, trials: Sequence[Trial]) -> dict[Cell, tuple[Change, ...]]:
        """The further changes of each cell that were searched for by themselves; `trials` are all of the session."""
        return self._further.of(trials)

    def _hunts_on(self, line: tuple[Revision, ...], asked: Sequence[Unit], bad: str) -> list[Hunt]:
        any_failure, aim = self.request.any_failure, aim_of(self.request)
        return [Hunt(unit.cell(case), unit, line, bad, any_failure, aim) for unit in asked for case in self.cases]

    def _hand_off(self, bench: Bench, controls: Controls) -> None:
        """Goes on among the commits between the two builds that bracket each change."""
        for pair, hunts in self._brackets().items():
            try:
                old, new = (self.supply.commit_of(revision) for revision in pair)
                builds = self.supply.open_ground(old, new)
            except (UsageError, BuildUnusable) as error:
                bench.remark(f"The commits between {pair[0].id} and {pair[1].id} were not searched: {error}")
                continue
            cells = [
                Asked(hunt.cell, hunt.unit, _ends_bad(hunt, pair[1]), frozenset(each.kind for each in hunt.failures))
                for hunt in hunts
            ]
            self._search(cells, builds, bench, controls)

    def _brackets(self) -> dict[tuple[Revision, Revision], list[Hunt]]:
        """The hunts by the two published builds between which their verdict changes."""
        found: dict[tuple[Revision, Revision], list[Hunt]] = {}
        for hunt in self._hunts:
            answer = hunt.answer()
            conclusion = answer.conclusion
            if conclusion is None or conclusion.result not in _CHANGED:
                continue
            assert conclusion.last_old is not None and conclusion.first_new is not None, "a change has two sides"
            pair = (answer.line[conclusion.last_old], answer.line[conclusion.first_new])
            found.setdefault(pair, []).append(hunt)
        return found

    def _begin(self, cells: Sequence[Asked], builds: CommitBuilds, bench: Bench, controls: Controls) -> list[Sought]:
        """The searches for `cells` before their first test, besides those that tell which part is guilty."""
        ground = builds.ground
        between = ground.end - ground.begin + 1
        self.searched = (self.searched[0] + between, self.searched[1] + len(ground.candidates()))
        return prepare(cells, builds, bench, controls)

    @staticmethod
    def _finish(sought: Sequence[Sought], bench: Bench, controls: Controls) -> None:
        """Tests until each of `sought` has its answer."""
        hunts = [each.hunt for each in sought if each.hunt]
        run_hunts(hunts, _NOWHERE, controls, bench.tools.watcher, bench.prices, bench.tools.foresee)
        settle(sought, bench, controls)

    def _search(self, cells: Sequence[Asked], builds: CommitBuilds, bench: Bench, controls: Controls) -> None:
        self.revisions = tuple(dict.fromkeys((*self.revisions, *(each.revision for each in builds.ground.commits))))
        sought = self._begin(cells, builds, bench, controls)
        self._sought |= {each.cell: each for each in sought}
        self._finish(sought, bench, controls)
        for hunt in self._hunts:
            each = self._sought.get(hunt.cell)
            if each in sought and hunt.main[0].version is not None and not each.shows_the_change():
                bench.remark(_lost(each))
        told = self._descended([each for each in sought if each.shows_the_change()], bench, controls)
        self.proofs += prove_all(told, bench, controls)
        named = dict.fromkeys(found.commit or "" for each in told if (found := each.culprit()) is not None)
        known = {each.commit for each in self.culprits}
        self.culprits += [culprit(self.supply.clone.git, commit) for commit in named if commit not in known]

    def _descended(self, told: Sequence[Sought], bench: Bench, controls: Controls) -> list[Sought]:
        """`told`, with the search on a merged branch in place of one that found the merge, where that was asked for."""

        def search(cells: Sequence[Asked], builds: CommitBuilds, merge: str) -> list[Sought]:
            self.revisions = _with_branch(self.revisions, builds, merge)
            found = self._begin(cells, builds, bench, controls)
            self._finish(found, bench, controls)
            return found

        found = Branches(self.supply, search, bench.remark).descend(told)
        self._brought |= {each.cell: each for each in found if each not in told}
        return found


def _with_branch(known: Sequence[Revision], builds: CommitBuilds, merge: str) -> tuple[Revision, ...]:
    """`known` with the commits of a branch before the `merge` that brought it, and those below it before all others."""
    ground = builds.ground
    new = [commit.revision for commit in ground.commits if commit.revision not in known]
    branch = {commit.revision for commit in ground.commits[ground.begin + 1 :]}
    place = next((i for i, revision in enumerate(known) if revision.commit == merge), len(known))
    first = next((i for i, revision in enumerate(known) if revision.version is None), place)
    older, brought = ([r for r in new if (r in branch) is wanted] for wanted in (False, True))
    return (*known[:first], *older, *known[first:place], *brought, *known[place:])


def _ends_bad(hunt: Hunt, new: Revision) -> bool:
    told = [about(t.verdict, hunt.failures) for t in hunt.trials if t.revision == new.id]
    return Outcome.BAD in told


def _lost(sought: Sought) -> str:
    answer = sought.answer()
    why = answer.conclusion.reason if answer.conclusion else "not finished"
    if not sought.shows_the_failure():
        why = "the bad one fails in another way there"
    return (
        f"{answer.cell}: built from their commits, the two builds do not show the change that they show as published"
        f" ({why}): the answer is that of the published builds."
    )
