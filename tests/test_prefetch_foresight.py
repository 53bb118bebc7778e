"""What may be asked next is known before the answer: for either answer, and without a word to the search itself."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_bot.history import line
from bisect_bot.model import Cell, Outcome, Revision
from bisect_bot.search import Prices
from bisect_bot.session.loop import Foresight, Hunt, run_hunts
from bisect_bot.session.watcher import Silent
from tests.test_session_loop import UNIT, Behaviour, Planted, builds, cell, from_index

few = settings(max_examples=15, deadline=None)


def steps(
    revisions: tuple[Revision, ...], cells: Mapping[Cell, Behaviour], prices: Prices | None = None
) -> list[tuple[str, Sequence[str]]]:
    """Each revision that a search asked for, and what was foreseen of the time after it."""
    found = line(revisions, revisions[0], revisions[-1])
    hunts = [Hunt(each, UNIT, found.main) for each in cells]
    bench = Planted(cells)
    foreseen: list[Sequence[str]] = []

    def foresee(look: Foresight) -> None:
        before = copy.deepcopy(hunts)
        foreseen.append([revision.id for revision in look()])
        assert hunts == before, "foresight changes nothing"

    run_hunts(hunts, found, bench, Silent(), lambda: prices or Prices(), foresee)
    return [(name, ahead) for (name, _), ahead in zip(bench.asked, foreseen, strict=True)]


def unforeseen(told: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """The revisions after the first that were asked for the first time without being foreseen just before."""
    seen = {told[0][0]}
    lacking = []
    for (_, ahead), (name, _) in itertools.pairwise(told):
        if name not in seen and name not in ahead:
            lacking.append(name)
        seen.add(name)
    return lacking


@few
@given(st.integers(0, 40), st.data())
def test_whatever_is_answered_what_comes_next_was_foreseen(count: int, data: st.DataObject) -> None:
    revisions = builds(count)
    first_bad = data.draw(st.integers(1, len(revisions)))
    assert not unforeseen(steps(revisions, {cell("a"): from_index(revisions, first_bad)}))


@few
@given(st.integers(3, 30), st.data())
def test_a_revision_that_cannot_answer_was_thought_of(count: int, data: st.DataObject) -> None:
    revisions = builds(count)
    first_bad = data.draw(st.integers(1, len(revisions) - 1))
    skipped = revisions[data.draw(st.integers(1, len(revisions) - 2))].id
    rule = from_index(revisions, first_bad)
    told = steps(revisions, {cell("a"): lambda r: Outcome.SKIP if r.id == skipped else rule(r)})
    assert not unforeseen(told)


@few
@given(st.integers(3, 30), st.data())
def test_only_where_two_cases_part_is_something_else_asked_for(count: int, data: st.DataObject) -> None:
    revisions = builds(count)
    one, other = (data.draw(st.integers(1, len(revisions) - 1)) for _ in range(2))
    told = steps(revisions, {cell("a"): from_index(revisions, one), cell("b"): from_index(revisions, other)})
    assert len(unforeseen(told)) <= (one != other)


def test_the_other_end_is_prepared_first() -> None:
    revisions = builds(6)
    told = steps(revisions, {cell("a"): from_index(revisions, 3)})
    assert told[0] == ("1.20.1", told[0][1]) and told[0][1][0] == "1.22.0"


def test_both_answers_come_before_what_comes_after_them_and_nothing_twice() -> None:
    revisions = builds(40)
    told = steps(revisions, {cell("a"): from_index(revisions, 17)})
    middle = next(i for i, (name, _) in enumerate(told) if name not in (revisions[0].id, revisions[-1].id))
    place = {revision.id: i for i, revision in enumerate(revisions)}
    at, ahead = place[told[middle][0]], [place[name] for name in told[middle][1]]
    assert min(ahead[:2]) < at < max(ahead[:2])
    quarters = sorted(ahead[:2])
    assert sorted(ahead[2:6])[0] < quarters[0] < sorted(ahead[2:6])[1], "then theirs, on both sides of each"
    assert len(set(ahead)) == len(ahead) and not {name for name, _ in told[: middle + 1]} & set(told[middle][1])


def test_nothing_is_foreseen_when_one_answer_ends_all() -> None:
    revisions = builds(0)
    assert all(not ahead for _, ahead in steps(revisions, {cell("a"): from_index(revisions, 1)})[1:])
