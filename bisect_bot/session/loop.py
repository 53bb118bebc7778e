"""The loop: ask the search what to test, test it, until every cell has its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bisect_bot.history.published import Line
from bisect_bot.model import Cell, Outcome, Result, Revision, Signature, Trial, Verdict
from bisect_bot.search import Conclusion, Evidence, Test, best_gap, next_action
from bisect_bot.session.bench import Unit
from bisect_bot.session.watcher import Watcher


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of one cell: over `line`, a conclusion, or None and the narrowest gap when it was stopped."""

    cell: Cell
    line: tuple[Revision, ...]
    conclusion: Conclusion | None
    gap: tuple[int, int] | None = None


@dataclass(slots=True)
class Hunt:
    """The search for one cell. It begins on main; `narrow` moves it to the builds beside main in the gap found."""

    cell: Cell
    unit: Unit
    line: tuple[Revision, ...]
    trials: list[Trial] = field(default_factory=list)

    @property
    def evidence(self) -> list[Evidence]:
        """What this cell's trials say about the revisions of its line, in order of observation.

        A revision that fails in another way than the bad end says nothing about this failure: it is skipped.
        """
        place = {revision.id: index for index, revision in enumerate(self.line)}
        ends = (self.line[0].id, self.line[-1].id)
        seen = [trial for trial in self.trials if trial.revision in place]
        failure = next((s for t in seen if t.revision in ends and (s := t.verdict.signature) is not None), None)
        return [Evidence(place[trial.revision], _about(trial.verdict, failure)) for trial in seen]

    def action(self) -> Test | Conclusion:
        """The next thing to do for this cell."""
        return next_action(len(self.line), self.evidence)

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

    def answer(self) -> Answer:
        """What is known now."""
        action = self.action()
        gap = best_gap(len(self.line), self.evidence)
        return Answer(self.cell, self.line, action if isinstance(action, Conclusion) else None, gap)


def _about(verdict: Verdict, failure: Signature | None) -> Outcome:
    """What a verdict says about `failure`, the bad end's own."""
    mine = verdict.signature
    if verdict.outcome is not Outcome.BAD or mine is None or failure is None:
        return verdict.outcome
    return Outcome.BAD if (mine.kind, mine.message) == (failure.kind, failure.message) else Outcome.SKIP


class Tester(Protocol):
    """Whatever answers for a revision; in earnest it is a `Bench`."""

    def test(self, revision: Revision, unit: Unit, purpose: str) -> tuple[Trial, ...]:
        """One more answer of `revision` for every cell of `unit`."""


def run_hunts(hunts: Sequence[Hunt], line: Line, bench: Tester, watcher: Watcher) -> None:
    """Asks and tests until no hunt wants anything more. What a raised error leaves unanswered can be gone on with.

    One probe answers all cells of its unit, so each hunt's evidence grows with the others' questions too.
    """
    while (wanted := _next_test(hunts, line)) is not None:
        asking, test = wanted
        revision = asking.line[test.index]
        watcher.doing(f"{test.purpose}: {revision.id} ({test.reason})")
        by_cell = {trial.cell: trial for trial in bench.test(revision, asking.unit, test.purpose.value)}
        for each in hunts:
            if each.unit == asking.unit:
                each.trials.append(by_cell[each.cell])


def _next_test(hunts: Sequence[Hunt], line: Line) -> tuple[Hunt, Test] | None:
    """The first hunt that wants a test, and which."""
    for each in hunts:
        action = each.action()
        if isinstance(action, Conclusion) and each.narrow(line):
            action = each.action()
        if isinstance(action, Test):
            return each, action
    return None
