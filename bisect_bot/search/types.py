"""What crosses the border of the search: indices, never revisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from bisect_bot.model import Outcome, Result


class Purpose(StrEnum):
    """Why a test is asked for."""

    END = "end"  # do the two ends differ, and the same way twice?
    SEARCH = "search"  # where between them is the change?
    RETEST = "retest"  # does a candidate that answered before still say what it said?


@dataclass(frozen=True, slots=True)
class Evidence:
    """One believed answer of the candidate at `index`: good, bad or skip."""

    index: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Prices:
    """What the two kinds of action cost, in seconds: `build_s` to get a candidate that was never tested, and
    `rerun_s` to run the case once, with a candidate just built or with a kept one.

    Only the ratio matters to the search. Raises ValueError for a negative price and for runs that cost nothing.
    """

    build_s: float = 200.0
    rerun_s: float = 10.0

    def __post_init__(self) -> None:
        if self.build_s < 0 or self.rerun_s <= 0:
            raise ValueError(f"prices are positive: {self}")


@dataclass(frozen=True, slots=True)
class Aim:
    """When a search has done enough.

    `confidence` (0.5 up to below 1) is the probability that an answer has to reach. `rarest` (above 0, up to 1) is the
    lowest rate of failure that must not be overlooked: two ends that only ever passed are called the same when one
    that fails this often would have shown it (1 takes two passes for an answer), and two ends that fail now and then
    when rates that differ by so much would have shown it. `patience` is the number of
    answers after which a search that has not reached its confidence gives up. Raises ValueError outside of that.
    """

    confidence: float = 0.95
    rarest: float = 1.0
    patience: int = 500

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"a confidence lies between 0.5 and 1, not at {self.confidence}")
        if not 0 < self.rarest <= 1:
            raise ValueError(f"a rate of failure lies between 0 and 1, not at {self.rarest}")
        if self.patience < 4:
            raise ValueError(f"four answers are the least that two ends give, not {self.patience}")


@dataclass(frozen=True, slots=True)
class Test:
    """The next thing to do: test the candidate at `index`. `reason` is one line for the user."""

    __test__: ClassVar[bool] = False  # pytest would collect the class for its name

    index: int
    purpose: Purpose
    reason: str


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the evidence amounts to, when nothing more is asked.

    `old` is the outcome at the old end (the likelier one, where it answers both ways and the ends differ). `last_old`
    and `first_new` are two observed candidates with only skipped ones between them; of an inconclusive search they
    are the best guess, or None.

    `suspects` are the candidates that may be the first new one, each with its probability and whether it was
    skipped. Of a boundary or a range their probabilities add up to `confidence`; what is missing to 1 is the chance
    that it is elsewhere or nowhere. Of an inconclusive search they are the likeliest ones, and what is missing also
    holds `same`, the probability that nothing changed. `confidence` is None unless the result is found or range.

    `retests` counts the repeated tests of the two sides. `retests_held` says whether they left the answer standing
    (a flaky side may have answered both ways: the reason says so); None when they could not all be made.

    `other_changes` are the changes seen elsewhere, as pairs of neighbouring observed candidates with different
    answers. `contradictions` are the candidates that answered both good and bad.
    """

    result: Result
    old: Outcome | None
    last_old: int | None
    first_new: int | None
    suspects: tuple[tuple[int, float, bool], ...]
    confidence: float | None
    reason: str
    retests: int
    retests_held: bool | None
    other_changes: tuple[tuple[int, int], ...] = ()
    contradictions: tuple[int, ...] = ()
    same: float | None = None


Weights = Sequence[float]
