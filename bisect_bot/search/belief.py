"""What the answers say about where the change is: a probability for every place, for nowhere, and for several.

The model: one run of a candidate is bad with a rate that is the same for all candidates before the change, and
another, the same for all after it. Both are unknown (see `rates`), and so is which of the two is higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from bisect_bot.search.rates import (
    AFTER,
    BEFORE,
    DIFFERENCE,
    GRID,
    LOG_ALONE,
    LOG_BAD,
    LOG_GOOD,
    LOG_PAIRS,
    OF_AFTER,
    OF_BEFORE,
    RATES,
    Floats,
)
from bisect_bot.search.several import Several, likeliest, several_changes
from bisect_bot.search.tally import Seen, answered, changes, contradictions, steady_answers
from bisect_bot.search.types import Weights

# Before anything was seen. Who asks says that the ends differ, and is wrong about that now and then.
ONE_CHANGE = 0.61
NO_CHANGE = 0.35
# How sure it must be that there are several changes before the search goes on with the last of them alone.
BELIEVED = 0.9
# How likely they must be to say which.
WORTH_A_LOOK = 0.02
# What a prior may take from a candidate at most: it costs tests when it is wrong, and hides nothing.
LEAST_WEIGHT = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Probabilities of one change in each place (`mass`), and of none: they add up to 1.

    `tested` are the candidates that answered, in order, and the two ends. Segment s holds the places of the change
    from behind tested[s] up to tested[s + 1]. `before[s, r]` is the probability that the change is in segment s and
    what precedes it fails at RATES[r]; `after` likewise for what follows; `same[r]` that nothing changes.

    Apart from these stand `several`, the probability of three or more changes (the last of them is as good an answer,
    and mostly the same one), and `returned`, that of an even number of them. `states` are the sides (True: new) of the
    tested candidates in the likeliest of these histories, if there may well be one, and `changes` the pairs of tested
    candidates between which these sides change. Where several changes are as good as certain, `tested` begins at the
    last old candidate, `several` is 0, and `last_of_several` is True.

    `against_same[p]` says how many times likelier the answers are with one change and the p-th pair of rates than with
    none (averaged over the places of the change, and over the rates where nothing changes).
    """

    tested: tuple[int, ...]
    before: Floats
    after: Floats
    same: Floats
    against_same: Floats
    several: float = 0.0
    returned: float = 0.0
    states: tuple[bool, ...] = ()
    last_of_several: bool = False
    changes: tuple[tuple[int, int], ...] = ()

    @property
    def others(self) -> tuple[tuple[int, int], ...]:
        """The changes beside the best one, where it is likelier than not that there are several."""
        if self.last_of_several:
            return self.changes[:-1]
        return self.changes if max(self.several, self.returned) > 0.5 else ()

    @property
    def mass(self) -> Floats:
        """The probability of each segment."""
        return np.asarray(self.before.sum(axis=1))

    @property
    def nothing(self) -> float:
        """The probability that the ends do not differ."""
        return float(self.same.sum()) * (1 - self.several - self.returned) + self.returned

    def overlooked(self, least: float) -> float:
        """How many times likelier the answers are with a change of rates by `least` or more than without a change.

        That is with the pair of rates that fits best. A search that calls ends the same only once this is below 0.05
        does so in at most 5% of the histories with any such pair, however often it looks (Ville's inequality).
        """
        counted = self.against_same[least - GRID <= DIFFERENCE]
        return float(counted.max()) if len(counted) else 0.0

    @property
    def best(self) -> int:
        """The likeliest segment."""
        return int(self.mass.argmax())

    def sides(self, segment: int) -> tuple[int, int]:
        """The two tested candidates around a segment."""
        return self.tested[segment], self.tested[segment + 1]

    def rises(self, segment: int) -> bool:
        """Whether what follows a change in this segment fails more often than what precedes it."""
        return bool(self.after[segment] @ RATES >= self.before[segment] @ RATES)


