"""What the search costs on simulated histories, beside `git bisect`. Run: python -m benchmarks.search

Each history changes once, at a random candidate. `tests` counts every run of a case, `built` the different
candidates that had to be built for them. git believes the two ends untested and repeats nothing: `built` of
ours has the two ends on top.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from math import isqrt

from bisect_bot.model import Outcome
from bisect_bot.search import Evidence, Test, next_action

SEED = 20241107
HISTORIES = 60
SIZES = (10, 69, 200, 1000)

Skips = Callable[[random.Random, int], frozenset[int]]


def no_skips(_: random.Random, __: int) -> frozenset[int]:
    """Every candidate can be tested."""
    return frozenset()


def scattered(rng: random.Random, size: int) -> frozenset[int]:
    """One candidate in ten cannot be tested."""
    return frozenset(i for i in range(1, size - 1) if rng.random() < 0.1)


def one_block(rng: random.Random, size: int) -> frozenset[int]:
    """A tenth of the history cannot be tested, all in one run."""
    start = rng.randrange(1, size - size // 10)
    return frozenset(range(start, start + size // 10)) - {size - 1}


def ours(size: int, first_new: int, skipped: frozenset[int]) -> tuple[int, int]:
    """(tests, different candidates) of our search."""
    evidence: list[Evidence] = []
    while isinstance(action := next_action(size, evidence), Test):
        index = action.index
        answer = Outcome.SKIP if index in skipped else Outcome.BAD if index >= first_new else Outcome.GOOD
        evidence.append(Evidence(index, answer))
    return len(evidence), len({piece.index for piece in evidence})


def git_bisect(size: int, first_new: int, skipped: frozenset[int]) -> int:
    """The number of commits that `git bisect` checks out on the same linear history.

    After bisect.c (`managed_skipped`, `skip_away`): the commit that halves best, or, when that one was
    skipped, one at a pseudo-random place in the list of the others, best first.
    """
    good, bad, tried = 0, size - 1, set[int]()
    built = 0
    while True:
        total = bad - good
        ranked = sorted(range(good + 1, bad + 1), key=lambda i: (-min(i - good, total - i + good), i))
        left = [i for i in ranked if i not in tried]
        index = left[0] if ranked[0] not in tried else _skip_away(left, bad)
        if index == bad:
            return built
        built += 1
        if index in skipped:
            tried.add(index)
        elif index >= first_new:
            bad = index
        else:
            good = index


def _skip_away(left: Sequence[int], bad: int) -> int:
    modulo = 32768
    number = ((len(left) * 1103515245 + 12345) // 65536) % modulo
    place = (len(left) * number // modulo) * isqrt(number) // isqrt(modulo)
    if left[place] != bad:
        return left[place]
    return left[place - 1] if place else left[0]


def summary(values: Sequence[int]) -> str:
    """Mean and 95th percentile."""
    return f"{statistics.mean(values):7.1f} {sorted(values)[int(0.95 * (len(values) - 1))]:5d}"


def main() -> None:
    """Prints the table."""
    kinds: tuple[tuple[str, Skips], ...] = (("none", no_skips), ("10% scattered", scattered), ("10% block", one_block))
    print(f"{HISTORIES} histories a row, seed {SEED}; each column: mean, 95th percentile")
    print(f"{'size':>5}  {'skipped':<14} {'tests':>13} {'built':>13} {'git bisect':>13}")
    for size in SIZES:
        for name, skips in kinds:
            rng = random.Random(f"{SEED} {size} {name}")
            planted = [(size, rng.randrange(1, size), skips(rng, size)) for _ in range(HISTORIES)]
            costs = [ours(*history) for history in planted]
            git = summary([git_bisect(*history) for history in planted])
            tests, built = summary([cost[0] for cost in costs]), summary([cost[1] for cost in costs])
            print(f"{size:5d}  {name:<14} {tests:>13} {built:>13} {git:>13}")


if __name__ == "__main__":
    main()
