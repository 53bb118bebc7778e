"""The loop: ask the search what to test, test it, until every cell has its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bisect_bot.history.published import Line
from bisect_bot.model import Candidate, Cell, Outcome, Result, Revision, Signature, Trial, Verdict
from bisect_bot.search import Aim, Conclusion, Evidence, Prices, Test, best_gap, next_action, next_together
from bisect_bot.session.units import Unit, id_of
from bisect_bot.session.watcher import Watcher

# What somebody says of revisions (by their ids) that were not tested here: one answer each.
Given = tuple[tuple[str, Outcome], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of one cell: over `line`, a conclusion, or None and the narrowest gap when it was stopped.

    `failures` are the ways in which the bad end fails: what was searched for. Among commits, `candidates` are the runs
    of which `line` has the first of each, and `suspects` the commits that may be what was found; where they are more
    than one, they lie between the two commits `around` them.
    """

    cell: Cell
    line: tuple[Revision, ...]
    conclusion: Conclusion | None
    gap: tuple[int, int] | None = None
    failures: tuple[Signature, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    suspects: tuple[Revision, ...] = ()
    around: tuple[Revision, Revision] | None = None


@dataclass(slots=True)
class Hunt:
    """The search for one cell. It begins on main; `narrow` moves it to the builds beside main in the gap found.

    `bad` is the end that the user called bad: it decides what is searched for where both ends fail. With
    `any_failure` each failure counts, in whatever way a revision fails. `aim` says when the answer is good enough.
    `given` counts beside the trials, as long as those do not say otherwise.
    """

    cell: Cell
    unit: Unit
    main: tuple[Revision, ...]
    bad: str = ""
    any_failure: bool = False
    aim: Aim = field(default_factory=Aim)
    trials: list[Trial] = field(default_factory=list)
    given: Given = ()
    line: tuple[Revision, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.line = self.main

    @property
    def failures(self) -> tuple[Signature, ...]:
        """The ways in which the bad end failed, in the order of its tests; more than one where it is not steady.

        Where both ends failed, the one that was called bad decides; where that is neither, the one tested first.
        """
        ends = {self.main[0].id, self.main[-1].id}
        failed = [t for t in self.trials if t.revision in ends and t.verdict.outcome is Outcome.BAD]
        names = [t.revision for t in failed]
        decides = self.bad if self.bad in names else next(iter(names), None)
        shown = [s for t in failed if t.revision == decides and (s := t.verdict.signature) is not None]
        return tuple(s for i, s in enumerate(shown) if not any(s.same_failure(other) for other in shown[:i]))

    @property
    def evidence(self) -> list[Evidence]:
        """What was given and what this cell's trials say about the revisions of its line, in order of observation.

        A revision that fails in another way than the bad end says nothing about this failure: it is skipped.
        """
        place = {revision.id: index for index, revision in enumerate(self.line)}
        said = [(revision, outcome) for revision, outcome in (*self.believed, *self._told) if revision in place]
        return [Evidence(place[revision], outcome) for revision, outcome in said]

    @property
    def believed(self) -> Given:
        """What of `given` counts: not what all tests of a revision speak against, or what is known of a way to fail.

        Where they disagree among themselves, what was given is one more answer of a revision that is not steady.
        """
        if not self.given:
            return ()
        ran = {t.revision for t in self.trials if t.verdict.outcome in (Outcome.GOOD, Outcome.BAD)}
        told = set(self._told)
        return tuple(each for each in self.given if each[0] not in ran or each in told)

    @property
    def _told(self) -> list[tuple[str, Outcome]]:
        """What each trial says about the failure that is searched for."""
        failures = () if self.any_failure else self.failures
        return [(trial.revision, about(trial.verdict, failures)) for trial in self.trials]

    def action(self) -> Test | Conclusion:
        """The next thing to do for this cell."""
        return next_action(len(self.line), self.evidence, aim=self.aim)

    def narrow(self, line: Line) -> bool:
        """Goes on among the builds beside main that lie in the gap found; False when there are none.

        Builds on main are searched first, because only they follow one another; a release only tells on which
        side of its branch point (or of a cherry-pick) the change is.
        """
        conclusion = self.action()
        if not isinstance(conclusion, Conclusion) or conclusion.result is not Result.FOUND:
            return False
        assert conclusion.last_old is not None and conclusion.first_new is not None
        old, new = self.line[conclusion.last_old], self.line[conclusion.first_new]
        aside = line.between(old, new)
        if not aside or set(aside) <= set(self.line):
            return False
        self.line = (old, *aside, new)
        return True

    def apply(self, ruling: Ruling) -> None:
        """Takes back what the ruling voids, and begins again on main where that was anything."""
        self.unit = ruling.units.get(self.unit, self.unit)
        gone = {id_of(trial) for trial in ruling.void}
        kept = [trial for trial in self.trials if id_of(trial) not in gone]
        if len(kept) < len(self.trials):
            self.trials, self.line = kept, self.main

    def answer(self) -> Answer:
        """What is known now."""
        action = self.action()
        gap = best_gap(len(self.line), self.evidence, aim=self.aim)
        conclusion = action if isinstance(action, Conclusion) else None
        return Answer(self.cell, self.line, conclusion, gap, self.failures)


def about(verdict: Verdict, failures: Sequence[Signature]) -> Outcome:
    """What a verdict says about the bad end's own `failures` (none: about any)."""
    mine = verdict.signature
    if verdict.outcome is not Outcome.BAD or mine is None or not failures:
        return verdict.outcome
    return Outcome.BAD if any(mine.same_failure(failure) for failure in failures) else Outcome.SKIP


@dataclass(frozen=True, slots=True)
class Ruling:
    """What came out about answers after they were given: those that are void, and units that are others by now."""

    void: tuple[Trial, ...] = ()
    units: Mapping[Unit, Unit] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.void or self.units)


class Tester(Protocol):
    """Whatever answers for a revision; in earnest it is a `Bench` under `Controls`."""

    def test(self, revision: Revision, unit: Unit, purpose: str) -> tuple[Trial, ...]:
        """One more answer of `revision` for every cell of `unit`."""

    def ruling(self, *, last: bool) -> Ruling:
        """What is to be taken back of the answers so far; asked after each test, and with `last` before the end."""


def run_hunts(
    hunts: Sequence[Hunt], line: Line, bench: Tester, watcher: Watcher, prices: Callable[[], Prices] = Prices
) -> None:
    """Asks and tests until no hunt wants anything more. What a raised error leaves unanswered can be gone on with.

    One probe answers all cells of a unit, so each test is chosen for all hunts over the same line together. `prices`
    tells what a build and a probe cost here, as far as is known by then.
    """
    while True:
        wanted = _next_test(hunts, line, prices())
        if wanted is not None:
            _test(hunts, bench, watcher, *wanted)
        ruling = bench.ruling(last=wanted is None)
        for each in hunts:
            each.apply(ruling)
        if wanted is None and not ruling:
            return


def _test(hunts: Sequence[Hunt], bench: Tester, watcher: Watcher, asking: Hunt, test: Test) -> None:
    revision = asking.line[test.index]
    watcher.doing(f"{test.purpose}: {revision.id} ({test.reason})")
    trials = {trial.cell: trial for trial in bench.test(revision, asking.unit, test.purpose.value)}
    for each in hunts:
        if each.unit == asking.unit:
            each.trials.append(trials[each.cell])


def _next_test(hunts: Sequence[Hunt], line: Line, prices: Prices) -> tuple[Hunt, Test] | None:
    """The test that tells most for the first hunts that want one, and one of those."""
    while True:
        for alike in _over_one_line(hunts):
            first = alike[0]
            size, evidences = len(first.line), [each.evidence for each in alike]
            action = next_together(size, evidences, aim=first.aim, prices=prices)
            if isinstance(action, Test):
                return first, action
        if not any([each.narrow(line) for each in hunts]):  # noqa: C419 - all of them, not up to the first
            return None


def _over_one_line(hunts: Sequence[Hunt]) -> list[list[Hunt]]:
    """The hunts that one probe answers for the same revisions, together."""
    found: dict[tuple[Unit, tuple[Revision, ...]], list[Hunt]] = {}
    for each in hunts:
        found.setdefault((each.unit, each.line), []).append(each)
    return list(found.values())
