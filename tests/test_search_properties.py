"""The search by property: what holds for every history, every skip and every piece of extra evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.search_methods import git_bisect
from bisect_bot.model import Outcome, Result
from bisect_bot.search import Aim, Conclusion, Evidence, Prices, Purpose, Test, best_gap, next_action, suspects

DECISIVE = (Outcome.GOOD, Outcome.BAD)
BELIEVABLE = (*DECISIVE, Outcome.SKIP)
SHORT = Aim(patience=40)


# A busy machine is no reason to fail.
pure = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
slow = settings(pure, max_examples=30)


@dataclass(frozen=True)
class History:
    """Candidates that change once, at `first_new`; `skipped` ones (never an end) cannot be tested."""

    size: int
    first_new: int
    skipped: frozenset[int]
    old: Outcome

    def answer(self, index: int) -> Outcome:
        if index in self.skipped:
            return Outcome.SKIP
        return self.old if index < self.first_new else next(o for o in DECISIVE if o is not self.old)


@st.composite
def histories(draw: st.DrawFn, *, skips: bool = True, most: int = 80) -> History:
    size = draw(st.integers(2, most))
    inside = st.integers(1, size - 2) if skips and size > 2 else st.nothing()
    return History(size, draw(st.integers(1, size - 1)), draw(st.frozensets(inside)), draw(st.sampled_from(DECISIVE)))


@st.composite
def heaps_of_evidence(draw: st.DrawFn) -> tuple[int, list[Evidence]]:
    """Any evidence at all, in any order, contradictions included; often with ends that differ."""
    size = draw(st.integers(2, 20))
    settled = draw(st.booleans())
    ends = [Evidence(0, Outcome.GOOD), Evidence(size - 1, Outcome.BAD)] * 2 if settled else []
    within = st.integers(1, size - 2) if settled and size > 2 else st.integers(0, size - 1)
    piece = st.builds(Evidence, within, st.sampled_from(BELIEVABLE))
    return size, ends + draw(st.lists(piece, max_size=20))


def run(
    size: int,
    answer: Callable[[int], Outcome],
    known: list[Evidence],
    *,
    aim: Aim | None = None,
    weights: list[float] | None = None,
    prices: Prices | None = None,
) -> tuple[list[Test], list[Evidence], Conclusion]:
    """All tests up to the conclusion, all evidence then believed, and the conclusion."""
    believed, asked = list(known), list[Test]()
    most = 3 * size + (aim.patience if aim else 20)
    while isinstance(action := next_action(size, believed, aim=aim, weights=weights, prices=prices), Test):
        asked.append(action)
        believed.append(Evidence(action.index, answer(action.index)))
        assert len(asked) <= most, "the search does not end"
    return asked, believed, action


# --- deterministic histories --------------------------------------------------------------------


@settings(pure, max_examples=300)
@given(histories())
def test_any_planted_boundary_is_found_exactly_or_lies_in_a_range_of_skipped_candidates(history: History) -> None:
    _, _, conclusion = run(history.size, history.answer, [])
    assert conclusion.last_old is not None
    assert conclusion.first_new is not None
    assert conclusion.last_old < history.first_new <= conclusion.first_new
    inside = set(range(conclusion.last_old + 1, conclusion.first_new))
    assert inside <= history.skipped
    assert conclusion.result is (Result.RANGE if inside else Result.FOUND)
    assert [index for index, _, _ in conclusion.suspects] == sorted({*inside, conclusion.first_new})
    assert (conclusion.retests_held, conclusion.old) == (True, history.old)
    assert 4 <= conclusion.retests <= 6


@pure
@given(histories(skips=False))
def test_without_skips_nothing_is_built_that_git_bisect_does_not_build_beside_the_ends(history: History) -> None:
    asked, _, _ = run(history.size, history.answer, [])
    built = set[int]()

    def is_new(index: int) -> bool:
        built.add(index)
        return index >= history.first_new

    git_bisect(history.size, is_new)
    assert {test.index for test in asked} == built | {0, history.size - 1}
    assert len(built) <= ceil(log2(history.size - 1)) if history.size > 2 else not built
    assert len(asked) <= len(built) + 2 + 2 + 6, "and a few re-runs of kept ones"


@pure
@given(histories())
def test_nothing_decided_is_asked_again_but_ends_and_sides(history: History) -> None:
    asked, _, conclusion = run(history.size, history.answer, [])
    searched = [test.index for test in asked if test.purpose is Purpose.SEARCH]
    assert len(searched) == len(set(searched))
    assert not {0, history.size - 1} & set(searched)
    assert {t.index for t in asked if t.purpose is Purpose.RETEST} <= {conclusion.last_old, conclusion.first_new}


@pure
@given(histories(), st.data())
def test_true_evidence_from_elsewhere_changes_no_answer_and_costs_no_test(
    history: History, data: st.DataObject
) -> None:
    indices = data.draw(st.lists(st.integers(0, history.size - 1), max_size=20))
    known = [Evidence(index, history.answer(index)) for index in indices]
    asked, _, conclusion = run(history.size, history.answer, known)
    _, _, usual = run(history.size, history.answer, [])
    assert (conclusion.result, conclusion.last_old, conclusion.first_new) == (
        usual.result,
        usual.last_old,
        usual.first_new,
    )
    searched = {test.index for test in asked if test.purpose is Purpose.SEARCH}
    assert not searched & set(indices)
    if not history.skipped:
        assert len(searched) <= ceil(log2(history.size - 1))


@pure
@given(histories(), st.data())
def test_a_prior_however_wrong_changes_no_answer(history: History, data: st.DataObject) -> None:
    weight = st.sampled_from([0.0, 1.0, 1e6])
    weights = data.draw(st.lists(weight, min_size=history.size, max_size=history.size))
    weights[-1] = 1.0
    _, _, conclusion = run(history.size, history.answer, [], weights=weights)
    _, _, usual = run(history.size, history.answer, [])
    assert (conclusion.result, conclusion.last_old, conclusion.first_new) == (
        usual.result,
        usual.last_old,
        usual.first_new,
    )


@pure
@given(histories())
def test_suspects_share_the_confidence_and_nothing_is_certain(history: History) -> None:
    _, believed, conclusion = run(history.size, history.answer, [])
    assert conclusion.confidence is not None
    assert 0.95 <= conclusion.confidence < 1
    assert abs(sum(p for _, p, _ in conclusion.suspects) - conclusion.confidence) < 1e-9
    assert {index for index, _, skipped in conclusion.suspects if skipped} <= history.skipped
    everywhere = suspects(history.size, believed)
    assert [index for index, _, _ in everywhere] == list(range(1, history.size)), "a skip keeps its probability"
    assert all(p > 0 for _, p, _ in everywhere)
    assert sum(p for _, p, _ in everywhere) <= 1 + 1e-9


@slow
@given(histories(skips=False, most=40), st.integers(0, 20))
def test_one_freak_answer_costs_no_more_than_reruns_and_a_second_search(history: History, when: int) -> None:
    count = 0

    def answer(index: int) -> Outcome:
        nonlocal count
        count += 1
        told = history.answer(index)
        return told if count != when else next(o for o in DECISIVE if o is not told)

    asked, _, conclusion = run(history.size, answer, [], aim=Aim(patience=300))
    assert (conclusion.result, conclusion.first_new) == (Result.FOUND, history.first_new)
    assert len({test.index for test in asked}) <= 2 * ceil(log2(history.size)) + 4


# --- any evidence at all ------------------------------------------------------------------------


@pure
@given(heaps_of_evidence(), st.data())
def test_no_evidence_whatever_gives_a_boundary_whose_sides_were_not_both_observed(
    heap: tuple[int, list[Evidence]], data: st.DataObject
) -> None:
    size, known = heap
    _, believed, conclusion = run(size, lambda _: data.draw(st.sampled_from(BELIEVABLE)), known, aim=SHORT)
    gap = best_gap(size, believed)
    if gap is not None:
        assert 0 <= gap[0] < gap[1] < size
    flaky = {i for i in range(size) if {e.outcome for e in believed if e.index == i} >= set(DECISIVE)}
    if conclusion.result in (Result.FOUND, Result.RANGE, Result.INCONCLUSIVE):
        assert set(conclusion.contradictions) == flaky
    if conclusion.last_old is None or conclusion.first_new is None:
        assert conclusion.last_old is conclusion.first_new
        assert conclusion.result not in (Result.FOUND, Result.RANGE)
        return
    assert conclusion.old is not None
    assert conclusion.last_old < conclusion.first_new
    if conclusion.result is Result.INCONCLUSIVE:
        assert conclusion.confidence is None
        return
    assert conclusion.confidence is not None
    assert conclusion.confidence >= SHORT.confidence
    answered = {e.index for e in believed if e.outcome is not Outcome.SKIP}
    assert {conclusion.last_old, conclusion.first_new} <= answered
    tested = {e.index for e in believed}
    assert set(range(conclusion.last_old + 1, conclusion.first_new)) <= tested - answered
    assert (conclusion.first_new == conclusion.last_old + 1) is (conclusion.result is Result.FOUND)


@pure
@given(heaps_of_evidence(), st.randoms(use_true_random=False))
def test_equal_evidence_gives_an_equal_action_in_any_order(heap: tuple[int, list[Evidence]], random: Random) -> None:
    size, known = heap
    before = list(known)
    action = next_action(size, known)
    assert next_action(size, known) == action
    assert known == before
    assert next_action(size, sorted(known, key=lambda _: random.random())) == action
