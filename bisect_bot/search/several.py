"""Histories that change more than once: how likely they are, and the likeliest of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np

from bisect_bot.search.rates import LOG_PAIRS, Floats

# How likely a number of changes is before anything was seen. An even number leaves the ends alike.
CHANGES = {2: 0.02, 3: 0.05, 4: 0.003, 5: 0.007}
_MOST = max(CHANGES)


@dataclass(frozen=True, slots=True)
class Several:
    """The log probabilities of an odd number of changes above 1 and of an even one, up to the constant of `belief`.

    `number` and `pair` (of rates) are those of the likeliest history of the likelier of the two.
    """

    odd: float = -np.inf
    even: float = -np.inf
    number: int = 0
    pair: int = 0


def several_changes(as_old: Floats, as_new: Floats, widths: Floats) -> Several:
    """What speaks for several changes.

    `as_old[i, p]` is the log likelihood of the answers of the i-th tested candidate if it is on the old side, with
    the p-th pair of rates, `as_new` likewise; `widths` the log prior probability of each segment between them.
    """
    # The probability of a number of changes up to the candidate (a row each), with each pair of rates.
    sums = np.full((_MOST + 1, as_old.shape[1]), -np.inf)
    sums[0] = as_old[0]
    for i in range(1, len(as_old)):
        sums[1:] = np.logaddexp(sums[1:], sums[:-1] + widths[i - 1])
        sums[::2] += as_old[i]
        sums[1::2] += as_new[i]
    logs = {n: sums[n] + LOG_PAIRS + np.log(share * factorial(n)) for n, share in CHANGES.items()}
    odd, even = (
        float(np.logaddexp.reduce(np.concatenate([logs[n] for n in logs if n % 2 == rest]))) for rest in (1, 0)
    )
    likelier = [n for n in logs if n % 2 == (odd >= even)]
    number = max(likelier, key=lambda n: float(logs[n].max()))
    return Several(odd, even, number, int(logs[number].argmax()))


def likeliest(as_old: Floats, as_new: Floats, widths: Floats, number: int) -> tuple[bool, ...]:
    """The sides (True: new) of the tested candidates in the likeliest history with `number` changes.

    `as_old` and `as_new` are for one pair of rates. Expects more candidates than changes.
    """
    best = np.full(number + 1, -np.inf)
    best[0] = as_old[0]
    came = np.zeros((len(as_old), number + 1), dtype=bool)
    for i in range(1, len(as_old)):
        changed = np.concatenate([[-np.inf], best[:-1] + widths[i - 1]])
        came[i] = changed > best
        best = np.maximum(best, changed)
        best[::2] += as_old[i]
        best[1::2] += as_new[i]
    at, states = number, list[bool]()
    for i in range(len(as_old) - 1, -1, -1):
        states.append(at % 2 == 1)
        at -= int(came[i, at])
    return tuple(reversed(states))
