"""How far the search can be believed: at rates of failure that nobody chose, and with a prior, right or wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from benchmarks.search_bench import AIM, Bench, Done, costs, share
from benchmarks.search_histories import History, no_change, one_change, random_rates, simple

# The bounds of the cells that histories are counted in: by the difference of the rates, and by the stated confidence.
DIFFERENCES = (0.1, 0.15, 0.2, 0.35, 0.6, 1.01)
STATED = (0.95, 0.995, 0.9975, 0.999, 1.0)


def mixed(size: int, rng: random.Random) -> History:
    """No change in 40%, flaky at a rate between 0.02 and 0.5; else a change of rates by 0.1 or more."""
    if rng.random() < 0.4:
        return no_change(rng, size, (0.02, 0.5))
    return one_change(rng, size, random_rates(rng, DIFFERENCES[0]))


def any_rates(bench: Bench) -> None:
    """What is told of histories with and without a change at random rates, and what the stated confidence is worth."""
    done = bench.run("ours", partial(mixed, bench.size), "mixed")
    changed = [d for d in done if d.history.changes]
    print(f"\n40% without a change, the others at random rates, {bench.size} candidates, rarest {AIM.rarest:g}")
    shares = f"{'right':>6} {'wrong':>6} {'same':>6} {'none':>6}"
    print(f"{'rates differ by':<17} {'n':>5} {shares} {'tests':>12} {'builds':>11}")
    _told("nothing changed", [d for d in done if not d.history.changes])
    for least, below in pairwise(DIFFERENCES):
        _told(f"{least:g} to {min(below, 1):g}", [d for d in changed if least <= _difference(d) < below])
    _told(f"{AIM.rarest:g} and more", [d for d in changed if _difference(d) >= AIM.rarest])
    _told("all", done)
    print(f"\n{'stated confidence':<17} {'n':>5} {'mean':>6} {'right':>6}")
    for least, below in pairwise(STATED):
        _stated(f"{least:g} to {below:g}", [d for d in done if least <= (d.told.confidence or 0) < below])
    _stated("all", [d for d in done if d.told.confidence is not None])
    same = [d for d in done if d.told.result == "same"]
    print(f"{'told: the same':<17} {len(same):5d} {'':>6} {share(d.right for d in same):6.3f}")


def weighted(bench: Bench) -> None:
    """What a prior saves when it is right, and costs when it is wrong."""
    print(f"\nA tenth of {bench.size} candidates thought 50 times as likely; wrong: the true one thought impossible")
    print(f"{'rates':>8}  {'method':<20} {'right':>6} {'wrong':>6} {'tests':>12} {'builds':>11}")
    for new, old in ((1.0, 0.0), (0.5, 0.0), (0.9, 0.1)):
        for method in ("ours", "ours, right weights", "ours, wrong weights"):
            done = bench.run(method, partial(simple, bench.size, (old, new)), f"{new:g}/{old:g}")
            wrong = share(_wrong(d) for d in done)
            right = share(d.right for d in done)
            print(f"{f'{new:g}/{old:g}':>8}  {method:<20} {right:6.3f} {wrong:6.3f} {costs(done)}", flush=True)


def _told(name: str, done: Sequence[Done]) -> None:
    counted: tuple[Callable[[Done], bool], ...] = (
        lambda d: d.right,
        _wrong,
        lambda d: d.told.result == "same" and not d.right,
        lambda d: d.told.result == "inconclusive",
    )
    shares = " ".join(f"{share(map(each, done)):6.3f}" for each in counted)
    print(f"{name:<17} {len(done):5d} {shares} {costs(done)}", flush=True)


def _stated(name: str, done: Sequence[Done]) -> None:
    mean = sum(d.told.confidence or 0 for d in done) / max(len(done), 1)
    print(f"{name:<17} {len(done):5d} {mean:6.4f} {share(d.right for d in done):6.4f}", flush=True)


def _wrong(done: Done) -> bool:
    return done.told.first_new is not None and not done.right


def _difference(done: Done) -> float:
    old, new = done.history.fails
    return abs(new - old)
