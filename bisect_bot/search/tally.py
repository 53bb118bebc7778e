"""What was observed, counted by candidate: the only form in which the search looks at evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

from bisect_bot.model import Outcome
from bisect_bot.search.types import Evidence

NEEDED_AT_ENDS = 2
RETESTS_OF_A_SIDE = 2
SKIPS_TO_GIVE_UP = 2


@dataclass(frozen=True, slots=True)
class Tally:
    """The answers of one candidate."""

    good: int = 0
    bad: int = 0
    skip: int = 0

    @property
    def answers(self) -> int:
        """How often it said something about itself: skips are not answers."""
        return self.good + self.bad

    @property
    def asked(self) -> int:
        """How often it was tested."""
        return self.answers + self.skip

    @property
    def contradictory(self) -> bool:
        """Whether it answered both good and bad."""
        return self.good > 0 and self.bad > 0

    @property
    def outcome(self) -> Outcome | None:
        """Good or bad when all answers agree, skip when it only ever skipped, else None."""
        if self.contradictory or not self.asked:
            return None
        if not self.answers:
            return Outcome.SKIP
        return Outcome.GOOD if self.good else Outcome.BAD

    def __str__(self) -> str:
        words = ((self.good, "good"), (self.bad, "bad"), (self.skip, "skip"))
        return ", ".join(f"{count}x {word}" for count, word in words if count)


Seen = Mapping[int, Tally]


def count(size: int, evidence: Sequence[Evidence]) -> Seen:
    """A tally for every index that may be looked up, empty where nothing was observed.

    Raises ValueError for a size below 2, an index outside 0..size-1, and an outcome that nobody may believe.
    """
    if size < 2:
        raise ValueError(f"a search needs two ends, not {size} candidate(s)")
    counts: dict[int, dict[Outcome, int]] = defaultdict(lambda: dict.fromkeys(Outcome, 0))
    for piece in evidence:
        if not 0 <= piece.index < size:
            raise ValueError(f"index {piece.index} is outside 0..{size - 1}")
        if piece.outcome is Outcome.INFRA:
            raise ValueError("an infra outcome says nothing about a candidate and is not evidence")
        counts[piece.index][piece.outcome] += 1
    tallies = {i: Tally(by[Outcome.GOOD], by[Outcome.BAD], by[Outcome.SKIP]) for i, by in counts.items()}
    return {0: Tally(), size - 1: Tally(), **tallies}


def contradictions(seen: Seen) -> tuple[int, ...]:
    """The candidates that answered both ways, in order."""
    return tuple(sorted(index for index, tally in seen.items() if tally.contradictory))


def confidence(seen: Seen, sides: tuple[int, int]) -> float:
    """The probability that both `sides` of a boundary are what all their answers say, from 0 to 1.

    The model: an answer is wrong with an unknown probability e, the same for all and independent, and any e
    is equally likely beforehand. A side answered n times, always alike: either all are right, (1-e)^n, or all
    are wrong, e^n. Elsewhere r repeated answers agreed with the first one of their candidate, (1-e)^r.
    Integrated over e, by Beta functions, the second of the two has probability

        1 / (1 + C(n + r, n))

    For n = 1 that is 1 / (r + 2): Laplace's rule of succession. The search asks for n = 3 and r = 4 (two
    repeats at the other side, one at each end), which gives (35/36)^2 = 0.945.
    """
    repeats = {index: tally.answers - 1 for index, tally in seen.items() if tally.answers}
    total = sum(repeats.values())
    held = 1.0
    for side in sides:
        answers = seen[side].answers
        held *= 1 - 1 / (1 + comb(answers + total - repeats[side], answers))
    return held
