"""Deterministic bisection: every answer is taken at its word, and repeats check that it may be.

Both ends are tested twice, then the middle of what is left, then the two sides of the answer twice more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bisect_bot.model import Outcome, Result
from bisect_bot.search.tally import (
    NEEDED_AT_ENDS,
    RETESTS_OF_A_SIDE,
    SKIPS_TO_GIVE_UP,
    Seen,
    confidence,
    contradictions,
    count,
)
from bisect_bot.search.types import Conclusion, Evidence, Purpose, Test


@dataclass(frozen=True, slots=True)
class Gap:
    """Two candidates observed to differ in the direction of the ends, with no answer between them."""

    last_old: int
    first_new: int

    @property
    def sides(self) -> tuple[int, int]:
        return self.last_old, self.first_new

    def untested(self, seen: Seen) -> list[int]:
        """What lies strictly inside and was never tested, in order."""
        return [i for i in range(self.last_old + 1, self.first_new) if i not in seen]


def next_action(size: int, evidence: Sequence[Evidence]) -> Test | Conclusion:
    """The next test, or the conclusion when no further test would change it.

    `size` (at least 2) counts the candidates: index 0 is the old end, size-1 the new one. `evidence` holds
    everything believed so far in the order of observation, also what was asked for elsewhere. Which of good
    and bad is the old outcome is read off the ends. Equal input gives equal output, and answering what is
    asked always comes to a conclusion.

    Both ends are tested twice, old and new in turn; then at most ceil(log2(size - 1)) candidates in a history
    without skips; then both sides of the boundary twice, in turn. Raises ValueError for a size below 2, an
    index outside the candidates, and infra outcomes.
    """
    seen = count(size, evidence)
    action = _settle_ends(size, seen)
    if any(seen[end].contradictory for end in (0, size - 1)) or (action is None and contradictions(seen)):
        action = _inconclusive(size, evidence, seen)
    if action is None and seen[0].outcome is seen[size - 1].outcome:
        action = _same(size, seen)
    if action is not None:
        return action
    gap = _nearest_gap(size, seen)
    return _search(gap, seen) or _retest(size, gap, seen) or _answer(size, gap, seen)


def best_gap(size: int, evidence: Sequence[Evidence]) -> tuple[int, int] | None:
    """The narrowest pair of candidates known so far to hold the change between them, or None before the ends differ.

    What a search that was stopped can still say. Raises ValueError as `next_action` does.
    """
    seen = count(size, evidence)
    return _nearest_gap(size, seen).sides if _ends_differ(size, seen) else None


# --- the ends -----------------------------------------------------------------------------------


def _settle_ends(size: int, seen: Seen) -> Test | Conclusion | None:
    """What the two ends ask for before anything else, or None when both have answered."""
    ends = (0, size - 1)
    for index in ends:
        if not seen[index].answers and seen[index].skip >= SKIPS_TO_GIVE_UP:
            return _without_boundary(
                Result.UNUSABLE, size, seen, f"{_name(size, index)} cannot answer ({seen[index]}): choose another"
            )
    due = [i for i in ends if seen[i].answers < NEEDED_AT_ENDS and seen[i].skip < SKIPS_TO_GIVE_UP]
    if not due:
        return None
    index = min(due, key=lambda i: (seen[i].asked, i))
    again = "again, to see whether it repeats" if seen[index].answers else "before anything else"
    return Test(index, Purpose.END, f"{_name(size, index)}, {again}")


def _same(size: int, seen: Seen) -> Conclusion:
    outcome = seen[0].outcome
    reason = f"both ends are {outcome}"
    if _changes(seen):
        reason += ", but it changed and changed back between them: choose ends nearer to one of the changes"
    return _without_boundary(Result.SAME, size, seen, reason)


# --- between them -------------------------------------------------------------------------------


def _nearest_gap(size: int, seen: Seen) -> Gap:
    """The gap nearest to the new end. Expects ends that differ.

    After the last candidate with the old outcome every answer is the new one, so the next answer and it are
    two sides that differ in the direction of the ends.
    """
    answers = _answers(seen)
    old = seen[0].outcome
    last_old = max(index for index, outcome in answers if outcome is old)
    return Gap(last_old, min((i for i, _ in answers if i > last_old), default=size - 1))


def _search(gap: Gap, seen: Seen) -> Test | None:
    """The untested candidate nearest to the middle of `gap`, or None when there is none."""
    untested = gap.untested(seen)
    if not untested:
        return None
    middle = (gap.last_old + gap.first_new) // 2
    index = min(untested, key=lambda i: (abs(i - middle), i))
    left = gap.first_new - gap.last_old
    place = "middle" if index == middle else "nearest to the middle, which was skipped,"
    return Test(index, Purpose.SEARCH, f"{place} of {left} candidates left")


def _retest(size: int, gap: Gap, seen: Seen) -> Test | None:
    """The side of `gap` whose turn it is to be tested again, or None when that is done."""
    due = [
        i
        for i in gap.sides
        if seen[i].answers < _first_answers(size, i) + RETESTS_OF_A_SIDE and seen[i].skip < SKIPS_TO_GIVE_UP
    ]
    if not due:
        return None
    index = min(due, key=lambda i: (seen[i].asked - _first_answers(size, i), i))
    side = "last candidate before" if index == gap.last_old else "first candidate after"
    return Test(index, Purpose.RETEST, f"the {side} the change again, to see whether it repeats")


def _answer(size: int, gap: Gap, seen: Seen) -> Conclusion:
    """The conclusion from a `gap` with nothing left to test inside."""
    sure = confidence(seen, gap.sides)
    suspects = range(gap.last_old + 1, gap.first_new + 1)
    skipped = len(suspects) - 1
    others = tuple(change for change in _changes(seen) if change != gap.sides)
    held = all(_retests(size, i, seen) >= RETESTS_OF_A_SIDE for i in gap.sides)
    reasons = [
        f"{skipped} candidate(s) between the two sides cannot be tested"
        if skipped
        else "the two sides are neighbours and differ"
    ]
    if others:
        reasons.append(f"more than one change is visible ({len(others) + 1}): this is the one nearest to the new end")
    if not held:
        reasons.append("a side did not always answer when it was tested again")
    return Conclusion(
        result=Result.RANGE if skipped else Result.FOUND,
        old=seen[0].outcome,
        last_old=gap.last_old,
        first_new=gap.first_new,
        suspects=tuple((i, sure / len(suspects), i != gap.first_new) for i in suspects),
        confidence=sure,
        reason="; ".join(reasons),
        retests=sum(_retests(size, i, seen) for i in gap.sides),
        retests_held=True if held else None,
        other_changes=others,
    )


# --- contradictions -----------------------------------------------------------------------------


def _inconclusive(size: int, evidence: Sequence[Evidence], seen: Seen) -> Conclusion:
    """The conclusion from candidates that answered both ways. The best guess for the boundary does without them."""
    flaky = contradictions(seen)
    retests = _retests_until_one_failed(size, evidence)
    plain = _without_boundary(
        Result.INCONCLUSIVE,
        size,
        seen,
        "; ".join(f"{_name(size, i)} answered both ways ({seen[i]})" for i in flaky),
    )
    guess = replace(plain, contradictions=flaky, retests=retests, retests_held=False if retests else None)
    if not _ends_differ(size, seen):
        return guess
    gap = _nearest_gap(size, seen)
    others = tuple(change for change in _changes(seen) if change != gap.sides)
    return replace(guess, last_old=gap.last_old, first_new=gap.first_new, other_changes=others)


def _retests_until_one_failed(size: int, evidence: Sequence[Evidence]) -> int:
    """How many re-tests of a boundary were made when one contradicted, that one included; 0 if it was no re-test."""
    steps = range(1, len(evidence) + 1)
    first = next(n for n in steps if contradictions(count(size, evidence[:n])))
    before = count(size, evidence[: first - 1])
    if not _ends_differ(size, before):
        return 0
    gap = _nearest_gap(size, before)
    index = evidence[first - 1].index
    repeated = index in gap.sides and before[index].answers >= _first_answers(size, index)
    if gap.untested(before) or not repeated:
        return 0
    return sum(_retests(size, i, before) for i in gap.sides) + 1


# --- small words --------------------------------------------------------------------------------


def _answers(seen: Seen) -> list[tuple[int, Outcome]]:
    """The candidates that always answered alike, in order, with their answer."""
    pairs = ((index, seen[index].outcome) for index in sorted(seen))
    return [(i, outcome) for i, outcome in pairs if outcome is Outcome.GOOD or outcome is Outcome.BAD]


def _ends_differ(size: int, seen: Seen) -> bool:
    return {seen[0].outcome, seen[size - 1].outcome} == {Outcome.GOOD, Outcome.BAD}


def _changes(seen: Seen) -> list[tuple[int, int]]:
    """Neighbouring observed candidates whose answers differ, in order."""
    answers = _answers(seen)
    return [(a, b) for (a, left), (b, right) in pairwise(answers) if left is not right]


def _first_answers(size: int, index: int) -> int:
    """How many answers a candidate gives before a further one counts as a re-test."""
    return NEEDED_AT_ENDS if index in (0, size - 1) else 1


def _retests(size: int, index: int, seen: Seen) -> int:
    return max(0, seen[index].answers - _first_answers(size, index))


def _name(size: int, index: int) -> str:
    if index == 0:
        return "the old end"
    return "the new end" if index == size - 1 else f"candidate {index + 1} of {size}"


def _without_boundary(result: Result, size: int, seen: Seen, reason: str) -> Conclusion:
    old = seen[0].outcome
    return Conclusion(
        result=result,
        old=None if old is Outcome.SKIP else old,
        last_old=None,
        first_new=None,
        suspects=(),
        confidence=None,
        reason=reason,
        retests=0,
        retests_held=None,
        other_changes=tuple(_changes(seen)),
    )
