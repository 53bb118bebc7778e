"""The methods that are compared: each asks for runs until it says where the change is."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from benchmarks.search_histories import History, Runs, Told
from bisect_bot.model import Outcome
from bisect_bot.search import Aim, Evidence, Prices, Test, next_action

Method = Callable[[Runs], Told]


def ours(aim: Aim, prices: Prices, known: int = 0, weigh: Callable[[History], list[float]] | None = None) -> Method:
    """Our search, begun with one answer of each of `known` candidates at equal distances (a half-done bisection).

    `weigh` says how likely each candidate is thought to be, knowing the truth.
    """

    def method(runs: Runs) -> Told:
        size = runs.history.size
        before = [size * (i + 1) // (known + 1) for i in range(known)]
        evidence = [Evidence(index, runs.answer(index)) for index in before]
        weights = None if weigh is None else weigh(runs.history)
        while isinstance(action := next_action(size, evidence, aim=aim, prices=prices, weights=weights), Test):
            evidence.append(Evidence(action.index, runs.answer(action.index)))
        named = action.result.value in ("found", "range")
        return Told(
            action.result.value,
            action.first_new if named else None,
            action.last_old if named else None,
            bool(action.other_changes),
            action.confidence,
        )

    return method


def plain(times: int = 1) -> Method:
    """Bisection over ends that are tested too; of `times` runs of a candidate any failure counts (1: plain)."""

    def method(runs: Runs) -> Told:
        size = runs.history.size

        def bad(index: int) -> bool | None:
            for _ in range(times):
                outcome = runs.answer(index)
                if outcome is not Outcome.GOOD:
                    return None if outcome is Outcome.SKIP else True
            return False

        old, new = bad(0), bad(size - 1)
        if old is new:
            return Told("same")
        last_old, first_new = git_bisect(size, lambda index: None if (b := bad(index)) is None else b is new)
        return Told("found" if first_new == last_old + 1 else "range", first_new, last_old)

    return method


def git_bayesect(confidence: float = 0.95, most: int = 2000) -> Method | None:
    """The Bisector of PyPI's git-bayesect with its defaults, stopped as its `run` stops; None when not installed."""
    try:
        module: Any = importlib.import_module("git_bayesect")
    except ImportError:
        return None

    def method(runs: Runs) -> Told:
        size = runs.history.size
        # Its index 0 is the newest commit, and its answer the oldest commit with the new behaviour.
        bisector = module.Bisector(np.ones(size))
        while bisector.distribution.max() < confidence and runs.tests < most:
            index = int(bisector.select())
            outcome = runs.answer(size - 1 - index)
            bisector.record(index, None if outcome is Outcome.SKIP else outcome is Outcome.BAD)
        if bisector.distribution.max() < confidence:
            return Told("inconclusive")
        first_new = size - 1 - int(bisector.distribution.argmax())
        return Told("found", first_new, first_new - 1)

    return method


def git_bisect(size: int, is_new: Callable[[int], bool | None]) -> tuple[int, int]:
    """The two tested sides of the change that `git bisect` ends with on a linear history whose ends it believes.

    After bisect.c (`managed_skipped`, `skip_away`): the commit that halves best, or, when that one was
    skipped, one at a pseudo-random place in the list of the others, best first.
    """
    last_old, first_new, tried = 0, size - 1, set[int]()
    while True:
        total = first_new - last_old
        ranked = sorted(range(last_old + 1, first_new + 1), key=lambda i: (-min(i - last_old, first_new - i), i))
        left = [i for i in ranked if i not in tried]
        index = left[0] if ranked[0] not in tried else _skip_away(left, first_new)
        if index == first_new:
            return last_old, first_new
        assert total > 1
        new = is_new(index)
        if new is None:
            tried.add(index)
        elif new:
            first_new = index
        else:
            last_old = index


def _skip_away(left: list[int], first_new: int) -> int:
    modulo = 32768
    number = ((len(left) * 1103515245 + 12345) // 65536) % modulo
    place = (len(left) * number // modulo) * isqrt(number) // isqrt(modulo)
    if left[place] != first_new:
        return left[place]
    return left[place - 1] if place else left[0]
