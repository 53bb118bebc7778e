"""The search by property: what holds for every history, every skip and every piece of extra evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisect_bot.model import Outcome, Result
from bisect_bot.search import Conclusion, Evidence, Purpose, Test, next_action

DECISIVE = (Outcome.GOOD, Outcome.BAD)
BELIEVABLE = (*DECISIVE, Outcome.SKIP)


# A busy machine is no reason to fail.
pure = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


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
def histories(draw: st.DrawFn, *, skips: bool = True) -> History:
    size = draw(st.integers(2, 80))
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


def run(size: int, answer: Callable[[int], Outcome], known: list[Evidence]) -> tuple[list[Test], list[Evidence]]:
    """All tests up to the conclusion, and all evidence then believed."""
    believed, asked = list(known), list[Test]()
    while isinstance(action := next_action(size, believed), Test):
        asked.append(action)
        believed.append(Evidence(action.index, answer(action.index)))
        assert len(asked) <= size + 12, "the search does not end"
    return asked, believed


def conclusion_of(size: int, believed: list[Evidence]) -> Conclusion:
    action = next_action(size, believed)
    assert isinstance(action, Conclusion)
    return action


@pure
@given(histories())
def test_any_planted_boundary_is_found_exactly_or_lies_in_a_range_of_skipped_candidates(history: History) -> None:
    _, believed = run(history.size, history.answer, [])
    conclusion = conclusion_of(history.size, believed)
    assert conclusion.last_old is not None
    assert conclusion.first_new is not None
    assert conclusion.last_old < history.first_new <= conclusion.first_new
    inside = set(range(conclusion.last_old + 1, conclusion.first_new))
    assert inside <= history.skipped
    assert conclusion.result is (Result.RANGE if inside else Result.FOUND)
    assert [index for index, _, _ in conclusion.suspects] == sorted({*inside, conclusion.first_new})
    assert (conclusion.retests, conclusion.retests_held) == (4, True)


@pure
@given(histories(skips=False))
def test_without_skips_the_search_takes_at_most_the_logarithm(history: History) -> None:
    asked, _ = run(history.size, history.answer, [])
    assert sum(test.purpose is Purpose.SEARCH for test in asked) <= ceil(log2(history.size - 1))


@pure
@given(histories())
def test_nothing_decided_is_asked_again_but_ends_and_sides(history: History) -> None:
    asked, _ = run(history.size, history.answer, [])
    searched = [test.index for test in asked if test.purpose is Purpose.SEARCH]
    assert len(searched) == len(set(searched))
    assert not {0, history.size - 1} & set(searched)
    believed = run(history.size, history.answer, [])[1]
    conclusion = conclusion_of(history.size, believed)
    assert {t.index for t in asked if t.purpose is Purpose.RETEST} <= {conclusion.last_old, conclusion.first_new}


@pure
@given(histories(), st.data())
def test_true_evidence_from_elsewhere_changes_no_answer_and_costs_no_test(
    history: History, data: st.DataObject
) -> None:
    indices = data.draw(st.lists(st.integers(0, history.size - 1), max_size=20))
    known = [Evidence(index, history.answer(index)) for index in indices]
    asked, believed = run(history.size, history.answer, known)
    _, alone = run(history.size, history.answer, [])
    conclusion, usual = conclusion_of(history.size, believed), conclusion_of(history.size, alone)
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
@given(heaps_of_evidence(), st.data())
def test_no_evidence_whatever_gives_a_boundary_whose_sides_were_not_both_observed(
    heap: tuple[int, list[Evidence]], data: st.DataObject
) -> None:
    size, known = heap
    _, believed = run(size, lambda _: data.draw(st.sampled_from(BELIEVABLE)), known)
    conclusion = conclusion_of(size, believed)
    if conclusion.last_old is None or conclusion.first_new is None:
        assert conclusion.last_old is conclusion.first_new
        assert conclusion.result not in (Result.FOUND, Result.RANGE)
        return
    seen = {side: {e.outcome for e in believed if e.index == side} - {Outcome.SKIP} for side in range(size)}
    assert conclusion.old is not None
    assert seen[conclusion.last_old] == {conclusion.old} == seen[0]
    assert seen[conclusion.first_new] == seen[size - 1] == set(DECISIVE) - {conclusion.old}
    assert conclusion.last_old < conclusion.first_new
    if conclusion.result is Result.RANGE:
        tested = {e.index for e in believed}
        assert set(range(conclusion.last_old + 1, conclusion.first_new)) <= tested
    if conclusion.result is Result.FOUND:
        assert conclusion.first_new == conclusion.last_old + 1


@pure
@given(heaps_of_evidence(), st.data())
def test_a_candidate_that_answered_both_ways_never_ends_in_a_boundary_that_is_called_found(
    heap: tuple[int, list[Evidence]], data: st.DataObject
) -> None:
    size, known = heap
    _, believed = run(size, lambda _: data.draw(st.sampled_from(BELIEVABLE)), known)
    conclusion = conclusion_of(size, believed)
    flaky = {i for i in range(size) if {e.outcome for e in believed if e.index == i} >= set(DECISIVE)}
    if flaky:
        assert conclusion.result in (Result.INCONCLUSIVE, Result.UNUSABLE)
        assert conclusion.result is Result.UNUSABLE or set(conclusion.contradictions) == flaky
        assert conclusion.confidence is None
    else:
        assert conclusion.result is not Result.INCONCLUSIVE


@pure
@given(heaps_of_evidence(), st.randoms(use_true_random=False))
def test_equal_evidence_gives_an_equal_action_in_any_order(heap: tuple[int, list[Evidence]], random: Random) -> None:
    size, known = heap
    before = list(known)
    action = next_action(size, known)
    assert next_action(size, known) == action
    assert known == before
    shuffled = sorted(known, key=lambda _: random.random())
    other = next_action(size, shuffled)
    if isinstance(action, Conclusion) and action.contradictions:
        # Only which repeat came first, and so whether it was a re-test, depends on the order.
        assert isinstance(other, Conclusion)
        assert (other.result, other.last_old, other.first_new) == (action.result, action.last_old, action.first_new)
    else:
        assert other == action


@pure
@given(histories())
def test_suspects_share_the_confidence_and_nothing_is_certain(history: History) -> None:
    _, believed = run(history.size, history.answer, [])
    conclusion = conclusion_of(history.size, believed)
    assert conclusion.confidence is not None
    assert 0.5 < conclusion.confidence < 1
    assert abs(sum(p for _, p, _ in conclusion.suspects) - conclusion.confidence) < 1e-9
    assert {index for index, _, skipped in conclusion.suspects if skipped} <= history.skipped
