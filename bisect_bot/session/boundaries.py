"""Each further change as a search of its own, over the part of a line between the two revisions that show it.

Only what answers hint at is searched: two revisions of a line that answered differently, beside the change that the
search over that line has named. A search for one change asks no more than it must, so such hints come from other cases
(a probe answers all), from a bisect log, and from tests that were made twice. Where both ends answer alike nothing was
asked between them: one look is taken in the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bisect_bot.history.published import Line
from bisect_bot.model import Boundary, Cell, Culprit, Proof, Result, Revision, Signature, Trial
from bisect_bot.search import Prices
from bisect_bot.session.commit_search import Sought
from bisect_bot.session.loop import Answer, Foresight, Hunt, Ruling, Tester, run_hunts
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Watcher

_ANSWERED = (Result.FOUND, Result.RANGE, Result.SAME)
_END, _RETEST = "end", "retest"


@dataclass(slots=True)
class Within(Hunt):
    """The search for one further change, over a part of another hunt's line.

    `searched` are the ways to fail that the other hunt looked for, whichever revision shows them. None where neither of
    its ends fails: then any failure counts.
    """

    searched: tuple[Signature, ...] = ()

    @property
    def failures(self) -> tuple[Signature, ...]:
        """The ways to fail that are searched for."""
        return self.searched


@dataclass(slots=True)
class Further:
    """One change of a cell: the search for it, and what that has brought.

    Among commits `sought` is that search (without a hunt where all of them give one artifact), `culprit` and `proofs`
    are of the commit that it names. `inside` are changes before it that came up in its range. Of a change between two
    published builds, `commits` is the search between the two.
    """

    hunt: Hunt | None
    sought: Sought | None = None
    culprit: Culprit | None = None
    proofs: tuple[Proof, ...] = ()
    inside: list[Further] = field(default_factory=list)
    commits: Further | None = None

    @property
    def cell(self) -> Cell:
        """The cell that changes."""
        answer = self.answer()
        return answer.cell

    @property
    def between(self) -> Boundary:
        """The two revisions between which it was searched."""
        line = self.answer().line if self.hunt is None else self.hunt.main
        return Boundary(line[0], line[-1])

    def answer(self) -> Answer:
        """What is known of it."""
        if self.sought is not None:
            return self.sought.answer()
        assert self.hunt is not None, "builds are searched by a hunt"
        return self.hunt.answer()

    def sides(self) -> tuple[Revision, Revision] | None:
        """The two tested revisions that it lies between; None where it was not found."""
        answer = self.answer()
        found = answer.conclusion
        if found is None or found.result not in (Result.FOUND, Result.RANGE):
            return None
        assert found.last_old is not None and found.first_new is not None, "a change has two sides"
        return answer.line[found.last_old], answer.line[found.first_new]

    def in_order(self) -> list[Further]:
        """The changes inside and itself, the oldest first; of builds, what their commits show instead where they do."""
        own = [self]
        if self.commits is not None and self.commits.sought is not None and self.commits.sought.shows_the_change():
            own = self.commits.in_order()
        return [*(each for inner in self.inside for each in inner.in_order()), *own]


def changes_in(hunt: Hunt) -> list[Within]:
    """A search for each change that `hunt` came across beside the one it names, in the order of history."""
    # What releases beside main have told lies in the gap that main left: behind all that main shows.
    on_main = replace(hunt)
    lines = [on_main, hunt] if hunt.line != on_main.line else [hunt]
    return [_within(each, *pair) for each in lines for pair in _other_changes(each)]


def look_between(
    hunts: Sequence[Hunt], line: Line, tester: Tester, watcher: Watcher, prices: Callable[[], Prices] = Prices
) -> None:
    """Tests the middle of each line whose two ends answered alike, where no answer of anything between them is known.

    What that shows counts as all else that the hunts know. Only those with such ends hear of it.
    """
    alike = [hunt for hunt in hunts if _result(hunt) is Result.SAME and len(hunt.main) > 2]
    unseen = [hunt for hunt in alike if all(each.index in (0, len(hunt.line) - 1) for each in hunt.evidence)]
    for unit, middle in dict.fromkeys((hunt.unit, hunt.main[len(hunt.main) // 2]) for hunt in unseen):
        watcher.doing(f"search: {middle.id} (the two ends are alike: does the middle differ?)")
        trials = {trial.cell: trial for trial in tester.test(middle, unit, "search")}
        for hunt in alike:
            if hunt.unit == unit:
                hunt.trials.append(trials[hunt.cell])
    if unseen:
        run_hunts(alike, line, tester, watcher, prices)


def pursue(
    begun: Sequence[Further],
    line: Line,
    tester: Tester,
    watcher: Watcher,
    prices: Callable[[], Prices] = Prices,
    foresee: Callable[[Foresight], None] = lambda _: None,
) -> list[Further]:
    """Searches every change that `begun` came across, then those that come up on the way; all of them, as they came.

    They stand in the `inside` of the searches that showed them, before anything is tested: what a raised error leaves
    unanswered is there too. The searches of one round go together, so that a build serves all that want it.
    """
    found: list[Further] = []
    round_ = [inner for each in begun for inner in _open(each)]
    while round_:
        watcher.say(f"{len(round_)} more change(s) of the verdict to be searched for")
        found += round_
        run_hunts([each.hunt for each in round_ if each.hunt], line, _Again(tester), watcher, prices, foresee)
        round_ = [inner for each in round_ for inner in _open(each)]
    return found


def alone(row: Sequence[Further], place: int) -> Sought:
    """The search for the change at `place` of `row` (those of one ground, oldest first) in a range with no other one.

    What a proof needs: with a culprit taken back, the end of the range is only right again where nothing else broke it.
    """
    each = row[place]
    assert each.sought is not None and each.hunt is not None, "proofs are of commits that were searched"
    before = row[place - 1].sides() if place else None
    after = row[place + 1].sides() if place + 1 < len(row) else None
    old = before[1] if before else each.sought.runs[0].revision
    new = after[0] if after else each.sought.runs[-1].revisions[-1]
    ground = each.sought.builds.ground
    begin, end = (ground.place_of(revision.commit or "") for revision in (old, new))
    return replace(each.sought, builds=replace(each.sought.builds, ground=replace(ground, begin=begin, end=end)))


def _open(further: Further) -> list[Further]:
    """The changes that one search came across, which from now on are inside of it."""
    if further.hunt is None:
        return []
    further.inside = [Further(within, _slice(further.sought, within)) for within in changes_in(further.hunt)]
    return further.inside


def _result(hunt: Hunt) -> Result | None:
    found = hunt.answer().conclusion
    return found.result if found is not None else None


def _other_changes(hunt: Hunt) -> tuple[tuple[int, int], ...]:
    found = hunt.answer().conclusion
    return found.other_changes if found is not None and found.result in _ANSWERED else ()


def _within(hunt: Hunt, old: int, new: int) -> Within:
    part = hunt.line[old : new + 1]
    kept = list(hunt.trials)
    weights = None if hunt.prior is None else hunt.prior[old : new + 1]
    return Within(
        hunt.cell, hunt.unit, part, hunt.bad, hunt.any_failure, hunt.aim, kept, hunt.given, weights, hunt.failures
    )


def _slice(sought: Sought | None, within: Within) -> Sought | None:
    """The part of a search among commits that `within` searches."""
    if sought is None:
        return None
    first = next(i for i, run in enumerate(sought.runs) if run.revision == within.main[0])
    return replace(sought, runs=sought.runs[first : first + len(within.main)], hunt=within)


@dataclass(frozen=True, slots=True)
class _Again:
    """A tester by which nothing is tested as an end: those are the two that somebody named."""

    tester: Tester

    def test(self, revision: Revision, unit: Unit, purpose: str) -> tuple[Trial, ...]:
        """As the tester does."""
        return self.tester.test(revision, unit, _RETEST if purpose == _END else purpose)

    def ruling(self, *, last: bool) -> Ruling:
        """As the tester does."""
        return self.tester.ruling(last=last)
