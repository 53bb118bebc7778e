"""The search by example: which test it asks for, and what it concludes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random

import pytest

from bisect_bot.model import Outcome, Result
from bisect_bot.search import Aim, Conclusion, Evidence, Prices, Purpose, Test, best_gap, next_action, suspects

GOOD, BAD, SKIP = Outcome.GOOD, Outcome.BAD, Outcome.SKIP
LETTERS = {"g": GOOD, "b": BAD, "s": SKIP}


def evidence(*answers: tuple[int, str]) -> list[Evidence]:
    """`(3, "gb")` is a good and then a bad answer of candidate 3."""
    return [Evidence(index, LETTERS[letter]) for index, letters in answers for letter in letters]


def search(
    size: int,
    answer: Callable[[int], Outcome],
    known: list[Evidence] | None = None,
    *,
    aim: Aim | None = None,
    weights: list[float] | None = None,
) -> tuple[list[Test], Conclusion]:
    """Answers every test that is asked for, until the conclusion."""
    believed = list(known or [])
    asked: list[Test] = []
    for _ in range(10 * size + 100):
        action = next_action(size, believed, aim=aim, weights=weights)
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


def test_an_end_that_answers_both_ways_is_asked_until_the_ends_differ_or_do_not() -> None:
    odd = itertools.chain([BAD], itertools.repeat(GOOD))
    asked, conclusion = search(9, lambda index: next(odd) if index == 0 else planted(4)(index))
    assert (conclusion.result, conclusion.old, conclusion.first_new) == (Result.FOUND, GOOD, 4)
    assert conclusion.contradictions == (0,)
    assert sum(test.index == 0 for test in asked) > 2


def test_two_ends_that_fail_equally_often_are_the_same_and_the_reason_counts() -> None:
    answers = {0: itertools.cycle([GOOD, BAD]), 19: itertools.cycle([BAD, GOOD])}
    asked, conclusion = search(20, lambda index: next(answers[index]))
    assert (conclusion.result, conclusion.last_old) == (Result.SAME, None)
    assert conclusion.same is not None and conclusion.same >= 0.95
    assert f"the old end was {sum(t.index == 0 for t in asked) // 2}x good" in conclusion.reason


def test_a_rare_failure_is_looked_for_as_often_as_asked() -> None:
    asked, conclusion = search(20, lambda _: GOOD, aim=Aim(rarest=0.2))
    assert conclusion.result is Result.SAME
    assert len(asked) == 2 * 20, "0.8^20 is a quarter of the doubt that is allowed"
    assert {test.purpose for test in asked} == {Purpose.END}
    assert "in up to 20 runs" in conclusion.reason


def test_ends_that_always_fail_need_no_search_for_a_rare_failure() -> None:
    asked, conclusion = search(20, lambda _: BAD, aim=Aim(rarest=0.2))
    assert conclusion.result is Result.SAME
    assert len(asked) <= 14, "an end that passes half the time would have shown it"


@pytest.mark.parametrize("fails", [(0.2, 0.45), (0.7, 0.4), (0.55, 0.8)])
def test_flaky_ends_that_differ_are_not_called_the_same(fails: tuple[float, float]) -> None:
    told = [search(40, flaky(20, fails, seed), aim=Aim(rarest=0.2, patience=200))[1].result for seed in range(10)]
    assert Result.SAME not in told


# --- between them -------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [GOOD, BAD])
def test_the_outcome_at_the_old_end_decides_the_direction(old: Outcome) -> None:
    _, conclusion = search(12, planted(7, old=old))
    assert (conclusion.result, conclusion.old) == (Result.FOUND, old)
    assert (conclusion.last_old, conclusion.first_new) == (6, 7)


def test_skips_are_stepped_away_from_in_growing_distances() -> None:
    ends, tried = evidence((0, "gg"), (200, "bb")), [100]
    for _ in range(3):
        action = next_action(201, ends + evidence(*((i, "s") for i in tried)))
        assert isinstance(action, Test) and action.purpose is Purpose.SEARCH
        assert "away from what was skipped" in action.reason
        tried.append(action.index)
    steps = [min(abs(new - old) for old in tried[:n]) for n, new in enumerate(tried) if n]
    assert 1 < steps[0] < steps[1] / 2
    assert steps[1] <= steps[2]


def test_a_run_of_skips_beside_the_middle_costs_a_few_tests_not_one_each() -> None:
    skipped = frozenset(range(85, 115))
    asked, conclusion = search(201, planted(30, skipped=skipped))
    assert (conclusion.result, conclusion.first_new) == (Result.FOUND, 30)
    assert sum(test.index in skipped for test in asked) <= 4


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


def test_a_retest_that_contradicts_is_voted_on_and_the_odd_answer_loses() -> None:
    answers = itertools.chain([GOOD], itertools.repeat(BAD))
    asked, conclusion = search(12, lambda index: next(answers) if index == 6 else planted(7)(index))
    assert (conclusion.result, conclusion.last_old, conclusion.first_new) == (Result.FOUND, 5, 6)
    assert conclusion.contradictions == (6,)
    assert "candidate 7 of 12 answered both ways (1x good" in conclusion.reason
    assert sum(test.purpose is Purpose.RETEST for test in asked) <= 20


def test_a_glitch_in_the_middle_costs_reruns_and_no_wrong_answer() -> None:
    answers = itertools.chain([BAD], itertools.repeat(GOOD))
    asked, conclusion = search(64, lambda index: next(answers) if index == 31 else planted(50)(index))
    assert (conclusion.result, conclusion.first_new) == (Result.FOUND, 50)
    assert len({test.index for test in asked}) <= 14


def test_a_search_without_an_answer_is_inconclusive_with_what_it_believes() -> None:
    known = evidence((0, "gggg"), (8, "bbbbbg"), (4, "gbgbgb"))
    action = next_action(9, known, aim=Aim(patience=16))
    assert isinstance(action, Conclusion)
    assert (action.result, action.confidence, action.old) == (Result.INCONCLUSIVE, None, GOOD)
    assert "no answer after 16 runs" in action.reason
    assert "candidate 5 of 9 answered both ways (3x good, 3x bad)" in action.reason
    assert action.last_old is not None and action.first_new is not None
    assert action.same is not None
    assert 0.5 < sum(chance for _, chance, _ in action.suspects) <= 1 - action.same + 1e-9


def test_a_side_that_only_skips_when_retested_leaves_the_proof_open() -> None:
    answers = itertools.chain([GOOD], itertools.repeat(SKIP))
    truth = planted(7)
    _, conclusion = search(12, lambda index: next(answers) if index == 6 else truth(index))
    assert conclusion.result is Result.FOUND
    assert conclusion.retests_held is None
    assert "a side did not always answer" in conclusion.reason


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
    asked, conclusion = search(9, lambda index: BAD if index in (4, 8) else GOOD, known)
    assert {asked[0].index, asked[1].index} <= {2, 4, 6}, "first it is made sure that no answer was a freak"
    assert (conclusion.result, conclusion.last_old, conclusion.first_new) == (Result.FOUND, 7, 8)
    assert conclusion.other_changes == ((2, 4), (4, 6))
    assert "more than one change is visible (3)" in conclusion.reason


def test_among_flaky_answers_the_ends_decide_whether_the_last_change_was_undone() -> None:
    known = evidence((0, "gg"), (14, "b" * 12 + "g"), (40, "g" * 12 + "b"), (80, "g" * 12), (127, "bg"))
    asked, conclusion = search(128, lambda index: BAD if index in range(10, 20) or index >= 120 else GOOD, known)
    assert [test.index for test in asked[:2]] == [0, 127]
    assert (conclusion.result, conclusion.last_old, conclusion.first_new) == (Result.FOUND, 119, 120)
    assert conclusion.other_changes == ((0, 14), (14, 40))


def test_a_single_change_lists_no_others() -> None:
    _, conclusion = search(9, planted(3))
    assert conclusion.other_changes == ()
    assert "more than one" not in conclusion.reason


# --- confidence ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 12, 128, 1000])
def test_an_undisturbed_search_reaches_the_confidence_asked_for_with_four_retests(size: int) -> None:
    _, conclusion = search(size, planted(1 + size // 3))
    assert conclusion.confidence is not None
    assert 0.975 <= conclusion.confidence < 1
    assert 4 <= conclusion.retests <= 6


def test_a_higher_confidence_takes_more_retests() -> None:
    few, _ = search(128, planted(40))
    many, conclusion = search(128, planted(40), aim=Aim(confidence=0.999))
    assert conclusion.result is Result.FOUND
    assert conclusion.confidence is not None and conclusion.confidence >= 0.999
    assert {test.index for test in many} == {test.index for test in few}, "builds nothing for it"
    assert 2 < len(many) - len(few) < 20


def test_suspects_of_an_unfinished_search_spread_over_what_is_left() -> None:
    known = evidence((0, "gg"), (8, "bb"), (4, "g"), (6, "s"))
    likely = {index: chance for index, chance, _ in suspects(9, known)}
    assert [index for index, _, skipped in suspects(9, known) if skipped] == [6]
    assert likely[5] == likely[6] == likely[8] > likely[1] > 0
    assert sum(likely[i] for i in (5, 6, 7, 8)) > 0.8
    assert sum(likely.values()) < 1


# --- flaky sides --------------------------------------------------------------------------------


def flaky(first_new: int, fails: tuple[float, float], seed: int) -> Callable[[int], Outcome]:
    rng = Random(seed)
    return lambda index: BAD if rng.random() < fails[index >= first_new] else GOOD


@pytest.mark.parametrize("fails", [(0.0, 0.5), (0.1, 0.9), (0.9, 0.1), (0.05, 1.0)])
def test_flaky_histories_are_searched_with_few_builds(fails: tuple[float, float]) -> None:
    right, built = 0, list[int]()
    for seed in range(12):
        first_new = 1 + seed * 37 % 99
        asked, conclusion = search(100, flaky(first_new, fails, seed), aim=Aim(rarest=0.2))
        right += conclusion.first_new == first_new
        built.append(len({test.index for test in asked}))
    assert right >= 10
    assert sum(built) / len(built) <= 13


def test_when_builds_are_dear_kept_candidates_are_asked_instead() -> None:
    costs = {}
    for name, prices in (("dear", Prices(200, 10)), ("cheap", Prices(0, 10))):
        builds = 0
        for seed in range(4):
            known: list[Evidence] = []
            answer = flaky(40, (0.0, 0.4), seed)
            while isinstance(action := next_action(100, known, prices=prices, aim=Aim(rarest=0.3)), Test):
                known.append(Evidence(action.index, answer(action.index)))
            builds += len({piece.index for piece in known})
        costs[name] = builds
    assert costs["dear"] < costs["cheap"]


def test_the_gap_of_a_stopped_flaky_search_holds_the_confidence() -> None:
    known = evidence((0, "gggggg"), (99, "bgbbgb"), (50, "gggggggg"), (75, "bgb"))
    assert best_gap(100, known) == (50, 75)
    assert best_gap(100, evidence((0, "gb"), (99, "bg"))) is None
    assert best_gap(100, evidence((0, "gg"))) is None


# --- priors -------------------------------------------------------------------------------------


def test_weights_move_the_first_question_to_where_the_change_is_likely() -> None:
    weights = [1.0] * 101
    weights[90] = 100.0
    asked, conclusion = search(101, planted(90), weights=weights)
    first = next(test for test in asked if test.purpose is Purpose.SEARCH)
    assert first.index in (89, 90)
    assert conclusion.first_new == 90
    assert len({test.index for test in asked}) <= 5


def test_a_weight_of_nothing_hides_nothing() -> None:
    weights = [1.0] * 64
    weights[20] = 0.0
    _, conclusion = search(64, planted(20), weights=weights)
    assert (conclusion.result, conclusion.first_new) == (Result.FOUND, 20)


@pytest.mark.parametrize("fails", [(0.0, 0.5), (0.1, 0.9)])
def test_a_wrong_prior_costs_a_flaky_search_tests_and_no_answer(fails: tuple[float, float]) -> None:
    right, tests = {"wrong": 0, "none": 0}, {"wrong": 0, "none": 0}
    for seed in range(8):
        first_new = 5 + seed * 11
        weights = [0.0 if first_new - 3 <= i <= first_new + 3 else 1.0 for i in range(100)]
        for name, given in (("wrong", weights), ("none", None)):
            asked, told = search(100, flaky(first_new, fails, seed), aim=Aim(rarest=0.2), weights=given)
            right[name] += told.first_new == first_new
            tests[name] += len(asked)
    assert right["wrong"] >= 7
    assert tests["none"] < tests["wrong"] < 2 * tests["none"]


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


@pytest.mark.parametrize("weights", [[1.0] * 4, [1.0, -1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0]])
def test_weights_that_do_not_fit_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        next_action(5, [], weights=weights)


def test_impossible_aims_and_prices_are_refused() -> None:
    for confidence in (0.3, 1.0):
        with pytest.raises(ValueError, match="confidence"):
            Aim(confidence=confidence)
    with pytest.raises(ValueError, match="rate of failure"):
        Aim(rarest=0)
    with pytest.raises(ValueError, match="prices"):
        Prices(10, 0)
