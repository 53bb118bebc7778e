"""Several cases over the same candidates: one test answers all of them, so it is chosen for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bisect_bot.model import Result
from bisect_bot.search.bisection import State
from bisect_bot.search.gains import RUNS, Gains, rates_of_gain
from bisect_bot.search.rates import Floats
from bisect_bot.search.tally import Tally
from bisect_bot.search.types import Aim, Conclusion, Evidence, Prices, Purpose, Test, Weights

# What a re-test that a case must have anyway counts for, in bits: about as much a second as a build that halves.
A_RETEST = 0.05


@dataclass(frozen=True, slots=True)
class Group:
    """Cases (by their place in what was given) that change at the same boundary: one culprit."""

    last_old: int
    first_new: int
    cases: tuple[int, ...]


def next_together(
    size: int,
    evidences: Sequence[Sequence[Evidence]],
    *,
    aim: Aim | None = None,
    prices: Prices | None = None,
    weights: Weights | None = None,
    within: int | None = None,
) -> Test | tuple[Conclusion, ...]:
    """The next test for several cases that are run in one, or the conclusion of each when none wants a further one.

    `evidences` holds what is believed of each case; the rest is as for `next_action`, to which it comes down for a
    single case. A candidate counts as built when any case has an answer of it. The test that is asked for tells most a
    second in the sum of all cases; one whose ends do not differ is concluded, and the others go on. Raises ValueError
    as `next_action` does, and without a case.
    """
    if not evidences:
        raise ValueError("a search needs a case")
    states = [State(size, each, aim or Aim(), prices or Prices(), weights, within) for each in evidences]
    actions = [state.steady() or state.doubtful() for state in states]
    wishes = [(state, action) for state, action in zip(states, actions, strict=True) if isinstance(action, Test)]
    if not wishes:
        return tuple(action for action in actions if isinstance(action, Conclusion))
    tests = [test for _, test in wishes]
    ends = [test for test in tests if test.purpose is Purpose.END]
    if len({test.index for test in tests}) == 1:
        return tests[0]
    if ends:
        return ends[0]
    return _for_the_sum(size, states, wishes)


def groups(conclusions: Sequence[Conclusion | None]) -> tuple[Group, ...]:
    """The cases that share a boundary (or a range) exactly, in the order of the candidates. Others are left out."""
    found: dict[tuple[int, int], list[int]] = {}
    for case, each in enumerate(conclusions):
        if each is None or each.result not in (Result.FOUND, Result.RANGE):
            continue
        assert each.last_old is not None and each.first_new is not None
        found.setdefault((each.last_old, each.first_new), []).append(case)
    return tuple(Group(*sides, tuple(cases)) for sides, cases in sorted(found.items()))


def _for_the_sum(size: int, states: Sequence[State], wishes: Sequence[tuple[State, Test]]) -> Test:
    """The test that tells most a second in the sum of the cases that wish for one."""
    bits = {runs: np.zeros(size) for runs in RUNS}
    each_bits = [_bits(state, test) for state, test in wishes]
    for each in each_bits:
        for runs in RUNS:
            bits[runs] = bits[runs] + each[runs]
    built = {i: tally for state in states for i, tally in state.seen.items() if tally.answers}
    rates = rates_of_gain(size, built, bits, states[0].prices)
    index = int(rates.argmax())
    served = sum(bool(each[RUNS[0]][index] > 0) for each in each_bits)
    own = next((test.reason for _, test in wishes if test.index == index), "what tells most for its price")
    purpose = Purpose.RETEST if built.get(index, Tally()).answers else Purpose.SEARCH
    return Test(index, purpose, f"{own} (for {served} of {len(wishes)} cases)")


def _bits(state: State, test: Test) -> Gains:
    """The bits that each candidate is good for to a case that wishes for `test`, by the number of runs."""
    if state.consistent and state.differ:
        if test.purpose is Purpose.SEARCH:
            return dict.fromkeys(RUNS, state.halving())
        if state.due_sides():
            return dict.fromkeys(RUNS, _at(state, state.due_sides()))
    told = state.gains()
    # A vote or a missing re-test may tell little about the place, and is wanted all the same.
    floor = _at(state, [test.index])
    return {runs: np.maximum(told[runs], floor) for runs in RUNS}


def _at(state: State, indices: Sequence[int]) -> Floats:
    bits: Floats = np.zeros(state.size)
    bits[list(indices)] = A_RETEST
    return bits
