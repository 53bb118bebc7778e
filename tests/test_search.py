"""The search by example: which test it asks for, and what it concludes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from bisect_bot.model import Outcome, Result
from bisect_bot.search import Conclusion, Evidence, Purpose, Test, next_action

GOOD, BAD, SKIP = Outcome.GOOD, Outcome.BAD, Outcome.SKIP
LETTERS = {"g": GOOD, "b": BAD, "s": SKIP}


def evidence(*answers: tuple[int, str]) -> list[Evidence]:
    """`(3, "gb")` is a good and then a bad answer of candidate 3."""
    return [Evidence(index, LETTERS[letter]) for index, letters in answers for letter in letters]


def search(
    size: int, answer: Callable[[int], Outcome], known: list[Evidence] | None = None
) -> tuple[list[Test], Conclusion]:
    """Answers every test that is asked for, until the conclusion."""
    believed = list(known or [])
    asked: list[Test] = []
    for _ in range(10 * size + 20):
        action = next_action(size, believed)
        if isinstance(action, Conclusion):
            return asked, action
        asked.append(action)
        believed.append(Evidence(action.index, answer(action.index)))
    raise AssertionError(f"no conclusion after {len(asked)} tests: {asked[-5:]}")


def planted(first_new: int, *, skipped: frozenset[int] = frozenset(), old: Outcome = GOOD) -> Callable[[int], Outcome]:
    """A history that changes once, at `first_new`."""
    new = BAD if old is GOOD else GOOD
    return lambda index: SKIP if index in skipped else old if index < first_new else new


def conclude(size: int, believed: list[Evidence]) -> Conclusion:
    action = next_action(size, believed)
    assert isinstance(action, Conclusion), action
    return action


# --- the ends -----------------------------------------------------------------------------------


def test_both_ends_are_tested_twice_in_turn_before_anything_else() -> None:
    asked, _ = search(100, planted(60))
    assert [(test.index, test.purpose) for test in asked[:5]] == [
        (0, Purpose.END),
        (99, Purpose.END),
        (0, Purpose.END),
        (99, Purpose.END),
        (49, Purpose.SEARCH),
    ]


def test_the_ends_come_first_even_when_other_evidence_already_brackets_the_change() -> None:
    action = next_action(10, evidence((4, "g"), (5, "b")))
    assert isinstance(action, Test)
    assert (action.index, action.purpose) == (0, Purpose.END)


def test_ends_with_the_same_outcome_are_the_same() -> None:
    asked, conclusion = search(20, lambda _: BAD)
    assert len(asked) == 4
    assert (conclusion.result, conclusion.old, conclusion.last_old) == (Result.SAME, BAD, None)
    assert "both ends are bad" in conclusion.reason


def test_equal_ends_with_a_change_between_them_say_so() -> None:
    conclusion = conclude(9, evidence((0, "gg"), (4, "b"), (8, "gg")))
    assert conclusion.result is Result.SAME
    assert conclusion.other_changes == ((0, 4), (4, 8))
    assert "changed and changed back" in conclusion.reason


@pytest.mark.parametrize(("index", "name"), [(0, "the old end"), (8, "the new end")])
def test_an_end_that_skips_twice_is_unusable_and_named(index: int, name: str) -> None:
    asked, conclusion = search(9, planted(4, skipped=frozenset({index})))
    assert conclusion.result is Result.UNUSABLE
    assert conclusion.reason.startswith(name)
    assert "choose another" in conclusion.reason
    assert len(asked) <= 4


def test_an_end_that_skips_once_is_asked_again() -> None:
    action = next_action(9, evidence((0, "s"), (8, "b")))
    assert isinstance(action, Test)
    assert (action.index, action.purpose) == (0, Purpose.END)


def test_an_end_that_answers_both_ways_is_inconclusive_and_named() -> None:
    conclusion = conclude(9, evidence((0, "g"), (8, "b"), (0, "b")))
    assert conclusion.result is Result.INCONCLUSIVE
    assert conclusion.contradictions == (0,)
    assert "the old end answered both ways" in conclusion.reason
    assert (conclusion.old, conclusion.last_old, conclusion.first_new) == (None, None, None)
    assert (conclusion.retests, conclusion.retests_held) == (0, None)


def test_a_repeated_end_that_contradicts_is_no_failed_retest_even_of_two_neighbours() -> None:
    conclusion = conclude(2, evidence((0, "g"), (1, "b"), (0, "b")))
    assert (conclusion.result, conclusion.retests, conclusion.retests_held) == (Result.INCONCLUSIVE, 0, None)


# --- between them -------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [GOOD, BAD])
def test_the_outcome_at_the_old_end_decides_the_direction(old: Outcome) -> None:
    _, conclusion = search(12, planted(7, old=old))
    assert (conclusion.result, conclusion.old) == (Result.FOUND, old)
    assert (conclusion.last_old, conclusion.first_new) == (6, 7)


def test_a_skip_goes_to_the_nearest_testable_neighbour_of_the_middle() -> None:
    ends = evidence((0, "gg"), (10, "bb"))
    for skipped, expected in [("", 5), ("5", 4), ("54", 6), ("546", 3)]:
        action = next_action(10 + 1, ends + evidence(*((int(i), "s") for i in skipped)))
        assert isinstance(action, Test)
        assert (action.index, action.purpose) == (expected, Purpose.SEARCH)


def test_the_reason_of_a_test_says_how_much_is_left() -> None:
    action = next_action(7, evidence((0, "gg"), (6, "bb")))
    assert isinstance(action, Test)
    assert action.reason == "middle of 6 candidates left"


def test_only_skipped_candidates_inside_give_a_range_with_all_suspects() -> None:
    _, conclusion = search(10, planted(5, skipped=frozenset({4, 5, 6})))
    assert conclusion.result is Result.RANGE
    assert (conclusion.last_old, conclusion.first_new) == (3, 7)
    assert [(index, skipped) for index, _, skipped in conclusion.suspects] == [
        (4, True),
        (5, True),
        (6, True),
        (7, False),
    ]
    assert len({probability for _, probability, _ in conclusion.suspects}) == 1
    assert sum(p for _, p, _ in conclusion.suspects) == pytest.approx(conclusion.confidence)


def test_both_sides_are_retested_twice_in_turn() -> None:
    asked, conclusion = search(12, planted(7))
    assert [test.index for test in asked if test.purpose is Purpose.RETEST] == [6, 7, 6, 7]
    assert [test.purpose for test in asked[-4:]] == [Purpose.RETEST] * 4
    assert (conclusion.retests, conclusion.retests_held) == (4, True)


def test_the_sides_of_a_range_are_retested_too() -> None:
    asked, conclusion = search(5, planted(2, skipped=frozenset({1, 2, 3})))
    assert [test.index for test in asked if test.purpose is Purpose.RETEST] == [0, 4, 0, 4]
    assert (conclusion.result, conclusion.retests_held) == (Result.RANGE, True)


def test_a_retest_that_contradicts_is_inconclusive_with_a_boundary_that_does_without_it() -> None:
    answers = itertools.chain([GOOD], itertools.repeat(BAD))
    truth = planted(7)
    asked, conclusion = search(12, lambda index: next(answers) if index == 6 else truth(index))
    assert asked[-1].purpose is Purpose.RETEST
    assert conclusion.result is Result.INCONCLUSIVE
    assert conclusion.contradictions == (6,)
    assert (conclusion.retests, conclusion.retests_held) == (1, False)
    assert conclusion.last_old is not None
    assert conclusion.last_old < 6
    assert conclusion.first_new == 7
    assert "candidate 7 of 12 answered both ways (1x good, 1x bad)" in conclusion.reason


def test_a_side_that_only_skips_when_retested_leaves_the_proof_open() -> None:
    answers = itertools.chain([GOOD], itertools.repeat(SKIP))
    truth = planted(7)
    _, conclusion = search(12, lambda index: next(answers) if index == 6 else truth(index))
    assert conclusion.result is Result.FOUND
    assert (conclusion.retests, conclusion.retests_held) == (2, None)


def test_a_skip_after_a_good_is_no_contradiction() -> None:
    action = next_action(9, evidence((0, "gg"), (8, "bb"), (4, "gs")))
    assert isinstance(action, Test)
    assert action.index == 6


# --- evidence from elsewhere --------------------------------------------------------------------


def test_evidence_that_was_not_asked_for_narrows_the_search() -> None:
    action = next_action(101, evidence((90, "b"), (0, "gg"), (80, "g"), (100, "bb")))
    assert isinstance(action, Test)
    assert action.index == 85


def test_of_several_changes_the_nearest_to_the_new_end_is_taken_and_the_others_are_listed() -> None:
    known = evidence((0, "gg"), (2, "g"), (4, "b"), (6, "g"), (8, "bb"))
    asked, conclusion = search(9, lambda index: GOOD if index < 8 else BAD, known)
    assert asked[0].index == 7
    assert (conclusion.result, conclusion.last_old, conclusion.first_new) == (Result.FOUND, 7, 8)
    assert conclusion.other_changes == ((2, 4), (4, 6))
    assert "more than one change is visible (3)" in conclusion.reason


def test_a_single_change_lists_no_others() -> None:
    _, conclusion = search(9, planted(3))
    assert conclusion.other_changes == ()
    assert "more than one" not in conclusion.reason


# --- confidence ---------------------------------------------------------------------------------


def test_the_confidence_of_an_undisturbed_search_is_the_documented_number() -> None:
    _, conclusion = search(12, planted(7))
    assert conclusion.confidence == pytest.approx((35 / 36) ** 2)


def test_more_agreeing_repeats_give_more_confidence_but_never_certainty() -> None:
    known = evidence((6, "g" * 9), (7, "b" * 9))
    _, little = search(12, planted(7))
    _, much = search(12, planted(7), known)
    assert little.confidence is not None
    assert much.confidence is not None
    assert little.confidence < much.confidence < 1


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "believed", "problem"),
    [
        (1, [], "two ends"),
        (5, [Evidence(5, GOOD)], "outside"),
        (5, [Evidence(-1, GOOD)], "outside"),
        (5, [Evidence(2, Outcome.INFRA)], "infra"),
    ],
)
def test_nonsense_is_refused(size: int, believed: list[Evidence], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        next_action(size, believed)
