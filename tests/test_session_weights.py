"""What the files of candidates say decides the order of the tests: it may save some, and never changes an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_bot.history import Line
from bisect_bot.history.priors import Prior
from bisect_bot.model import Candidate, Cell, Commit, Outcome, PartKind, Result, Revision, Target, Trial, Verdict
from bisect_bot.search import halvings
from bisect_bot.session.ground import Ground, Source
from bisect_bot.session.loop import Hunt, Ruling, run_hunts
from bisect_bot.session.planning import _first_guesses
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Silent
from bisect_bot.session.weights import changes

UNIT = Unit(Target("chrome", "/chrome", "1", "linux", "", "any"), "webgpu")
NOWHERE = Line((), ())


@dataclass
class Planted:
    """Every case is bad from a place of its own on."""

    first_bad: dict[Cell, int]
    asked: list[tuple[int, str]] = field(default_factory=list)

    def test(self, revision: Revision, unit: Unit, purpose: str) -> tuple[Trial, ...]:
        place = int(revision.id)
        self.asked.append((place, purpose))
        said = {c: Outcome.BAD if place >= bad else Outcome.GOOD for c, bad in self.first_bad.items()}
        return tuple(Trial(revision.id, c, len(self.asked), Verdict(o, "planted")) for c, o in said.items())

    def ruling(self, *, last: bool) -> Ruling:
        return Ruling()

    @property
    def searched(self) -> set[int]:
        """The places that were tested between the ends."""
        return {place for place, purpose in self.asked if purpose == "search"}


def search(size: int, *cases: tuple[int, Sequence[float] | None]) -> tuple[list[tuple[int, int]], Planted]:
    """The boundaries found for cases with (first bad place, weights), all searched together."""
    line = tuple(Revision(str(place), commit=f"{place:040x}") for place in range(size))
    cells = [Cell(f"case {number}", "chrome", "webgpu") for number in range(len(cases))]
    hunts = [Hunt(cell, UNIT, line, weights=weights) for cell, (_, weights) in zip(cells, cases, strict=True)]
    bench = Planted({cell: bad for cell, (bad, _) in zip(cells, cases, strict=True)})
    run_hunts(hunts, NOWHERE, bench, Silent())
    found = []
    for hunt in hunts:
        conclusion = hunt.answer().conclusion
        assert conclusion is not None and conclusion.result is Result.FOUND
        assert conclusion.last_old is not None and conclusion.first_new is not None
        found.append((conclusion.last_old, conclusion.first_new))
    return found, bench


def but(size: int, weight: float, *places: int) -> list[float]:
    """Weights of 1, but `weight` at `places`."""
    return [weight if place in places else 1.0 for place in range(size)]


def test_a_candidate_that_was_as_good_as_ruled_out_is_found_all_the_same() -> None:
    for first_bad in range(1, 27):
        wrong = [8.0 if place % 5 == first_bad % 5 else 1.0 for place in range(27)]
        wrong[first_bad] = 1e-9
        found, bench = search(27, (first_bad, wrong))
        assert found == [(first_bad - 1, first_bad)]
        assert len(bench.searched) <= halvings(27)


def test_a_good_guess_saves_builds() -> None:
    _, without = search(27, (20, None))
    _, guessed = search(27, (20, but(27, 50.0, 20)))
    assert (len(without.searched), len(guessed.searched)) == (4, 3)


@settings(deadline=None)
@given(st.integers(3, 70), st.data())
def test_no_guess_costs_more_builds_than_halving(size: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(1, size - 1))
    weights = data.draw(st.lists(st.sampled_from([0.01, 0.3, 1.0, 8.0, 1e6]), min_size=size, max_size=size))
    found, bench = search(size, (first_bad, weights))
    assert found == [(first_bad - 1, first_bad)]
    assert len(bench.searched) <= halvings(size)


def test_cases_that_are_searched_together_share_what_speaks_for_either() -> None:
    size = 27
    for weights in ((but(size, 50.0, 20), [1.0] * size), ([1.0] * size, but(size, 50.0, 20))):
        found, bench = search(size, *((20, each) for each in weights))
        assert found == [(19, 20), (19, 20)]
        assert len(bench.searched) == 3


def test_weights_are_of_the_line_that_they_were_made_for() -> None:
    line = tuple(Revision(str(place)) for place in range(5))
    hunt = Hunt(Cell("a", "chrome", "webgpu"), UNIT, line, weights=[1.0] * 5)
    assert hunt.prior == [1.0] * 5
    hunt.line = line[1:3]
    assert hunt.prior is None


# --- what a candidate changes -------------------------------------------------------------------


def commits(*triples: str) -> tuple[Commit, ...]:
    """One commit for each `js wasm glue` triple of letters, which changes a file of each part that differs."""
    made = []
    before = triples[0]
    for place, triple in enumerate(triples):
        groups = [(name, i) for i, name in enumerate(("js", "wasm", "glue")) if triple[i] != before[i]]
        changed = tuple((name, (f"{name}/{place}",)) for name, _ in groups)
        keys = (("js", triple[0]), ("wasm", triple[1]), ("glue", triple[2]))
        made.append(Commit(Revision(f"c{place}", commit=f"{place:040x}"), keys, changed))
        before = triple
    return tuple(made)


def changed(ground: Ground, guilty: PartKind | None = None) -> list[tuple[str, ...] | None]:
    return list(changes(ground, ground.candidates(guilty), lambda _: ("wasm",), guilty))


def test_a_candidate_changes_what_its_first_commit_changes_of_its_own_parts() -> None:
    line = commits("aag", "abg", "bbg", "bcg", "cdg")
    assert changed(Ground(line, 0, 4, builds_wasm=True)) == [
        ("wasm/1",),
        ("js/2",),
        ("wasm/3",),
        ("js/4", "wasm/4"),
    ]


def test_a_lent_webassembly_brings_all_that_changed_between_its_lenders() -> None:
    line = commits("aag", "abg", "acg", "bcg", "bdg", "cdg")
    ground = Ground(line, 0, 5, (Source("old", 0), Source("new", 5)))
    places = [int(run.revision.id[1:]) for run in ground.candidates()]
    assert dict(zip(places[1:], changed(ground), strict=True)) == {
        2: ("wasm/1", "wasm/2", "wasm/4"),
        3: ("js/3",),
        5: ("js/5",),
    }


def test_once_a_part_is_guilty_the_other_one_says_nothing() -> None:
    line = commits("aag", "bbg", "ccg", "dcg")
    whole = Ground(line, 0, 3, builds_wasm=True)
    assert changed(whole, PartKind.WASM) == [("wasm/1",), ("wasm/2",), ()]
    lent = Ground(line, 0, 3, (Source("only", 0),))
    assert changed(lent, PartKind.JS) == [("js/1",), ("js/2",), ("js/3",)]


def test_of_a_lender_that_is_no_commit_here_nobody_knows_what_it_brought() -> None:
    line = commits("aag", "bah")
    ground = Ground(line, 0, 1, (Source("here", 0), Source("elsewhere")))
    builds = changed(ground)
    assert builds == [("js/1",)]
    assert changed(Ground(commits("aag", "bag"), 0, 1, (Source("elsewhere"),))) == [("js/1",)]


@pytest.mark.parametrize(
    ("unlikely", "told"),
    [(1, "1 candidate, which touches only docs"), (2, "2 candidates, one of which touches only docs")],
)
def test_a_plan_counts_what_is_next_to_impossible(unlikely: int, told: str) -> None:
    runs = [Candidate((Revision(str(place)),)) for place in range(4)]
    doubts = [Prior(0.01, "touches only docs")] * unlikely
    lines = list(_first_guesses(runs, [*[Prior(1.0, "nothing is known")] * (4 - unlikely), *doubts]))
    assert lines[-1] == f"  below x0.1, but never ruled out: {told}"
