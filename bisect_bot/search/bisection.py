"""Which test comes next. While all answers agree it is plain bisection; once they do not, information per second.

Plain: both ends are tested twice, then the middle of what is left, then the two sides of the answer twice more.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log

from bisect_bot.model import Outcome, Result
from bisect_bot.search.belief import Belief, believe, place_weights
from bisect_bot.search.conclude import conclude, posterior, same_ends, unusable
from bisect_bot.search.gains import Gains, affordable, gains, halving, rates_of_gain
from bisect_bot.search.rates import Floats
from bisect_bot.search.tally import (
    NEEDED_AT_ENDS,
    RETESTS_OF_A_SIDE,
    Seen,
    changes,
    contradictions,
    count,
    first_answers,
    name,
    retests,
    steady_answers,
    untested,
)
from bisect_bot.search.types import Aim, Conclusion, Evidence, Prices, Purpose, Test, Weights

# Where the two ends never differed, the share of the allowed doubt that may come from runs that were too few.
SHARE_OF_DOUBT = 4
# The share of the allowed doubt that a boundary may leave; the rest is for what the model does not know. A failure that
# was seen or said to come and go may be rarer than it looks so far, which leaves the model more sure than it should be.
DOUBT_WHEN_STEADY = 0.2
DOUBT_WHEN_FLAKY = 0.1
# Ends that always fail are called the same when one that fails half the time would have passed: they fail plainly
# enough, and what fails rarely is not what was asked about.
HALF_THE_TIME = 0.5
# Flaky ends are called the same once no change of rates that must not be overlooked fits the answers better than this
# many times the allowed doubt (by odds). At 1 no more than the doubt would be missed for certain, at a third more runs.
OVERLOOKED = 10
# Several changes this likely are asked after at once; from UNLIKELY on before a single one is concluded. At
# `belief.BELIEVED` they are believed. No candidate is asked more often than that for it.
LIKELY = 0.05
UNLIKELY = 0.02
MOST_VOTES = 25


def next_action(
    size: int,
    evidence: Sequence[Evidence],
    *,
    aim: Aim | None = None,
    prices: Prices | None = None,
    weights: Weights | None = None,
    within: int | None = None,
) -> Test | Conclusion:
    """The next test, or the conclusion when no further test is worth it.

    `size` (at least 2) counts the candidates: index 0 is the old end, size-1 the new one. `evidence` holds
    everything believed so far, in any order, also what was asked for elsewhere. Which of good and bad is the old
    outcome is read off the answers. `weights` say how likely each candidate is to be the first new one, relative to
    the others (the first number is not used): they decide what is asked first, not what is answered, and while no
    answer contradicts another only as far as `within` candidates between the ends are enough. `prices` are
    paid for what no answer is known of (build_s) and for each run. Equal input gives equal output, and answering
    what is asked always comes to a conclusion.

    While no answer contradicts another, a history without skips takes two tests of each end, in turn; then at most
    ceil(log2(size - 1)) candidates; then two further tests of both sides of the boundary, in turn (more for a higher
    confidence than the default). Raises ValueError for a size below 2, an index outside the candidates, infra
    outcomes, and weights that do not fit.
    """
    state = State(size, evidence, aim or Aim(), prices or Prices(), weights, within)
    return state.steady() or state.doubtful()


def best_gap(size: int, evidence: Sequence[Evidence], *, aim: Aim | None = None) -> tuple[int, int] | None:
    """The narrowest pair of candidates known so far to hold the change between them, or None before the ends differ.

    What a search that was stopped can still say. Where answers contradict each other, the change lies between the
    pair with the confidence of `aim`. Raises ValueError as `next_action` does.
    """
    state = State(size, evidence, aim or Aim(), Prices(), None)
    if state.differ and state.consistent:
        return state.gap
    belief = state.belief
    if not contradictions(state.seen) or belief.nothing > 0.5:
        return None
    first = last = belief.best
    mass = belief.mass / max(belief.mass.sum(), 1e-300)
    while mass[first : last + 1].sum() < state.aim.confidence and (first > 0 or last < len(mass) - 1):
        if last == len(mass) - 1 or (first > 0 and mass[first - 1] > mass[last + 1]):
            first -= 1
        else:
            last += 1
    return belief.tested[first], belief.tested[last + 1]


def suspects(size: int, evidence: Sequence[Evidence]) -> tuple[tuple[int, float, bool], ...]:
    """Every candidate that may be the first new one, with its probability and whether it was skipped.

    What is missing to 1 is the probability that nothing changed, or that several things did. Raises ValueError as
    `next_action` does.
    """
    seen = count(size, evidence)
    return tuple(posterior(believe(size, seen, place_weights(size, None)), seen))


class State:
    """The evidence with what follows from it, for one decision."""

    def __init__(
        self,
        size: int,
        evidence: Sequence[Evidence],
        aim: Aim,
        prices: Prices,
        weights: Weights | None,
        within: int | None = None,
    ) -> None:
        self.size, self.aim, self.prices, self.within = size, aim, prices, within
        self.seen: Seen = count(size, evidence)
        self.even: Floats = place_weights(size, None)
        self.places: Floats = self.even if weights is None else place_weights(size, weights)
        self.answers = sum(tally.answers for tally in self.seen.values())
        self._belief: Belief | None = None

    @property
    def ends(self) -> tuple[int, int]:
        """The two ends."""
        return 0, self.size - 1

    @property
    def belief(self) -> Belief:
        """The belief with every place equally likely beforehand: no weights decide what is answered."""
        if self._belief is None:
            self._belief = believe(self.size, self.seen, self.even)
        return self._belief

    @property
    def differ(self) -> bool:
        """Whether the ends always gave one answer each, and not the same."""
        return {self.seen[end].outcome for end in self.ends} == {Outcome.GOOD, Outcome.BAD}

    @property
    def consistent(self) -> bool:
        """Whether the answers can all be taken at their word."""
        if contradictions(self.seen):
            return False
        return len(changes(steady_answers(self.seen))) < 2 or self.belief.last_of_several

    @property
    def gap(self) -> tuple[int, int]:
        """The gap nearest to the new end. Expects consistent answers and ends that differ.

        After the last candidate with the old outcome every answer is the new one, so the next answer and it are two
        sides that differ in the direction of the ends.
        """
        answers = steady_answers(self.seen)
        last_old = max(index for index, outcome in answers if outcome is self.seen[0].outcome)
        return last_old, min((i for i, _ in answers if i > last_old), default=self.size - 1)

    # --- while all answers agree ------------------------------------------------------------------

    def steady(self) -> Test | Conclusion | None:
        """What plain bisection does next, or None where it has nothing to ask or cannot be trusted."""
        lost = next((end for end in self.ends if self.seen[end].spent and not self.seen[end].answers), None)
        if lost is not None:
            return unusable(self.size, self.seen, lost)
        end = self._end()
        if end is not None:
            return end
        if not contradictions(self.seen) and not self.differ and self._never_differ():
            return same_ends(self.size, self.seen)
        if not self.differ or not self.consistent:
            return None
        return self._middle() or self._side()

    def _never_differ(self) -> bool:
        """Whether ends with the same answers are the same. One that passes now and then may hide in few failures."""
        passed = self.seen[0].outcome is Outcome.GOOD
        if passed or self.aim.rarest == 1:
            return True
        return self.belief.nothing >= self.aim.confidence and not self._may_differ()

    def _end(self) -> Test | None:
        """The end whose turn it is, or None when both have answered often enough."""
        needed = NEEDED_AT_ENDS
        if {self.seen[end].outcome for end in self.ends} == {Outcome.GOOD}:
            needed = max(needed, self._passes_to_believe())
        due = [i for i in self.ends if self.seen[i].answers < needed and not self.seen[i].spent]
        if not due:
            return None
        index = min(due, key=lambda i: (self.seen[i].asked, i))
        done = self.seen[index].answers
        again = "before anything else"
        if done:
            again = "again, to see whether it repeats"
        if done >= NEEDED_AT_ENDS:
            again = f"again: it passed {done} times, and may fail now and then"
        return Test(index, Purpose.END, f"{name(self.size, index)}, {again}")

    def _passes_to_believe(self) -> int:
        """After how many passes of an end a failure of the rarest kind would have shown."""
        if self.aim.rarest == 1:
            return NEEDED_AT_ENDS
        doubt = (1 - self.aim.confidence) / SHARE_OF_DOUBT
        return min(ceil(log(doubt) / log(1 - self.aim.rarest)), self.aim.patience // 2)

    def _middle(self) -> Test | None:
        """The untested candidate that halves the gap best, or None when there is none."""
        last_old, first_new = self.gap
        bits = self.halving()
        index = int(bits.argmax())
        if not bits[index]:
            return None
        left = first_new - last_old
        middle = index == (last_old + first_new) // 2
        skipped = any(last_old < i < first_new for i in self.seen)
        place = (
            "middle"
            if middle
            else "nearest to the middle, away from what was skipped,"
            if skipped
            else "likeliest half"
        )
        return Test(index, Purpose.SEARCH, f"{place} of {left} candidates left")

    def halving(self) -> Floats:
        """The bits that each untested candidate in the gap is good for, if the answers are taken at their word."""
        bits = halving(self.size, self.seen, self.places, self.gap)
        if self.within is None or self.places is self.even:
            return bits
        tested = sum(bool(tally.answers) for i, tally in self.seen.items() if i not in self.ends)
        bits = bits * affordable(self.size, self.gap, self.within - tested)
        return bits if bits.any() else halving(self.size, self.seen, self.even, self.gap)

    def due_sides(self) -> list[int]:
        """The sides of the gap that were not tested again as often as they must."""
        return [i for i in self.gap if retests(self.size, i, self.seen) < RETESTS_OF_A_SIDE and not self.seen[i].spent]

    def _side(self) -> Test | None:
        """The side of the gap whose turn it is to be tested again, or None when that is done."""
        due = self.due_sides()
        if not due:
            return None
        index = min(due, key=lambda i: (self.seen[i].asked - first_answers(self.size, i), i))
        side = "last candidate before" if index == self.gap[0] else "first candidate after"
        return Test(index, Purpose.RETEST, f"the {side} the change again, to see whether it repeats")

    # --- when they do not -------------------------------------------------------------------------

    def doubtful(self) -> Test | Conclusion:
        """The conclusion that the belief allows, or the test that tells most a second."""
        conclusion = self._settled()
        if conclusion is not None:
            return conclusion
        if self.answers >= self.aim.patience:
            return conclude(
                self.size, self.seen, self.belief, Result.INCONCLUSIVE, f"no answer after {self.answers} runs"
            )
        index = self._vote()
        if index is None:
            index = self._end_again()
        if index is None:
            index = self._unproved()
        if index is None:
            index = self._telling()
        if index is None:
            return conclude(
                self.size, self.seen, self.belief, Result.INCONCLUSIVE, "further runs would tell too little"
            )
        return self._test(index)

    def _settled(self) -> Conclusion | None:
        belief = self.belief
        if belief.nothing >= self.aim.confidence and not self._may_differ():
            return conclude(self.size, self.seen, belief, Result.SAME)
        best = belief.best
        last_old, first_new = belief.sides(best)
        if not self._sure(belief) or max(belief.several, belief.returned) > 0.5:
            return None
        if untested(self.seen, last_old, first_new):
            return None
        if self._vote() is not None or self._unproved() is not None:
            return None
        return conclude(self.size, self.seen, belief, Result.FOUND if first_new == last_old + 1 else Result.RANGE)

    def _may_differ(self) -> bool:
        """Whether a change of rates that must not be overlooked may have been."""
        doubt, least = 1 - self.aim.confidence, self.aim.rarest
        if contradictions(self.seen):
            return self.belief.overlooked(least) > doubt * OVERLOOKED
        return self.belief.overlooked(max(least, HALF_THE_TIME)) > doubt

    def _sure(self, belief: Belief) -> bool:
        flaky = contradictions(self.seen) or self.aim.rarest < 1
        share = DOUBT_WHEN_FLAKY if flaky else DOUBT_WHEN_STEADY
        return bool(belief.mass[belief.best] >= 1 - (1 - self.aim.confidence) * share)

    def _end_again(self) -> int | None:
        """The end to ask where nothing seems to have changed, and too little was asked to say so."""
        if self.belief.nothing < self.aim.confidence:
            return None
        return min((i for i in self.ends if not self.seen[i].spent), key=lambda i: self.seen[i].answers, default=None)

    def _unproved(self) -> int | None:
        """A side of a boundary that is sure otherwise, which was not tested again as often as it must."""
        if not self._sure(self.belief):
            return None
        sides = self.belief.sides(self.belief.best)
        if untested(self.seen, *sides):
            return None
        due = [i for i in sides if retests(self.size, i, self.seen) < RETESTS_OF_A_SIDE and not self.seen[i].spent]
        return min(due, key=lambda i: (self.seen[i].answers, i), default=None)

    def _vote(self) -> int | None:
        """A candidate on whose side one change and several changes disagree, while both are possible."""
        belief = self.belief
        more = max(belief.several, belief.returned)
        if more <= (UNLIKELY if self._sure(belief) else LIKELY) or not belief.states or belief.nothing > 0.5:
            return None
        border = belief.sides(belief.best)[1]
        odd = {i for i, new in zip(belief.tested, belief.states, strict=True) if new != (i >= border)}
        if min(belief.several, belief.returned) > UNLIKELY:
            odd |= set(self.ends)  # an odd number of changes, or an even one
        open_to_vote = [i for i in odd if not self.seen[i].spent and self.seen[i].answers < MOST_VOTES]
        return min(open_to_vote, key=lambda i: (self.seen[i].answers, i), default=None)

    def gains(self) -> Gains:
        """The bits that each candidate is good for, by the number of runs."""
        belief = self.belief
        places = self.even
        if self.places is not self.even and not self._sure(belief):
            weighted = believe(self.size, self.seen, self.places)
            if not self._sure(weighted):
                belief, places = weighted, self.places
        return gains(self.size, self.seen, places, belief)

    def _telling(self) -> int | None:
        """The candidate that tells most a second, or None when that is next to nothing."""
        rates = rates_of_gain(self.size, self.seen, self.gains(), self.prices)
        index = int(rates.argmax())
        return index if rates[index] > 0 else None

    def _test(self, index: int) -> Test:
        tally = self.seen.get(index)
        if tally is None:
            return Test(index, Purpose.SEARCH, "the candidate that tells most for its price")
        asks_ends = index in self.ends and self.belief.nothing > 1 - self.aim.confidence
        told = f"{name(self.size, index)} again ({tally} so far), because the answers leave doubt"
        return Test(index, Purpose.END if asks_ends else Purpose.RETEST, told)
