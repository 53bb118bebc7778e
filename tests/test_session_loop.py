"""The loop finds every cell's boundary, on main first and beside it afterwards, and asks no more than it must."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_bot.history import Line, line, order_revisions
from bisect_bot.model import Cell, Failure, Outcome, Result, Revision, Signature, Target, Trial, Verdict
from bisect_bot.search import Test
from bisect_bot.session.loop import Hunt, Ruling, run_hunts
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Silent

UNIT = Unit(Target("chrome", "/chrome", "1", "linux", "", "any"), "webgpu")
Behaviour = Callable[[Revision], Outcome | Verdict]
THIS = Signature(Failure.MISMATCH, "a", "y: all zero")
OTHER = Signature(Failure.ERROR, "a", "something else")


@dataclass
class Planted:
    """Answers by rule instead of by browser, and remembers what it was asked."""

    cells: Mapping[Cell, Behaviour]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def test(self, revision: Revision, unit: Unit, purpose: str) -> tuple[Trial, ...]:
        self.asked.append((revision.id, purpose))
        said = {cell: rule(revision) for cell, rule in self.cells.items()}
        return tuple(
            Trial(
                revision.id,
                cell,
                len(self.asked),
                verdict if isinstance(verdict, Verdict) else Verdict(verdict, "planted"),
                purpose=purpose,
            )
            for cell, verdict in said.items()
        )

    def ruling(self, *, last: bool) -> Ruling:
        return Ruling()


def builds(count: int, releases: bool = False) -> tuple[Revision, ...]:
    """1.20.1, `count` dev builds of 1.21.0, and 1.22.0; with `releases`, 1.21.0 and 1.21.1 among them."""
    dev = [f"1.21.0-dev.2024{1 + n // 28:02}{1 + n % 28:02}-{n:010x}" for n in range(count)]
    return order_revisions(["1.20.1", *dev, *(["1.21.0", "1.21.1"] if releases else []), "1.22.0"], {})


def cell(name: str) -> Cell:
    return Cell(name, "chrome", "webgpu")


def search(revisions: tuple[Revision, ...], cells: Mapping[Cell, Behaviour]) -> tuple[list[Hunt], Planted, Line]:
    """Runs hunts for `cells` over the whole of `revisions`."""
    found = line(revisions, revisions[0], revisions[-1])
    hunts = [Hunt(each, UNIT, found.main) for each in cells]
    bench = Planted(cells)
    run_hunts(hunts, found, bench, Silent())
    return hunts, bench, found


def from_index(revisions: tuple[Revision, ...], first_bad: int) -> Behaviour:
    """Good before the revision at `first_bad`, bad from it on."""
    place = {r.id: i for i, r in enumerate(revisions)}
    return lambda revision: Outcome.BAD if place[revision.id] >= first_bad else Outcome.GOOD


def answer_of(hunt: Hunt) -> tuple[str, str]:
    """The two sides of a hunt's boundary, by name."""
    conclusion = hunt.answer().conclusion
    assert conclusion is not None and conclusion.last_old is not None and conclusion.first_new is not None
    return hunt.line[conclusion.last_old].id, hunt.line[conclusion.first_new].id


@given(st.integers(0, 40), st.data())
def test_any_planted_boundary_is_found_with_logarithmically_many_tests(count: int, data: st.DataObject) -> None:
    revisions = builds(count)
    first_bad = data.draw(st.integers(1, len(revisions) - 1))
    hunts, bench, _ = search(revisions, {cell("a"): from_index(revisions, first_bad)})
    assert answer_of(hunts[0]) == (revisions[first_bad - 1].id, revisions[first_bad].id)
    searched = [name for name, purpose in bench.asked if purpose == "search"]
    assert len(searched) <= math.ceil(math.log2(len(revisions)))


def test_both_ends_are_asked_twice_before_anything_else() -> None:
    revisions = builds(6)
    _, bench, _ = search(revisions, {cell("a"): from_index(revisions, 3)})
    assert [name for name, _ in bench.asked[:4]] == ["1.20.1", "1.22.0"] * 2


def test_ends_that_do_not_differ_end_the_search_at_once() -> None:
    hunts, bench, _ = search(builds(6), {cell("a"): lambda _: Outcome.GOOD})
    conclusion = hunts[0].answer().conclusion
    assert conclusion is not None and conclusion.result is Result.SAME
    assert len(bench.asked) == 4


