"""How likely an untested candidate is to be skipped, by the skips around it.

What does not build comes alone or in runs of unknown length. A run seen to be n long is thought to go on for about as
much again on either side, so each further skip doubles the step away from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from bisect_bot.search.rates import Floats

# A candidate far from all skips; one next to a skip; one between two skips of the same run.
ANYWHERE = 0.05
BESIDE = 0.6
INSIDE = 0.9
# Skips at most this many lengths of the run apart are thought to be of one run.
REACH = 12


def chance_to_answer(places: Sequence[int], skipped: Iterable[int]) -> Floats:
    """The probability that each of the untested `places` can be tested, with these candidates `skipped` (in order)."""
    at = np.asarray(places)
    chance = np.full(len(at), 1 - ANYWHERE)
    for first, last in _runs(skipped):
        length = last - first + 1
        distance = np.maximum(first - at, at - last)
        beside = BESIDE * 0.5 ** ((np.maximum(distance, 1) - 1) / length)
        chance *= 1 - np.where(distance > 0, beside, INSIDE)
    return chance


def _runs(skipped: Iterable[int]) -> list[tuple[int, int]]:
    """Skips that are thought to belong together, as their first and last."""
    runs: list[tuple[int, int]] = []
    for index in skipped:
        if runs and index - runs[-1][1] <= REACH * (runs[-1][1] - runs[-1][0] + 1):
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs
