"""What was observed, counted by candidate: the only form in which the search looks at evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
    def spent(self) -> bool:
        """Whether it skipped so often that asking again is no use."""
        return self.skip >= SKIPS_TO_GIVE_UP

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
    """A tally for each index that was observed, and for the two ends, in order of index.

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
    return dict(sorted({0: Tally(), size - 1: Tally(), **tallies}.items()))


def contradictions(seen: Seen) -> tuple[int, ...]:
    """The candidates that answered both ways, in order."""
    return tuple(index for index, tally in seen.items() if tally.contradictory)


def steady_answers(seen: Seen) -> list[tuple[int, Outcome]]:
    """The candidates that always answered alike, in order, with their answer."""
    pairs = ((index, tally.outcome) for index, tally in seen.items())
    return [(i, outcome) for i, outcome in pairs if outcome is Outcome.GOOD or outcome is Outcome.BAD]


def changes(answers: Sequence[tuple[int, Outcome]]) -> list[tuple[int, int]]:
    """Neighbours among `answers` that differ, in order."""
    return [(a, b) for (a, left), (b, right) in pairwise(answers) if left is not right]


def answered(seen: Seen) -> list[int]:
    """The candidates that said something about themselves, in order."""
    return [index for index, tally in seen.items() if tally.answers]


def untested(seen: Seen, after: int, before: int) -> list[int]:
    """What lies strictly between two candidates and was never tested, in order."""
    return [i for i in range(after + 1, before) if i not in seen]


def first_answers(size: int, index: int) -> int:
    """How many answers a candidate gives before a further one counts as a re-test."""
    return NEEDED_AT_ENDS if index in (0, size - 1) else 1


def retests(size: int, index: int, seen: Seen) -> int:
    """How often a candidate answered beyond what it is asked for anyway."""
    return max(0, seen[index].answers - first_answers(size, index))


def name(size: int, index: int) -> str:
    """What a reader calls a candidate."""
    if index == 0:
        return "the old end"
    return "the new end" if index == size - 1 else f"candidate {index + 1} of {size}"
