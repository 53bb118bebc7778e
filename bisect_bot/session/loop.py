"""The loop: ask the search what to test, test it, until every cell has its answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from bisect_bot.history.priors import mean_weights
from bisect_bot.history.published import Line
from bisect_bot.model import Candidate, Cell, Outcome, Result, Revision, Signature, Trial, Verdict
from bisect_bot.search import (
    Aim,
    Conclusion,
    Evidence,
    Prices,
    Test,
    Weights,
    best_gap,
    halvings,
    next_action,
    next_together,
)
from bisect_bot.session.units import Unit, id_of
from bisect_bot.session.watcher import Watcher

# Finds out which revisions may be wanted after a test, the likeliest first.
Foresight = Callable[[], Sequence[Revision]]
# How many answers ahead is thought of what may be asked, and for how many untested revisions: those after either answer
# and after either of theirs. Repeated tests come in between, each with one answer to be expected.
DEPTH, ENOUGH = 5, 6
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
    `given` counts beside the trials, as long as those do not say otherwise. `weights` say how likely each revision of
    `main` is to be the first new one: they decide what is asked first.
    """

    cell: Cell
    unit: Unit
    main: tuple[Revision, ...]
    bad: str = ""
    any_failure: bool = False
    aim: Aim = field(default_factory=Aim)
    trials: list[Trial] = field(default_factory=list)
    given: Given = ()
    weights: Weights | None = None
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
        size = len(self.line)
        return next_action(size, self.evidence, aim=self.aim, weights=self.prior, within=halvings(size))

    @property
    def prior(self) -> Weights | None:
        """The weights of the line; nobody knows them once it is another than `main`."""
        return self.weights if self.line == self.main else None

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

    def supposing(self, asked: Asking, outcome: Outcome) -> Hunt:
        """This hunt as it were if `asked` were answered; itself where it is not asked.

        The answer is `outcome`, but good or bad only where another is not to be expected.
        """
        hunt, test = asked
        if hunt.unit != self.unit:
            return self
        revision = hunt.line[test.index]
        said = outcome if outcome is Outcome.SKIP else self.expected(revision) or outcome
        supposed = replace(self, trials=[*self.trials, Trial(revision.id, self.cell, 0, Verdict(said, "supposed"))])
        supposed.line = self.line
        return supposed

    def expected(self, revision: Revision) -> Outcome | None:
        """What `revision` will answer: as before, or as both neighbours do that answered; None where nobody knows."""
        told = {each.index: each.outcome for each in self.evidence if each.outcome is not Outcome.SKIP}
        place = next((i for i, other in enumerate(self.line) if other.id == revision.id), None)
        if place is None or place in told:
            return told.get(place) if place is not None else None
        before = next((told[i] for i in range(place, -1, -1) if i in told), None)
        after = next((told[i] for i in range(place, len(self.line)) if i in told), None)
        return before if before is after else None

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


# What is asked: a test for one of the hunts over a line, which answers for all of its unit.
Asking = tuple[Hunt, Test]


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
    hunts: Sequence[Hunt],
    line: Line,
    bench: Tester,
    watcher: Watcher,
    prices: Callable[[], Prices] = Prices,
    foresee: Callable[[Foresight], None] = lambda _: None,
) -> None:
    """Asks and tests until no hunt wants anything more. What a raised error leaves unanswered can be gone on with.

    One probe answers all cells of a unit, so each test is chosen for all hunts over the same line together. `prices`
    tells what a build and a probe cost here, as far as is known by then. `foresee` hears before each test how to find
    out what may be asked after it.
    """
    while True:
        wanted = _next_test(hunts, line, prices())
        if wanted is not None:
            foresee(functools.partial(foreseen, hunts, line, prices(), wanted))
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


def foreseen(hunts: Sequence[Hunt], line: Line, prices: Prices, asked: Asking) -> tuple[Revision, ...]:
    """The untested revisions that may be asked for after the answer to `asked`, the likeliest first. Changes nothing.

    First those after either answer, then what comes after theirs, until there are `ENOUGH`; at last what is asked if
    the revision cannot answer.
    """
    known = {trial.revision for hunt in hunts for trial in hunt.trials} | {_revision(asked).id}
    found: dict[Revision, None] = {}
    ahead = [(hunts, asked)]
    for _ in range(DEPTH):
        supposed = [_supposing(each, at, answer) for each, at in ahead for answer in _answers(each, at)]
        ahead = [(each, at) for each in supposed if (at := _next_test(each, line, prices)) is not None]
        found |= {revision: None for _, at in ahead if (revision := _revision(at)).id not in known}
        if len(found) >= ENOUGH:
            break
    last = _next_test(_supposing(hunts, asked, Outcome.SKIP), line, prices)
    if last is not None and _revision(last).id not in known:
        found.setdefault(_revision(last))
    return tuple(found)


def _supposing(hunts: Sequence[Hunt], asked: Asking, outcome: Outcome) -> list[Hunt]:
    return [hunt.supposing(asked, outcome) for hunt in hunts]


def _answers(hunts: Sequence[Hunt], asked: Asking) -> tuple[Outcome, ...]:
    """What may be answered; one that stands for all where each hunt knows what to expect."""
    open_ones = [hunt for hunt in hunts if hunt.unit == asked[0].unit and hunt.expected(_revision(asked)) is None]
    return (Outcome.GOOD, Outcome.BAD) if open_ones else (Outcome.GOOD,)


def _revision(asked: Asking) -> Revision:
    hunt, test = asked
    return hunt.line[test.index]


def _next_test(hunts: Sequence[Hunt], line: Line, prices: Prices) -> Asking | None:
    """The test that tells most for the first hunts that want one, and one of those."""
    while True:
        for alike in _over_one_line(hunts):
            first = alike[0]
            size, evidences = len(first.line), [each.evidence for each in alike]
            weights = mean_weights([prior for each in alike if (prior := each.prior) is not None])
            # However likely a candidate is, what it saves must not cost another case a build.
            within = halvings(size)
            action = next_together(
                size, evidences, aim=first.aim, prices=prices, weights=weights or None, within=within
            )
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