def test_cases_with_different_boundaries_share_every_probe() -> None:
    revisions = builds(20)
    rules = {cell(name): from_index(revisions, at) for name, at in (("a", 3), ("b", 17), ("c", 17))}
    hunts, bench, _ = search(revisions, rules)
    assert [answer_of(h)[1] for h in hunts] == [revisions[3].id, revisions[17].id, revisions[17].id]
    alone = [search(revisions, {key: rule})[1] for key, rule in rules.items()]
    assert len(bench.asked) < sum(len(b.asked) for b in alone[:2])


@pytest.mark.parametrize(
    ("first_bad", "sides"), [(7, ("dev", "1.21.0")), (8, ("1.21.0", "1.21.1")), (9, ("1.21.1", "1.22.0"))]
)
def test_releases_beside_main_are_tried_only_in_the_gap_that_main_leaves(
    first_bad: int, sides: tuple[str, str]
) -> None:
    revisions = builds(6, releases=True)
    hunts, bench, found = search(revisions, {cell("a"): from_index(revisions, first_bad)})
    assert [r.id for r in found.aside] == ["1.21.0", "1.21.1"]
    assert [("dev" if "dev" in side else side) for side in answer_of(hunts[0])] == list(sides)
    first_aside = next(i for i, (name, _) in enumerate(bench.asked) if name in ("1.21.0", "1.21.1"))
    assert all("dev" in name or name in ("1.20.1", "1.22.0") for name, _ in bench.asked[:first_aside])


def test_a_gap_without_releases_asks_none_of_them() -> None:
    revisions = builds(6, releases=True)
    _, bench, _ = search(revisions, {cell("a"): from_index(revisions, 3)})
    assert not {"1.21.0", "1.21.1"} & {name for name, _ in bench.asked}


def test_a_revision_that_fails_in_another_way_is_skipped_not_bad() -> None:
    revisions = builds(14)
    place = {r.id: i for i, r in enumerate(revisions)}

    def verdict(revision: Revision) -> Verdict:
        if place[revision.id] >= 9:
            return Verdict(Outcome.BAD, "", THIS)
        return Verdict(Outcome.BAD, "", OTHER) if place[revision.id] == 7 else Verdict(Outcome.GOOD, "")

    hunt = Hunt(cell("a"), UNIT, revisions)
    while isinstance(action := hunt.action(), Test):
        revision = revisions[action.index]
        hunt.trials.append(Trial(revision.id, cell("a"), 1, verdict(revision)))
    assert 7 in [place[t.revision] for t in hunt.trials], "the planted other failure was met"
    assert answer_of(hunt) == (revisions[8].id, revisions[9].id)


THIRD = range(7, 14)


def other_in_the_third(revisions: tuple[Revision, ...], first_bad: int) -> Behaviour:
    """Good before `first_bad` and bad from it on, but for the middle third, where all fail in another way."""
    place = {r.id: i for i, r in enumerate(revisions)}

    def verdict(revision: Revision) -> Verdict:
        if place[revision.id] in THIRD:
            return Verdict(Outcome.BAD, "planted", OTHER)
        return Verdict(Outcome.BAD, "planted", THIS) if place[revision.id] >= first_bad else Verdict(Outcome.GOOD, "")

    return verdict


@pytest.mark.parametrize("first_bad", range(1, 20))
def test_the_middle_third_failing_otherwise_never_gives_the_other_failures_boundary(first_bad: int) -> None:
    revisions = builds(18)
    assert len(revisions) == 20
    hunts, _, _ = search(revisions, {cell("a"): other_in_the_third(revisions, first_bad)})
    conclusion = hunts[0].answer().conclusion
    assert conclusion is not None
    inside = first_bad in range(THIRD.start, THIRD.stop + 1)
    expected = (THIRD.start - 1, THIRD.stop) if inside else (first_bad - 1, first_bad)
    assert (conclusion.last_old, conclusion.first_new) == expected
    assert conclusion.result is (Result.RANGE if inside else Result.FOUND)
    assert hunts[0].answer().failures == (THIS,)


