"""Puts what is believed into a conclusion."""

from __future__ import annotations

from bisect_bot.model import Outcome, Result
from bisect_bot.search.belief import Belief
from bisect_bot.search.tally import (
    RETESTS_OF_A_SIDE,
    Seen,
    Tally,
    changes,
    contradictions,
    name,
    retests,
    steady_answers,
)
from bisect_bot.search.types import Conclusion

# An inconclusive search names so many suspects at most, and none less likely than that.
MOST_SUSPECTS = 20
LEAST_CHANCE = 0.01


def unusable(size: int, seen: Seen, end: int) -> Conclusion:
    """An end cannot answer: without it there is nothing to search between."""
    return _without_boundary(Result.UNUSABLE, seen, f"{name(size, end)} cannot answer ({seen[end]}): choose another")


def same_ends(size: int, seen: Seen) -> Conclusion:
    """Both ends always gave the same answer."""
    seen_changes = tuple(changes(steady_answers(seen)))
    reason = f"both ends are {seen[0].outcome}"
    most = max(seen[0].answers, seen[size - 1].answers)
    if most > 2:
        reason += f" (in up to {most} runs)"
    if seen_changes:
        reason += ", but it changed and changed back between them: choose ends nearer to one of the changes"
    return _without_boundary(Result.SAME, seen, reason, seen_changes)


def conclude(size: int, seen: Seen, belief: Belief, result: Result, why: str = "") -> Conclusion:
    """The conclusion `result` from a belief; `why` says what kept it from a better one."""
    if result is Result.SAME:
        return _nothing_changed(size, seen, belief)
    if result is Result.INCONCLUSIVE:
        return _inconclusive(size, seen, belief, why)
    return _boundary(size, seen, belief, result)


def _boundary(size: int, seen: Seen, belief: Belief, result: Result) -> Conclusion:
    last_old, first_new = belief.sides(belief.best)
    sure = float(belief.mass[belief.best])
    suspects = range(last_old + 1, first_new + 1)
    skipped = len(suspects) - 1
    reasons = [
        f"{skipped} candidate(s) between the two sides cannot be tested"
        if skipped
        else "the two sides are neighbours and differ"
    ]
    if belief.others:
        reasons.append(
            f"more than one change is visible ({len(belief.others) + 1}): this is the one nearest to the new end"
        )
    held = all(retests(size, i, seen) >= RETESTS_OF_A_SIDE for i in (last_old, first_new))
    if not held:
        reasons.append("a side did not always answer when it was tested again")
    reasons += _flaky(size, seen, (last_old, first_new))
    return Conclusion(
        result=result,
        old=_old(belief),
        last_old=last_old,
        first_new=first_new,
        suspects=tuple((i, sure / len(suspects), i != first_new) for i in suspects),
        confidence=sure,
        reason="; ".join(reasons),
        retests=sum(retests(size, i, seen) for i in (last_old, first_new)),
        retests_held=True if held else None,
        other_changes=belief.others,
        contradictions=contradictions(seen),
        same=belief.nothing,
    )


def _nothing_changed(size: int, seen: Seen, belief: Belief) -> Conclusion:
    returned = belief.returned > 0.5
    reason = f"the ends do not differ (probability {belief.nothing:.3f}): " + _shares(size, seen, (0, size - 1))
    if returned:
        reason += ", but it changed and changed back between them: choose ends nearer to one of the changes"
    plain = _without_boundary(Result.SAME, seen, reason, belief.others if returned else ())
    return _with_doubt(plain, seen, belief, ())


def _inconclusive(size: int, seen: Seen, belief: Belief, why: str) -> Conclusion:
    flaky = _flaky(size, seen, contradictions(seen))
    plain = _without_boundary(Result.INCONCLUSIVE, seen, "; ".join([why, *flaky]), belief.others)
    chances = sorted(posterior(belief, seen), key=lambda s: -s[1])[:MOST_SUSPECTS]
    guess = _with_doubt(plain, seen, belief, tuple(sorted(s for s in chances if s[1] >= LEAST_CHANCE)))
    if belief.nothing > 0.5:
        return guess
    last_old, first_new = belief.sides(belief.best)
    again = sum(retests(size, i, seen) for i in (last_old, first_new))
    return Conclusion(
        guess.result,
        _old(belief),
        last_old,
        first_new,
        guess.suspects,
        None,
        guess.reason,
        again,
        False if again else None,
        guess.other_changes,
        guess.contradictions,
        guess.same,
    )


def posterior(belief: Belief, seen: Seen) -> list[tuple[int, float, bool]]:
    """Each candidate that may be the first new one, with its probability, every place in a segment alike."""
    found: list[tuple[int, float, bool]] = []
    for segment, mass in enumerate(belief.mass):
        last_old, first_new = belief.sides(segment)
        share = float(mass) * (1 - belief.several - belief.returned) / (first_new - last_old)
        found += [(i, share, i in seen and not seen[i].answers) for i in range(last_old + 1, first_new + 1)]
    return found


def _old(belief: Belief) -> Outcome:
    return Outcome.GOOD if belief.rises(belief.best) else Outcome.BAD


def _flaky(size: int, seen: Seen, candidates: tuple[int, ...]) -> list[str]:
    return [f"{name(size, i)} answered both ways ({seen[i]})" for i in candidates if seen.get(i, Tally()).contradictory]


def _shares(size: int, seen: Seen, candidates: tuple[int, ...]) -> str:
    return ", ".join(f"{name(size, i)} was {seen[i]}" for i in candidates)


def _with_doubt(
    plain: Conclusion, seen: Seen, belief: Belief, suspects: tuple[tuple[int, float, bool], ...]
) -> Conclusion:
    return Conclusion(
        plain.result,
        plain.old,
        None,
        None,
        suspects,
        None,
        plain.reason,
        0,
        None,
        plain.other_changes,
        contradictions(seen),
        belief.nothing,
    )


def _without_boundary(result: Result, seen: Seen, reason: str, others: tuple[tuple[int, int], ...] = ()) -> Conclusion:
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
        other_changes=others,
    )
