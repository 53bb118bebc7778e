"""Simulated histories: where they change, how often each side fails, and what cannot be tested."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log

from bisect_bot.model import Outcome

# How often a candidate that never or always fails answers otherwise all the same, in what the answers are worth.
FREAK = 0.001


@dataclass(frozen=True)
class History:
    """`size` candidates; the side changes at each of `changes`. `fails` are the rates of the old and the new side."""

    size: int
    changes: tuple[int, ...]
    fails: tuple[float, float]
    skipped: frozenset[int] = field(default=frozenset())

    def is_new(self, index: int) -> bool:
        """On which side a candidate is."""
        return sum(change <= index for change in self.changes) % 2 == 1


@dataclass
class Runs:
    """Answers for one method, and what they cost: every call is a test, every new index a build."""

    history: History
    rng: random.Random
    bad: Counter[int] = field(default_factory=Counter)
    asked: Counter[int] = field(default_factory=Counter)

    @property
    def tests(self) -> int:
        """How many runs there were."""
        return self.asked.total()

    @property
    def built(self) -> frozenset[int]:
        """The candidates that were needed for them."""
        return frozenset(self.asked)

    @property
    def shows_more(self) -> bool:
        """Whether the tested candidates lie on sides that change more than once, by what they mostly answered too."""
        told = [i for i in sorted(self.asked) if i not in self.history.skipped and self._typical(i)]
        return sum(a != b for a, b in pairwise(self.history.is_new(i) for i in told)) > 1

    @property
    def odds_of_more(self) -> bool:
        """Whether several changes explain the answers 20 times as well as any single one, knowing the rates."""
        if len(self.history.changes) < 2:
            return False
        old, new = (self._logs(fails) for fails in self.history.fails)
        true = sum((new if self.history.is_new(i) else old)[i] for i in old)
        places = [*sorted(old), self.history.size]
        single = max(sum((new if i >= place else old)[i] for i in old) for place in places)
        return true - single > log(20)

    def _logs(self, fails: float) -> dict[int, float]:
        """The log likelihood of the answers of each testable candidate that fails at this rate, freaks allowed for."""
        rate = min(max(fails, FREAK), 1 - FREAK)
        at = [i for i in self.asked if i not in self.history.skipped]
        return {i: self.bad[i] * log(rate) + (self.asked[i] - self.bad[i]) * log(1 - rate) for i in at}

    def _typical(self, index: int) -> bool:
        """Whether the answers of a candidate fit its own side better than the other."""
        fails = self.history.fails[self.history.is_new(index)]
        return abs(self.bad[index] / self.asked[index] - fails) <= abs(fails - sum(self.history.fails) / 2)

    def answer(self, index: int) -> Outcome:
        """One run of the candidate at `index`."""
        self.asked[index] += 1
        if index in self.history.skipped:
            return Outcome.SKIP
        fails = self.history.fails[self.history.is_new(index)]
        if self.rng.random() >= fails:
            return Outcome.GOOD
        self.bad[index] += 1
        return Outcome.BAD


@dataclass(frozen=True)
class Told:
    """What a method said: `first_new` is None where it named no boundary."""

    result: str
    first_new: int | None = None
    last_old: int | None = None
    more: bool = False
    confidence: float | None = None


def one_change(rng: random.Random, size: int, fails: tuple[float, float]) -> History:
    """A change at a random candidate."""
    return History(size, (rng.randrange(1, size),), fails)


def simple(size: int, fails: tuple[float, float], rng: random.Random) -> History:
    """One change, with the random numbers last."""
    return one_change(rng, size, fails)


def three_changes(rng: random.Random, size: int, fails: tuple[float, float]) -> History:
    """A culprit, its fix, and a second culprit: two boundaries in the direction of the ends."""
    return History(size, tuple(sorted(rng.sample(range(1, size), 3))), fails)


def no_change(rng: random.Random, size: int, fails: tuple[float, float]) -> History:
    """Both ends are alike and flaky, at a rate between those of `fails`."""
    rate = rng.uniform(*fails)
    return History(size, (), (rate, rate))


def random_rates(rng: random.Random, least: float) -> tuple[float, float]:
    """Rates of the old and the new side that differ by at least `least`; the higher one is at least 0.2.

    In a fifth of the histories the bad side always fails, in a third the good one never does; in a quarter the change
    is a fix.
    """
    while True:
        high = 1.0 if rng.random() < 0.2 else rng.uniform(0.2, 1.0)
        low = 0.0 if rng.random() < 0.35 else rng.uniform(0.0, 0.9)
        if high - low >= least:
            return (low, high) if rng.random() < 0.75 else (high, low)


def right_weights(history: History) -> list[float]:
    """A tenth of the candidates, the true one among them, is thought to be 50 times as likely as the others."""
    rng = random.Random(f"weights {history}")
    likely = {history.changes[-1], *(i for i in range(history.size) if rng.random() < 0.1)}
    return [50.0 if i in likely else 1.0 for i in range(history.size)]


def wrong_weights(history: History) -> list[float]:
    """A tenth of the candidates is thought to be 50 times as likely as the others, and the true one impossible."""
    return [0.0 if i == history.changes[-1] else weight for i, weight in enumerate(right_weights(history))]


def scattered(rng: random.Random, size: int, share: float) -> frozenset[int]:
    """Each candidate inside cannot be tested with probability `share`."""
    return frozenset(i for i in range(1, size - 1) if rng.random() < share)


def in_runs(rng: random.Random, size: int, length: int, share: float = 0.25) -> frozenset[int]:
    """Runs of `length` candidates that cannot be tested, until they hold `share` of the history."""
    found: set[int] = set()
    while len(found) < share * size:
        start = rng.randrange(1, size - length)
        found |= set(range(start, min(start + length, size - 1)))
    return frozenset(found)


def untestable_gap(history: History) -> tuple[int, int]:
    """The testable neighbours of the last change, with all that cannot be tested between them."""
    last_old, first_new = history.changes[-1] - 1, history.changes[-1]
    while last_old in history.skipped:
        last_old -= 1
    while first_new in history.skipped:
        first_new += 1
    return last_old, first_new


def summary(values: Sequence[float]) -> str:
    """Mean and 95th percentile."""
    if not values:
        return "-"
    return f"{sum(values) / len(values):.1f} / {sorted(values)[int(0.95 * (len(values) - 1))]:.0f}"
