"""One simulated search after the other: what was told, what it cost, and the cells they are counted in."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from benchmarks.search_histories import History, Runs, Told, right_weights, summary, wrong_weights
from benchmarks.search_methods import Method, git_bayesect, ours, plain
from bisect_bot.search import Aim, Prices

BUILD, RUN = 20.0, 1.0
AIM = Aim(confidence=0.95, rarest=0.2)

METHODS: dict[str, Method | None] = {
    "ours": ours(AIM, Prices(BUILD, RUN)),
    "ours, builds free": ours(AIM, Prices(0.0, RUN)),
    "ours, 8 known": ours(AIM, Prices(BUILD, RUN), known=8),
    "ours, right weights": ours(AIM, Prices(BUILD, RUN), weigh=right_weights),
    "ours, wrong weights": ours(AIM, Prices(BUILD, RUN), weigh=wrong_weights),
    "git-bayesect": git_bayesect(),
    "plain bisection": plain(),
    "5 runs, any bad": plain(5),
}

# Methods that begin with more than the ends: not compared with the others.
OTHER_STARTS = ("ours, 8 known", "ours, right weights", "ours, wrong weights")

Make = Callable[[random.Random], History]


@dataclass(frozen=True)
class Done:
    """One search of one history."""

    history: History
    told: Told
    tests: int
    built: frozenset[int]
    shows_more: bool
    odds_of_more: bool

    @property
    def right(self) -> bool:
        """The last change was named, or it was said that there is none."""
        changes = self.history.changes
        return self.told.first_new == changes[-1] if changes else self.told.result == "same"

    @property
    def seconds(self) -> float:
        """What it took in units of a run."""
        return len(self.built) * BUILD + self.tests * RUN


def search(method: str, make: Make, seed: str, number: int) -> Done:
    """One search. Every method gets the same histories."""
    history = make(random.Random(f"{seed} {number}"))
    runs = Runs(history, random.Random(f"{seed} {number} {method}"))
    chosen = METHODS[method]
    assert chosen is not None
    told = chosen(runs)
    return Done(history, told, runs.tests, runs.built, runs.shows_more, runs.odds_of_more)


@dataclass(frozen=True)
class Bench:
    """How much is simulated. `run` searches all histories of a cell."""

    histories: int
    size: int
    seed: str
    jobs: int
    kept: dict[tuple[str, str], list[Done]] = field(default_factory=dict)

    def run(self, method: str, make: Make, name: str) -> list[Done]:
        """All searches of a cell, whose `name` stands for what `make` makes."""
        if (method, name) not in self.kept:
            one = partial(search, method, make, f"{self.seed} {name}")
            with ProcessPoolExecutor(self.jobs) as pool:
                self.kept[method, name] = list(pool.map(one, range(self.histories), chunksize=10))
        return self.kept[method, name]

    def methods(self) -> Iterator[str]:
        """The methods that can be run here."""
        return (name for name, method in METHODS.items() if method is not None and name not in OTHER_STARTS)


def share(flags: Iterable[bool]) -> float:
    """The share that is true."""
    values = list(flags)
    return sum(values) / len(values) if values else float("nan")


def costs(done: Sequence[Done]) -> str:
    """Tests and builds, mean and 95th percentile."""
    return f"{summary([d.tests for d in done]):>12} {summary([len(d.built) for d in done]):>11}"
