"""A report says what was found, and what the reader must know to believe it as far as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_bot import cases
from bisect_bot.history import line, order_revisions
from bisect_bot.model import (
    Candidate,
    Case,
    Cell,
    Direction,
    Failure,
    Outcome,
    Report,
    Request,
    Result,
    Revision,
    Signature,
    Target,
    Trial,
    Verdict,
)
from bisect_bot.session.bench import Bench
from bisect_bot.session.journal import Journal
from bisect_bot.session.loop import Answer, Hunt, run_hunts
from bisect_bot.session.summary import Circumstances, make_report
from bisect_bot.session.tools import Tools
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Silent
from bisect_bot.targets.browsers import load_config
from tests.planted import planted_artifact, planted_bundle
from tests.test_session_loop import Planted

BUILDS = order_revisions(["1.20.1", "1.21.0-dev.20241024-d9ca84ef96", "1.21.0-dev.20241205-d27fecd3d3", "1.21.0"], {})
CELL = Cell("case", "chrome", "webgpu")
UNIT = Unit(Target("chrome", "/chrome", "1", "linux", "", "any"), "webgpu")
BAD = Verdict(Outcome.BAD, "wrong", Signature(Failure.MISMATCH, "case", "y: all zero"), ran_on="gpu")
GOOD = Verdict(Outcome.GOOD, "right", ran_on="cpu")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A bench that has tried nothing; called with 1.20.1 as good and 1.21.0 as bad."""
    journal = Journal.open(tmp_path / "journal.sqlite3")
    artifact = planted_artifact(tmp_path / "artifact")
    tools = Tools(
        journal,
        lambda _seen, _case: GOOD,
        "",
        load_config(),
        lambda _: (artifact, True),
        lambda _: True,
        lambda _revision, _backend: planted_bundle(),
        Silent(),
    )
    case: Case = cases.smoke(tmp_path)
    return Bench("session", Request("1.20.1", "1.21.0", ("case",)), (case,), case, tools)


def report_of(bench: Bench, first_bad: str, *, swapped: bool = False, stop_after: int | None = None) -> Report:
    """The report of a search over BUILDS that are bad from `first_bad` on (`swapped`: up to before it)."""
    found = line(BUILDS, BUILDS[0], BUILDS[-1])
    place = [r.id for r in BUILDS]

    def verdict(name: str) -> Verdict:
        return BAD if (place.index(name) >= place.index(first_bad)) != swapped else GOOD

    hunt = Hunt(CELL, UNIT, found.main)
    planted = Planted({CELL: lambda revision: verdict(revision.id).outcome})
    run_hunts([hunt], found, planted, Silent())
    asked = planted.asked[:stop_after]
    bench.trials = [Trial(name, CELL, 1, verdict(name), purpose=purpose) for name, purpose in asked]
    hunt.trials = bench.trials
    return make_report([hunt.answer()], bench, Circumstances(BUILDS, (UNIT.target,), ("from outside",), 1.0))


def test_a_found_boundary_says_its_direction_and_signature(bench: Bench) -> None:
    report = report_of(bench, "1.21.0-dev.20241205-d27fecd3d3")
    answer = report.cells[0]
    assert (report.result, answer.direction) == (Result.FOUND, Direction.REGRESSION)
    assert answer.signature == BAD.signature
    assert answer.boundary is not None
    assert answer.boundary.first_new.id == "1.21.0-dev.20241205-d27fecd3d3"
    assert [proof.held for proof in report.proofs] == [True]
    assert report.warnings[0] == "from outside"


def test_two_sides_that_ran_in_different_places_are_pointed_out(bench: Bench) -> None:
    report = report_of(bench, "1.21.0-dev.20241205-d27fecd3d3")
    assert any("on the CPU" in text and "on the GPU" in text for text in report.warnings)


@pytest.mark.parametrize(
    ("hidden", "told"),
    [
        (("b", "c", "x", "y"), "2 commits of the range that change C++ cannot be told apart (bbbbbbbbbb, cccccccccc); "
         "2 more between the range and that build are the same for all of it."),
        (("c",), "1 commit of the range that changes C++ cannot be told apart (cccccccccc)."),
        (("a", "x"), "no change of C++ inside the range is hidden by it; "
         "2 between the range and that build are the same for all of it."),
    ],
)  # fmt: skip
def test_a_webassembly_that_stood_in_hides_only_changes_inside_the_range(
    bench: Bench, hidden: tuple[str, ...], told: str
) -> None:
    commits = tuple(Revision(letter * 10, None, letter * 40) for letter in "abcd")
    runs = (Candidate(commits[:1]), Candidate(commits[1:3]), Candidate(commits[3:]))
    answer = Answer(CELL, tuple(run.revision for run in runs), None, candidates=runs)
    lacking = tuple(letter * 40 for letter in hidden)
    bench.trials = [Trial("b" * 10, CELL, 1, GOOD, wasm="1.20.1", approximate=lacking)]
    around = Circumstances(commits, (UNIT.target,), (), 1.0)
    said = make_report([answer], bench, around).warnings
    assert f"The WebAssembly of 1.20.1 stood in for that of bbbbbbbbbb: {told}" in said
    unsearched = make_report([], bench, around).warnings
    assert any(f"{len(hidden)} commit" in text and "range" not in text for text in unsearched)


def test_ends_that_are_the_other_way_round_than_was_said_are_pointed_out(bench: Bench) -> None:
    report = report_of(bench, "1.21.0-dev.20241205-d27fecd3d3", swapped=True)
    assert report.cells[0].direction is Direction.FIX
    assert "1.20.1 was called good, but is bad for case on chrome/webgpu." in report.warnings
    assert "1.21.0 was called bad, but is good for case on chrome/webgpu." in report.warnings


def test_an_end_that_answers_both_ways_is_not_called_wrong_for_that(bench: Bench) -> None:
    answers = [("1.20.1", GOOD), ("1.20.1", BAD), ("1.21.0", GOOD), ("1.21.0", BAD), ("1.21.0", BAD)]
    bench.trials = [Trial(name, CELL, number, verdict) for number, (name, verdict) in enumerate(answers, 1)]
    hunt = Hunt(CELL, UNIT, line(BUILDS, BUILDS[0], BUILDS[-1]).main, bad="1.21.0", trials=bench.trials)
    report = make_report([hunt.answer()], bench, Circumstances(BUILDS, (UNIT.target,), (), 1.0))
    assert "1.20.1 was called good, but is bad now and then for case on chrome/webgpu." in report.warnings
    assert not any("was called bad" in text for text in report.warnings), "what fails now and then is bad"


def test_a_side_beside_main_is_pointed_out(bench: Bench) -> None:
    report = report_of(bench, "1.21.0")
    assert any(text.startswith("1.21.0 lies beside main (") for text in report.warnings)


@pytest.mark.parametrize(("tests", "direction"), [(1, None), (2, Direction.REGRESSION)])
def test_a_stopped_search_names_a_direction_only_when_both_ends_are_known(
    bench: Bench, tests: int, direction: Direction | None
) -> None:
    report = report_of(bench, "1.21.0-dev.20241205-d27fecd3d3", stop_after=tests)
    assert (report.cells[0].result, report.cells[0].direction) == (Result.STOPPED, direction)


def test_the_report_says_what_the_case_is(bench: Bench) -> None:
    said = dict(report_of(bench, "1.21.0").environment)
    assert said["case smoke"].startswith("Add (ai.onnx 12); ")
    assert "float32[2, 3]" in said["case smoke"]
