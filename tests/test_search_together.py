"""Several cases at once: one test answers all of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisect_bot.model import Outcome, Result
from bisect_bot.search import Conclusion, Evidence, Group, Test, groups, next_action, next_together

GOOD, BAD = Outcome.GOOD, Outcome.BAD
pure = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)


def together(
    size: int, first_new: Sequence[int | None], weights: Sequence[float] | None = None
) -> tuple[list[int], tuple[Conclusion, ...]]:
    """What is asked for cases that fail from these candidates on (None: never), and what comes out."""
    evidences: list[list[Evidence]] = [[] for _ in first_new]
    asked: list[int] = []
    while isinstance(action := next_together(size, evidences, weights=weights), Test):
        asked.append(action.index)
        for evidence, first in zip(evidences, first_new, strict=True):
            fails = first is not None and action.index >= first
            evidence.append(Evidence(action.index, BAD if fails else GOOD))
        assert len(asked) < 40 * len(first_new) + 40, "the search does not end"
    return asked, action


@pure
@given(st.data())
def test_every_case_gets_its_own_answer(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 60))
    places = data.draw(st.lists(st.none() | st.integers(1, size - 1), min_size=1, max_size=6))
    _, conclusions = together(size, places)
    assert [c.first_new for c in conclusions] == places
    assert [c.result for c in conclusions] == [Result.SAME if p is None else Result.FOUND for p in places]


@pure
@given(st.lists(st.tuples(st.integers(0, 11), st.sampled_from([GOOD, BAD, Outcome.SKIP])), max_size=12))
def test_one_case_is_asked_what_it_would_be_asked_alone(pieces: list[tuple[int, Outcome]]) -> None:
    evidence = [Evidence(index, outcome) for index, outcome in pieces]
    alone = next_action(12, evidence)
    assert next_together(12, [evidence]) == (alone if isinstance(alone, Test) else (alone,))


def test_cases_with_one_culprit_cost_the_builds_of_one() -> None:
    one, _ = together(128, [77])
    many, conclusions = together(128, [77] * 10)
    assert many == one
    assert groups(conclusions) == (Group(76, 77, tuple(range(10))),)


def test_three_culprits_share_what_they_can() -> None:
    alone = sum(len(set(together(128, [place])[0])) for place in (20, 70, 110))
    asked, conclusions = together(128, [20, 70, 110, 20, 70])
    assert [c.first_new for c in conclusions] == [20, 70, 110, 20, 70]
    assert len(set(asked)) <= alone - 2 * 2 - 2, "the ends, the middle and one quarter are built once"
    assert [group.cases for group in groups(conclusions)] == [(0, 3), (1, 4), (2,)]


def test_a_case_that_does_not_reproduce_does_not_hold_up_the_others() -> None:
    asked, conclusions = together(64, [None, 40])
    assert [c.result for c in conclusions] == [Result.SAME, Result.FOUND]
    assert asked == together(64, [40])[0]


def test_a_build_that_answers_two_cases_is_preferred_to_one_that_halves_a_single_one() -> None:
    ends = [(0, GOOD), (0, GOOD), (64, BAD), (64, BAD), (48, BAD)]
    skip = Outcome.SKIP  # a candidate that fails in another way says nothing about one of the cases
    known = [[*ends, (16, skip), (32, BAD)], [*ends, (16, GOOD), (32, skip)]]
    evidences = [[Evidence(index, outcome) for index, outcome in each] for each in known]
    action = next_together(65, evidences)
    assert isinstance(action, Test)
    assert 16 < action.index < 32
    assert "for 2 of 2 cases" in action.reason


def test_groups_leave_out_what_has_no_boundary() -> None:
    same = next_action(9, [Evidence(i, GOOD) for i in (0, 8, 0, 8)])
    assert isinstance(same, Conclusion)
    assert groups([same, None]) == ()


def test_weights_decide_what_is_built_for_all_cases_and_nothing_that_is_answered() -> None:
    built, answers = {}, set()
    for name, likely, unlikely in (("right", range(70, 75), ()), ("none", (), ()), ("wrong", range(20, 25), (72,))):
        weights = [50.0 if i in likely else 0.0 if i in unlikely else 1.0 for i in range(128)]
        asked, conclusions = together(128, [72, 72, 72], weights)
        built[name] = len(set(asked))
        answers.add(tuple((c.result, c.last_old, c.first_new) for c in conclusions))
    assert answers == {((Result.FOUND, 71, 72),) * 3}
    assert built["right"] < built["none"] < built["wrong"] <= built["none"] + 5


def test_no_case_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="case"):
        next_together(5, [])
