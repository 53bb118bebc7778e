"""What a test is expected to tell about where the change is, in bits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bisect_bot.search.belief import Belief
from bisect_bot.search.rates import Floats, chances
from bisect_bot.search.skips import chance_to_answer
from bisect_bot.search.tally import Seen
from bisect_bot.search.types import Prices

# One run of a flaky candidate tells little. To get it pays off by the further runs, so several numbers are weighed.
RUNS = (1, 4, 16)
# A segment that holds the change with less than this is not worth a look inside.
NEGLIGIBLE = 1e-4

Gains = Mapping[int, Floats]


def gains(size: int, seen: Seen, places: Floats, belief: Belief) -> Gains:
    """By a number of runs: the bits expected of running each candidate so often, 0 for one that cannot answer.

    The expected decrease of the entropy over the places of the change and "nothing changed", by the rates as they are
    believed now. An untested candidate may turn out to be one that skips.
    """
    at, usable = _askable(seen, belief)
    tested = np.array(belief.tested)
    segment = np.clip(np.searchsorted(tested, at, side="left") - 1, 0, len(tested) - 2)
    upto = np.cumsum(places)
    start, end = upto[tested[segment]], upto[tested[segment + 1]]
    part = np.clip((upto[at] - start) / np.maximum(end - start, 1e-300), 0, 1)
    bits = np.zeros((size, len(RUNS)))
    bits[at] = usable[:, None] * _bits(belief, segment, part)
    return {runs: bits[:, column] for column, runs in enumerate(RUNS)}


def halving(size: int, seen: Seen, places: Floats, gap: tuple[int, int]) -> Floats:
    """The bits expected of testing each untested candidate inside `gap` when every answer is taken at its word."""
    last_old, first_new = gap
    bits = np.zeros(size)
    inside = np.array([i for i in range(last_old + 1, first_new) if i not in seen], dtype=int)
    if not len(inside):
        return bits
    upto = np.cumsum(places)
    part = (upto[inside] - upto[last_old]) / (upto[first_new] - upto[last_old])
    usable = chance_to_answer(inside.tolist(), [i for i in seen if last_old < i < first_new])
    # Rounded, so that equal halves are equal whatever the sums before them.
    bits[inside] = np.round(usable * (_entropy(part) + _entropy(1 - part)), 9)
    return bits


def halvings(size: int) -> int:
    """How many candidates between the two ends have to be tested at most when each test halves what is left."""
    return (size - 2).bit_length()


def affordable(size: int, gap: tuple[int, int], tests: int) -> NDArray[np.bool_]:
    """Which candidates can be tested so that, whatever they answer, halving what is left ends after `tests` in all."""
    last_old, first_new = gap
    at = np.arange(size)
    return np.asarray(np.maximum(at - last_old, first_new - at) <= 2.0 ** (tests - 1))


def rates_of_gain(size: int, seen: Seen, bits: Gains, prices: Prices) -> Floats:
    """The most bits a second that each candidate is good for, whatever the number of runs."""
    build = np.full(size, prices.build_s)
    build[[i for i, tally in seen.items() if tally.answers]] = 0.0
    best = np.zeros(size)
    for runs, each in bits.items():
        best = np.maximum(best, each / (build + runs * prices.rerun_s))
    return best


def _askable(seen: Seen, belief: Belief) -> tuple[NDArray[np.intp], Floats]:
    """The candidates worth a question, and the probability that each can be tested."""
    at = [i for i in belief.tested if not seen[i].spent]
    usable = [np.ones(len(at))]
    for segment in np.flatnonzero(belief.mass > NEGLIGIBLE):
        last_old, first_new = belief.sides(int(segment))
        inside = [i for i in range(last_old + 1, first_new) if i not in seen]
        if inside:
            at += inside
            usable.append(chance_to_answer(inside, [i for i in seen if last_old < i < first_new]))
    return np.array(at, dtype=np.intp), np.concatenate(usable)


# The answers to each number of runs side by side, and which columns belong together.
_TABLE: Floats = np.hstack([chances(runs) for runs in RUNS])
_COLUMNS: Floats = np.repeat(np.eye(len(RUNS)), [runs + 1 for runs in RUNS], axis=0)


def _bits(belief: Belief, segment: NDArray[np.intp], part: Floats) -> Floats:
    """The mutual information between the place of the change and the number of bad ones among some runs.

    A row for each candidate and a column for each of RUNS. A candidate lies in a `segment`, with `part` of the
    segment's places up to it: if the change is there, or in a segment before, it is on the new side.
    """
    old, new, same = belief.before @ _TABLE, belief.after @ _TABLE, belief.same @ _TABLE
    told = _mixed(old, new, segment, part) + same
    known = _mixed(_unsure(old), _unsure(new), segment, part) + _unsure(same)
    return np.asarray(np.maximum(_unsure(told) - known, 0.0))


def _mixed(old: Floats, new: Floats, segment: NDArray[np.intp], part: Floats) -> Floats:
    """Sums over the segments: `new` of those before each candidate, `old` of those behind, both of its own."""
    nothing = np.zeros((1, old.shape[1]))
    before = np.concatenate([nothing, np.cumsum(new, axis=0)])
    behind = np.concatenate([np.cumsum(old[::-1], axis=0)[::-1], nothing])
    apart = part[:, None]
    inside = apart * new[segment] + (1 - apart) * old[segment]
    return np.asarray(before[segment] + inside + behind[segment + 1])


def _unsure(joint: Floats) -> Floats:
    """For probabilities of a hypothesis together with each answer: its share of the entropy of the answer."""
    return np.asarray(_entropy(joint) @ _COLUMNS - _entropy(joint @ _COLUMNS))


def _entropy(p: Floats) -> Floats:
    return np.asarray(-p * np.log2(np.maximum(p, 1e-300)))