@pytest.mark.parametrize("first_bad", range(1, 20))
def test_any_failure_finds_where_whatever_failure_nearest_to_the_new_end_began(first_bad: int) -> None:
    revisions = builds(18)
    rule = other_in_the_third(revisions, first_bad)
    hunt = Hunt(cell("a"), UNIT, revisions, any_failure=True)
    run_hunts([hunt], line(revisions, revisions[0], revisions[-1]), Planted({cell("a"): rule}), Silent())
    conclusion = hunt.answer().conclusion
    assert conclusion is not None and conclusion.first_new is not None
    begins = {min(first_bad, THIRD.start)}
    # Where the third is followed by good revisions, there are two beginnings.
    assert conclusion.first_new in begins | ({first_bad} if first_bad > THIRD.stop else set())
    assert conclusion.result is Result.FOUND


def test_each_way_in_which_the_bad_end_fails_counts() -> None:
    revisions = builds(14)
    place = {r.id: i for i, r in enumerate(revisions)}
    faces = itertools.cycle((THIS, OTHER))

    def unsteady(revision: Revision) -> Verdict:
        is_bad = place[revision.id] >= 6
        return Verdict(Outcome.BAD, "", next(faces)) if is_bad else Verdict(Outcome.GOOD, "")

    hunts, _, _ = search(revisions, {cell("a"): unsteady})
    assert answer_of(hunts[0]) == (revisions[5].id, revisions[6].id)
    assert hunts[0].answer().failures == (THIS, OTHER)


@pytest.mark.parametrize(("bad", "failure"), [("1.22.0", THIS), ("1.20.1", OTHER), ("", OTHER)])
def test_where_both_ends_fail_in_two_ways_the_one_that_was_called_bad_decides(bad: str, failure: Signature) -> None:
    revisions = builds(4)
    hunt = Hunt(cell("a"), UNIT, revisions, bad)
    for revision, signature in ((revisions[0], OTHER), (revisions[-1], THIS)) * 2:
        hunt.trials.append(Trial(revision.id, cell("a"), len(hunt.trials), Verdict(Outcome.BAD, "", signature)))
    assert hunt.failures == (failure,)
    conclusion = hunt.answer().conclusion
    assert conclusion is not None and conclusion.result is Result.UNUSABLE


def test_voided_trials_are_asked_again_from_the_beginning_of_the_line() -> None:
    revisions = builds(6, releases=True)
    hunts, _, _ = search(revisions, {cell("a"): from_index(revisions, 8)})
    (hunt,) = hunts
    assert hunt.line != hunt.main, "the search went on among the releases"
    hunt.apply(Ruling())
    assert hunt.line != hunt.main
    gone = tuple(trial for trial in hunt.trials if trial.revision == revisions[0].id)
    other = Unit(UNIT.target, "wasm")
    hunt.apply(Ruling(gone, {UNIT: other}))
    assert (hunt.line, hunt.unit) == (hunt.main, other)
    assert hunt.trials and not set(gone) & set(hunt.trials)
    action = hunt.action()
    assert isinstance(action, Test) and action.purpose == "end"


def test_a_stopped_hunt_keeps_the_narrowest_gap_that_it_knew() -> None:
    revisions = builds(14)
    rule = from_index(revisions, 5)
    bench = Planted({cell("a"): rule})
    hunt = Hunt(cell("a"), UNIT, revisions)
    for index in (0, 15, 0, 15, 8):
        hunt.trials += bench.test(revisions[index], UNIT, "search")
    answer = hunt.answer()
    assert answer.conclusion is None
    assert answer.gap == (0, 8)


def test_each_hunt_of_a_unit_takes_the_answer_at_its_own_place() -> None:
    revisions = builds(6)

    class Shuffled(Planted):
        def test(self, revision: Revision, unit: Unit, purpose: str) -> tuple[Trial, ...]:
            return Planted.test(self, revision, unit, purpose)[::-1]

    found = line(revisions, revisions[0], revisions[-1])
    rules = {cell(name): from_index(revisions, first) for name, first in (("a", 2), ("b", 5))}
    hunts = [Hunt(each, UNIT, found.main) for each in rules]
    run_hunts(hunts, found, Shuffled(rules), Silent())
    assert [answer_of(hunt)[1] for hunt in hunts] == [revisions[2].id, revisions[5].id]
