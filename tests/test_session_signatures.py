"""Planted builds of which the middle third fails in another way: what a report says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_bot.history import line
from bisect_bot.model import Failure, Outcome, Report, Request, Result, Trial
from bisect_bot.reports.failures import other_failures
from bisect_bot.reports.rows import OTHER_FAILURE, other_boundaries, rows
from bisect_bot.session.control import Controls
from bisect_bot.session.journal import Journal
from bisect_bot.session.loop import Hunt, run_hunts
from bisect_bot.session.machine import Surroundings
from bisect_bot.session.summary import Circumstances, make_report
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Silent
from tests.planted_builds import NOWHERE, plant, revisions

LINE = revisions(20)
THIRD = range(7, 14)
UNIT = Unit(NOWHERE, "wasm")
REQUEST = Request(LINE[0].id, LINE[-1].id, ("case",), backends=("wasm",), isolate=True)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A fresh journal."""
    with Journal.open(tmp_path / "journal.sqlite3") as opened:
        yield opened


def search(journal: Journal, folder: Path, answer: Callable[[int], str], request: Request = REQUEST) -> Report:
    """The report of a search over builds that answer so by their place."""
    bench = plant(folder / "builds", LINE, answer).bench(journal, request)
    hunt = Hunt(UNIT.cell(bench.cases[0]), UNIT, LINE, request.bad, request.any_failure)
    run_hunts([hunt], line(LINE, LINE[0], LINE[-1]), Controls(bench, Surroundings(lambda same: same)), Silent())
    return make_report([hunt.answer()], bench, Circumstances(LINE, (NOWHERE,), (), 1.0))


def sides(report: Report) -> tuple[int, int]:
    """The places of the two sides of the boundary."""
    boundary = report.cells[0].boundary
    assert boundary is not None
    return LINE.index(boundary.last_old), LINE.index(boundary.first_new)


def middle_third(first_bad: int) -> Callable[[int], str]:
    """Wrong values from `first_bad` on, but an exception in the middle third."""
    return lambda i: "throws" if i in THIRD else "times 2" if i >= first_bad else "times 1"


@pytest.mark.parametrize(
    ("first_bad", "result", "expected"),
    [
        pytest.param(4, Result.FOUND, (3, 4), id="before the third"),
        pytest.param(16, Result.FOUND, (15, 16), id="after it"),
        pytest.param(10, Result.RANGE, (6, 14), id="inside: the third and its two tested neighbours"),
    ],
)
def test_the_other_failure_is_listed_and_is_no_boundary(
    journal: Journal, tmp_path: Path, first_bad: int, result: Result, expected: tuple[int, int]
) -> None:
    report = search(journal, tmp_path, middle_third(first_bad))
    (answer,) = report.cells
    assert (answer.result, sides(report)) == (result, expected)
    assert answer.signature is not None and answer.signature.kind is Failure.MISMATCH
    met = other_failures(report, answer)
    assert met and {other.signature.kind for other in met} == {Failure.ERROR}
    tried = {LINE.index(row.revision): row.label for row in rows(report, answer.cell, answer)}
    assert {i for i, label in tried.items() if label == OTHER_FAILURE} == set(tried) & set(THIRD)
    assert len(met) == len(set(tried) & set(THIRD)), "every one that was met is listed"
    assert other_boundaries(report, answer) == ()


def test_with_any_failure_it_counts(journal: Journal, tmp_path: Path) -> None:
    report = search(journal, tmp_path, middle_third(10), replace(REQUEST, any_failure=True))
    assert (report.result, sides(report)) == (Result.FOUND, (6, 7))


def test_a_good_end_that_fails_in_another_way_is_pointed_out(journal: Journal, tmp_path: Path) -> None:
    report = search(journal, tmp_path, lambda i: "throws" if i == 0 else "times 2")
    assert report.result is Result.UNUSABLE
    (warning,) = [text for text in report.warnings if "was called good" in text]
    assert "in another way than 1.22.0" in warning and "--any-failure" in warning


def test_a_bad_end_that_fails_in_two_ways_is_told(journal: Journal, tmp_path: Path) -> None:
    builds = plant(tmp_path / "builds", LINE, lambda i: "times 2" if i >= 9 else "times 1")

    def tried(trial: Trial) -> None:
        # The bad end throws in every other of its tests.
        if trial.revision in (LINE[0].id, LINE[-1].id):
            said = "throws" if sum(t.verdict.outcome is Outcome.BAD for t in bench.trials) % 2 else "times 2"
            builds.answers[builds.names[LINE[-1].id]] = {"wasm": said, "webgpu": said}

    bench = builds.bench(journal, REQUEST, tried=tried)
    hunt = Hunt(UNIT.cell(bench.cases[0]), UNIT, LINE, REQUEST.bad)
    run_hunts([hunt], line(LINE, LINE[0], LINE[-1]), Controls(bench, Surroundings(lambda same: same)), Silent())
    report = make_report([hunt.answer()], bench, Circumstances(LINE, (NOWHERE,), (), 1.0))
    assert (report.result, sides(report)) == (Result.FOUND, (8, 9))
    assert any("the bad end failed in 2 ways (mismatch, error)" in text for text in report.warnings)
    assert other_failures(report, report.cells[0]) == ()
