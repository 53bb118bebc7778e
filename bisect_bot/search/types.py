"""What crosses the border of the search: indices, never revisions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from bisect_bot.model import Outcome, Result


class Purpose(StrEnum):
    """Why a test is asked for."""

    END = "end"  # do the two ends differ, and the same way twice?
    SEARCH = "search"  # where between them is the change?
    RETEST = "retest"  # do the two sides of the answer still say what they said?


@dataclass(frozen=True, slots=True)
class Evidence:
    """One believed answer of the candidate at `index`: good, bad or skip."""

    index: int
    outcome: Outcome


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

    `old` is the outcome at the old end. `last_old` and `first_new` are two observed candidates with only
    skipped ones between them; of an inconclusive search they are the best guess, or None.

    `suspects` are the candidates that may be the first new one, each with its probability and whether it was
    skipped. The probabilities add up to `confidence`: what is missing to 1 is the chance that an answer on
    which the boundary rests was a wrong one. `confidence` is None unless the result is found or range.

    `retests` counts the repeated tests of the two sides. `retests_held` is None when they could not all be made.

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