def place_weights(size: int, weights: Weights | None) -> Floats:
    """How likely each candidate is to be the first new one, index 0 (which cannot be) included with 0; sums to 1.

    Raises ValueError unless there is one finite weight, not below 0, for each candidate, and one of them above 0.
    """
    given = np.ones(size) if weights is None else np.array(weights, dtype=float)
    if len(given) != size or not all(isfinite(w) and w >= 0 for w in given) or not given[1:].sum() > 0:
        raise ValueError(f"{size} candidates need as many weights, none of them below 0")
    places: Floats = np.maximum(given, given[1:].mean() * LEAST_WEIGHT)
    places[0] = 0
    return np.asarray(places / places.sum())


def believe(size: int, seen: Seen, places: Floats) -> Belief:
    """The belief after `seen`, with `places` from `place_weights`."""
    tested = sorted({0, *answered(seen), size - 1})
    good = np.array([seen[i].good for i in tested], dtype=float)
    bad = np.array([seen[i].bad for i in tested], dtype=float)
    as_old = np.outer(good, LOG_GOOD[BEFORE]) + np.outer(bad, LOG_BAD[BEFORE])
    as_new = np.outer(good, LOG_GOOD[AFTER]) + np.outer(bad, LOG_BAD[AFTER])
    widths = np.log(np.diff(np.cumsum(places)[tested]))
    one = _one_change(as_old, as_new, widths) + np.log(ONE_CHANGE)
    none = LOG_ALONE + good.sum() * LOG_GOOD + bad.sum() * LOG_BAD + np.log(NO_CHANGE)
    more = Several()
    if contradictions(seen) or len(changes(steady_answers(seen))) > 1:
        more = several_changes(as_old, as_new, widths)
    top = max(float(one.max()), float(none.max()), more.odd, more.even)
    joint, same = np.exp(one - top), np.exp(none - top)
    odd, even = np.exp(more.odd - top), np.exp(more.even - top)
    total = float(joint.sum() + same.sum())
    states: tuple[bool, ...] = ()
    if max(odd, even) > WORTH_A_LOOK * (total + odd + even):
        states = likeliest(as_old[:, more.pair], as_new[:, more.pair], widths, more.number)
    belief = Belief(
        tuple(tested),
        joint @ OF_BEFORE / total,
        joint @ OF_AFTER / total,
        same / total,
        _against(joint, same),
        float(odd / (total + odd + even)),
        float(even / (total + odd + even)),
        states,
        changes=_switches(tested, states),
    )
    if belief.several < BELIEVED:
        return belief
    return _last_change(belief, as_old, as_new, widths)


def _against(joint: Floats, same: Floats) -> Floats:
    """How many times likelier the answers are with each pair of rates than without a change."""
    pairs = joint.sum(axis=0) / (np.exp(LOG_PAIRS) * ONE_CHANGE)
    return np.asarray(pairs / max(float(same.sum()) / NO_CHANGE, 1e-300))


def _one_change(as_old: Floats, as_new: Floats, widths: Floats) -> Floats:
    """The log probability of each segment with each pair of rates, up to a constant."""
    old = np.cumsum(as_old, axis=0)[:-1]
    new = np.cumsum(as_new[::-1], axis=0)[::-1][1:]
    return np.asarray(old + new + widths[:, None] + LOG_PAIRS)


def _last_change(belief: Belief, as_old: Floats, as_new: Floats, widths: Floats) -> Belief:
    """The belief about the last of several changes: what lies before it only tells about the rates."""
    switches = [i for i in range(len(belief.states) - 1) if belief.states[i] != belief.states[i + 1]]
    start = switches[-2] + 1
    states = np.array(belief.states[:start])[:, None]
    known = np.where(states, as_new[:start], as_old[:start]).sum(axis=0)
    log = _one_change(as_old[start:], as_new[start:], widths[start:]) + known
    joint = np.exp(log - log.max())
    joint /= joint.sum()
    return Belief(
        belief.tested[start:],
        joint @ OF_BEFORE,
        joint @ OF_AFTER,
        np.zeros(len(RATES)),
        np.zeros(len(BEFORE)),
        states=belief.states[start:],
        last_of_several=True,
        changes=belief.changes,
    )


def _switches(tested: Sequence[int], states: Sequence[bool]) -> tuple[tuple[int, int], ...]:
    return tuple((tested[i], tested[i + 1]) for i in range(len(states) - 1) if states[i] != states[i + 1])
