"""What the search costs and how often it is right, on simulated histories, beside other methods.

Run: python -m benchmarks.search [--histories 300] [--seed 1] [--jobs 1] [--only rates,none,…]

Ends and confirmations count. `tests` is every run of a case, `builds` the different candidates that were needed for
them; both are a mean and the 95th percentile. git-bayesect is compared when it is installed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.search_bench import AIM, BUILD, METHODS, RUN, Bench, Done, costs, share
from benchmarks.search_doubt import any_rates, weighted
from benchmarks.search_histories import (
    History,
    Runs,
    in_runs,
    no_change,
    one_change,
    scattered,
    simple,
    summary,
    three_changes,
    untestable_gap,
)
from bisect_bot.model import Outcome
from bisect_bot.search import Evidence, Prices, Test, groups, next_action, next_together

RATES = ((1.0, 0.0), (0.5, 0.0), (0.2, 0.0), (1.0, 0.05), (0.9, 0.1))
OTHER_RATES = (
    (0.8, 0.0),
    (0.3, 0.0),
    (0.1, 0.0),
    (0.95, 0.02),
    (1.0, 0.3),
    (0.6, 0.2),
    (0.7, 0.3),
    (0.05, 0.9),
    (0.0, 0.5),
)

# --- kinds of histories -------------------------------------------------------------------------


def unchanged(size: int, rng: random.Random) -> History:
    """No change, a flake rate between 0.02 and 0.5."""
    return no_change(rng, size, (0.02, 0.5))


def several(size: int, fails: tuple[float, float], rng: random.Random) -> History:
    """A culprit, its fix, another culprit."""
    return three_changes(rng, size, fails)


def untestable(size: int, fails: tuple[float, float], kind: str, rng: random.Random) -> History:
    """One change, and candidates that do not build."""
    skipped = scattered(rng, size, 0.2) if kind == "20% at random" else in_runs(rng, size, 30)
    return History(size, (rng.randrange(1, size),), fails, skipped)


# --- tables -------------------------------------------------------------------------------------


def rates(bench: Bench, cells: Sequence[tuple[float, float]], only: str = "") -> None:
    """Accuracy and costs by rates of failure."""
    print(f"\nP(fail) new/old, {bench.size} candidates, one change")
    print(
        f"{'rates':>9}  {'method':<18} {'right':>6} {'wrong':>6} {'same':>6} {'none':>6} {'tests':>12} {'builds':>11}"
    )
    for new, old in cells:
        name = f"{new:g}/{old:g}"
        for method in bench.methods():
            if only and method != only:
                continue
            done = bench.run(method, partial(simple, bench.size, (old, new)), name)
            shares = [
                share(d.right for d in done),
                share(d.told.first_new is not None and not d.right for d in done),
                share(d.told.result == "same" for d in done),
                share(d.told.result == "inconclusive" for d in done),
            ]
            told = " ".join(f"{each:6.3f}" for each in shares)
            print(f"{name:>9}  {method:<18} {told} {costs(done)}", flush=True)


def nothing_changed(bench: Bench) -> None:
    """Ranges without a change."""
    print(f"\nNo change at all, both ends fail in 2% to 50% of the runs, {bench.size} candidates")
    print(f"{'method':<18} {'culprit':>8} {'same':>6} {'none':>6} {'tests':>12} {'builds':>11}")
    for method in bench.methods():
        done = bench.run(method, partial(unchanged, bench.size), "none")
        culprit, same = share(d.told.first_new is not None for d in done), share(d.right for d in done)
        rest = share(d.told.result == "inconclusive" for d in done)
        print(f"{method:<18} {culprit:8.3f} {same:6.3f} {rest:6.3f} {costs(done)}", flush=True)


def unbuildable(bench: Bench) -> None:
    """Candidates that cannot be tested."""
    print(
        f"\nUnbuildable candidates, {bench.size} candidates: the truth inside what is reported, and never a wider range"
    )
    print(f"{'kind':<14} {'rates':>8}  {'method':<18} {'inside':>7} {'too wide':>9} {'tests':>12} {'builds':>11}")
    for kind in ("20% at random", "runs of 30"):
        for new, old in ((1.0, 0.0), (0.9, 0.1), (0.5, 0.0)):
            for method in ("ours", "plain bisection"):
                done = bench.run(method, partial(untestable, bench.size, (old, new), kind), f"{kind} {new}/{old}")
                inside = share(_inside(d) for d in done)
                wide = sum(_wider(d) for d in done)
                print(
                    f"{kind:<14} {f'{new:g}/{old:g}':>8}  {method:<18} {inside:7.3f} {wide:9d} {costs(done)}",
                    flush=True,
                )


def _inside(done: Done) -> bool:
    told = done.told
    if told.last_old is None or told.first_new is None:
        return False
    return told.last_old < done.history.changes[-1] <= told.first_new


def _wider(done: Done) -> bool:
    told, gap = done.told, untestable_gap(done.history)
    if told.last_old is None or told.first_new is None:
        return False
    between = range(told.last_old + 1, told.first_new)
    return _inside(done) and ((told.last_old, told.first_new) != gap or not set(between) <= done.history.skipped)


def many_cases(bench: Bench) -> None:
    """Ten cases with three culprits, beside one case."""
    one, three = list[int](), list[int]()
    right = 0
    for number in range(bench.histories):
        rng = random.Random(f"{bench.seed} cases {number}")
        culprits = [rng.randrange(1, bench.size) for _ in range(3)]
        places = culprits + [rng.choice(culprits) for _ in range(7)]
        one.append(len(_together(bench.size, places[:1])[0]))
        built, found = _together(bench.size, places)
        three.append(len(built))
        right += found == len(set(culprits))
    print(f"\n10 cases with 3 culprits, {bench.size} candidates, ends included")
    print(f"builds of one culprit {summary(one)}, of three {summary(three)}: x {sum(three) / sum(one):.2f}")
    print(f"groups right: {right / bench.histories:.3f}")


def _together(size: int, places: Sequence[int]) -> tuple[set[int], int]:
    evidences: list[list[Evidence]] = [[] for _ in places]
    built: set[int] = set()
    while isinstance(action := next_together(size, evidences, aim=AIM, prices=Prices(BUILD, RUN)), Test):
        built.add(action.index)
        for evidence, place in zip(evidences, places, strict=True):
            evidence.append(Evidence(action.index, Outcome.BAD if action.index >= place else Outcome.GOOD))
    found = groups(action)
    assert all(group.first_new == places[case] for group in found for case in group.cases)
    return built, len(found)


def more_than_one(bench: Bench) -> None:
    """Two culprits with a fix between them.

    `could show`: the tested candidates lie on sides that change more than once, by what they mostly answered too (also
    by a single run). `odds 20:1`: the answers are so much likelier with the true sides than with any single change.
    """
    print(f"\nTwo culprits with a fix between them, {bench.size} candidates")
    said = f"{'could show':>11} {'and said':>9} {'odds 20:1':>10} {'and said':>9}"
    head = f"{'method':<14} {'rates':>8} {'named':>6} {'a true one':>11} {said}"
    print(f"{head} {'tests':>12} {'builds':>11}")
    for method in ("ours", "ours, 8 known"):
        for new, old in ((1.0, 0.0), (0.95, 0.02), (0.9, 0.1), (0.5, 0.0)):
            done = bench.run(method, partial(several, bench.size, (old, new)), f"several {new}/{old}")
            named = [d for d in done if d.told.first_new is not None]
            true = share(d.told.first_new in d.history.changes[::2] for d in named)
            row = f"{method:<14} {f'{new:g}/{old:g}':>8} {len(named):6d} {true:11.3f}"
            for shown, width in (([d for d in done if d.shows_more], 11), ([d for d in done if d.odds_of_more], 10)):
                row += f" {len(shown):{width}d} {share(d.told.more for d in shown):9.3f}"
            print(f"{row} {costs(done)}", flush=True)


def wall_time(bench: Bench) -> None:
    """With builds 20 times the price of a run, beside methods that minimise runs alone."""
    others = [name for name in ("ours, builds free", "git-bayesect") if METHODS[name] is not None]
    print(f"\nSimulated time in runs, a build = {BUILD:g} runs, beside methods that minimise runs alone")
    print(f"{'rates':>8} {'ours':>8}" + "".join(f"{name:>20}" for name in others))
    totals = dict.fromkeys(["ours", *others], 0.0)
    for new, old in RATES:
        make, name = partial(simple, bench.size, (old, new)), f"{new:g}/{old:g}"
        means = {m: statistics.mean(d.seconds for d in bench.run(m, make, name)) for m in totals}
        totals = {m: totals[m] + means[m] for m in totals}
        _times(name, means)
    _times("all", totals)


def _times(name: str, means: dict[str, float]) -> None:
    ours, *others = means.values()
    print(f"{name:>8} {ours:8.0f}" + "".join(f"{each:10.0f} ({ours / each - 1:+6.1%})" for each in others), flush=True)


def timing(bench: Bench) -> None:
    """The time of one decision among 4,096 candidates."""
    times = list[float]()
    for number, fails in enumerate(((0.0, 1.0), (0.0, 0.5), (0.1, 0.9))):
        rng = random.Random(f"{bench.seed} timing {number}")
        runs = Runs(one_change(rng, 4096, fails), rng)
        evidence = list[Evidence]()
        while True:
            begin = time.process_time()
            action = next_action(4096, evidence, aim=AIM, prices=Prices(BUILD, RUN))
            times.append(time.process_time() - begin)
            if not isinstance(action, Test):
                break
            evidence.append(Evidence(action.index, runs.answer(action.index)))
    spent = sorted(1000 * t for t in times)
    print(f"\n4,096 candidates, {len(spent)} decisions: mean {statistics.mean(spent):.1f} ms, most {spent[-1]:.1f} ms")


TABLES: dict[str, Callable[[Bench], None]] = {
    "rates": lambda bench: rates(bench, RATES),
    "none": nothing_changed,
    "unbuildable": unbuildable,
    "cases": many_cases,
    "several": more_than_one,
    "wall": wall_time,
    "timing": timing,
    "mixed": any_rates,
    "weights": weighted,
    "other": lambda bench: rates(bench, OTHER_RATES, "ours"),
}


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=300, help="a cell (default 300)")
    parser.add_argument("--size", type=int, default=128, help="candidates (default 128)")
    parser.add_argument("--seed", default="20241107")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default=",".join(TABLES), help=f"tables, of {','.join(TABLES)}")
    words = parser.parse_args()
    bench = Bench(words.histories, words.size, words.seed, words.jobs)
    print(f"{bench.histories} histories a cell, seed {bench.seed}; tests and builds: mean / 95th percentile")
    if METHODS["git-bayesect"] is None:
        print("git-bayesect is not installed (pip install git-bayesect): it is left out")
    for name in words.only.split(","):
        TABLES[name](bench)


if __name__ == "__main__":
    main()
