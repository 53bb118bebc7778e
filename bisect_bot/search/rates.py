"""How often a candidate fails: the rates that are considered, and how likely each is before anything was seen.

A rate is the probability that one run is bad. It is unknown on either side of a change, so every likelihood is
summed over a grid of rates. None of them is exactly 0 or 1: a single freak answer refutes nothing.
"""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Each rate with its weight on the side that fails less, on the side that fails more, and where nothing changes.
# Most failures come every time, and most passes too. Between these, the passing side is thought to fail seldom, the
# failing side and a range without a change at any rate.
_TABLE = (
    (0.001, 0.700, 0.000, 0.400),
    (0.005, 0.030, 0.000, 0.025),
    (0.010, 0.030, 0.000, 0.025),
    (0.020, 0.040, 0.000, 0.030),
    (0.050, 0.060, 0.004, 0.035),
    (0.100, 0.050, 0.016, 0.035),
    (0.150, 0.025, 0.020, 0.035),
    (0.200, 0.025, 0.030, 0.035),
    (0.300, 0.025, 0.035, 0.035),
    (0.400, 0.018, 0.035, 0.035),
    (0.500, 0.014, 0.040, 0.035),
    (0.600, 0.008, 0.040, 0.020),
    (0.700, 0.005, 0.040, 0.015),
    (0.800, 0.002, 0.050, 0.015),
    (0.900, 0.001, 0.060, 0.015),
    (0.950, 0.001, 0.040, 0.010),
    (0.980, 0.000, 0.020, 0.010),
    (0.990, 0.000, 0.020, 0.010),
    (0.999, 0.000, 0.550, 0.180),
)
RATES: Floats = np.array([row[0] for row in _TABLE])
_BELOW, _ABOVE, _ALONE = (np.array([row[i] for row in _TABLE]) for i in (1, 2, 3))

# Rates closer than this are called the same: to tell them apart takes more runs than anybody waits for.
MIN_DIFFERENCE = 0.09
MIN_ODDS_RATIO = 2.0

LOG_BAD: Floats = np.log(RATES)
LOG_GOOD: Floats = np.log1p(-RATES)
LOG_ALONE: Floats = np.log(_ALONE / _ALONE.sum())


def _pairs() -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """The pairs of rates before and after a change, as places in RATES, and their log weights; either may be higher."""
    odds = RATES / (1 - RATES)
    places = [
        (low, high)
        for low in range(len(RATES))
        for high in range(low + 1, len(RATES))
        if RATES[high] - RATES[low] >= MIN_DIFFERENCE and odds[high] / odds[low] >= MIN_ODDS_RATIO
    ]
    kept = [(low, high, float(_BELOW[low] * _ABOVE[high])) for low, high in places if _BELOW[low] * _ABOVE[high] > 0]
    both = [(low, high, weight) for low, high, weight in kept] + [(high, low, weight) for low, high, weight in kept]
    weights = np.array([weight for _, _, weight in both])
    before, after = np.array([pair[0] for pair in both]), np.array([pair[1] for pair in both])
    return before, after, np.log(weights / weights.sum())


BEFORE, AFTER, LOG_PAIRS = _pairs()
# By how much the rates of a pair differ. Rates that differ by so much less fall on the same places of the grid.
DIFFERENCE: Floats = np.abs(RATES[BEFORE] - RATES[AFTER])
GRID = 0.025
# To sum over the pairs that have the same rate before, or after.
OF_BEFORE: Floats = np.eye(len(RATES))[BEFORE]
OF_AFTER: Floats = np.eye(len(RATES))[AFTER]


@cache
def chances(runs: int) -> Floats:
    """The probability of 0 to `runs` bad ones among that many runs: a row for each rate."""
    ways = np.array([comb(runs, bad) for bad in range(runs + 1)], dtype=float)
    bad = np.arange(runs + 1)
    table: Floats = ways * RATES[:, None] ** bad * (1 - RATES[:, None]) ** (runs - bad)
    table.flags.writeable = False
    return table
