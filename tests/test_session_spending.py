"""What a session costs is counted over all its processes, and a build that failed in it is not tried again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_bot.builds.commands import Failed
from bisect_bot.errors import BuildFailed, BuildUnusable, MachineError, OutOfBudget
from bisect_bot.model import Artifact, Outcome, Request, Revision, Target
from bisect_bot.session.bench import Bench
from bisect_bot.session.budget import Budget
from bisect_bot.session.journal import Journal
from bisect_bot.session.spending import Spending
from bisect_bot.session.units import Unit
from tests.planted_builds import plant, revisions

NOWHERE = Target("chrome", "/nowhere", "1", "linux", "", "any")
UNIT = Unit(NOWHERE, "wasm")
LINE = revisions(3)
REQUEST = Request(LINE[0].id, LINE[-1].id, ("case",))
ARTIFACT = Artifact("1", "key", "sha256:1", Path())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a journal may be."""
    return tmp_path / "journal.sqlite3"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    """A fresh journal."""
    with Journal.open(path) as opened:
        yield opened


def again(bench: Bench) -> Bench:
    """The bench of another process that takes up the session of `bench`."""
    return Bench(bench.session, bench.request, bench.cases, bench.smoke, bench.tools, bench.good)


class Failing:
    """Fetches nothing: every build fails with `error`, and is counted."""

    def __init__(self, error: Exception) -> None:
        self.error, self.tried = error, 0

    def __call__(self, revision: Revision) -> tuple[Artifact, bool]:
        """Fails."""
        self.tried += 1
        raise self.error


def with_fetch(bench: Bench, fetch: Failing) -> Bench:
    """`bench` with another way to get builds."""
    bench.tools = replace(bench.tools, fetch=fetch)
    return bench


def test_who_takes_a_session_up_goes_on_counting(path: Path) -> None:
    with Journal.open(path) as journal:
        session = journal.start_session(REQUEST)
        first = Spending.of(journal, session)
        first.note_built(LINE[0], ARTIFACT, 5.0, reused=False)
        first.note_built(LINE[1], ARTIFACT, 0.1, reused=True)
        first.note_probe()
    with Journal.open(path) as journal:  # the other process was killed: it saved nothing at its end
        second = Spending.of(journal, session)
        second.note_built(LINE[0], ARTIFACT, 0.1, reused=True)  # its own build, in the cache by now
        second.note_built(LINE[2], ARTIFACT, 5.0, reused=False)
        second.note_probe()
        assert second.tally == {"builds": 2, "artifacts_reused": 1, "probes": 2}
        assert second.prices().build_s == 5.0
        assert Spending.of(journal, journal.start_session(REQUEST)).tally == {}


def test_wall_time_is_that_of_all_processes(journal: Journal) -> None:
    session = journal.start_session(REQUEST)
    first = Spending.of(journal, session)
    first._began -= 100.0
    first.save()
    second = Spending.of(journal, session)
    second._began -= 10.0
    assert 110.0 <= second.wall_s < 115.0


def test_a_session_that_is_taken_up_counts_its_own_verdicts_as_tested_and_those_of_others_as_reused(
    journal: Journal, tmp_path: Path
) -> None:
    planted = plant(tmp_path, LINE, lambda _: "times 1")
    first = planted.bench(journal, REQUEST)
    first.test(LINE[0], UNIT, "end")
    first.settle(UNIT, healthy=True)
    second = again(first)
    (trial,) = second.test(LINE[0], UNIT, "end")
    assert trial.reused
    assert (second.tally["probes"], second.tally["verdicts_reused"], second.tally["artifacts_reused"]) == (1, 0, 1)
    other = planted.bench(journal, REQUEST)
    other.test(LINE[0], UNIT, "end")
    assert (other.tally["probes"], other.tally["verdicts_reused"]) == (0, 1)


def test_a_failed_build_is_counted_and_not_tried_again_in_its_session(journal: Journal, tmp_path: Path) -> None:
    fetch = Failing(BuildFailed("the TypeScript build failed: no such type", "The log is at /logs/1"))
    planted = plant(tmp_path, LINE, lambda _: "times 1")
    first = with_fetch(planted.bench(journal, REQUEST), fetch)
    for taken_up in (False, False, True):
        bench = again(first) if taken_up else first
        (trial,) = bench.test(LINE[1], UNIT, "search")
        assert trial.verdict.outcome is Outcome.SKIP
        assert trial.verdict.reason == "no artifact: the TypeScript build failed: no such type"
        assert bench.has_built(LINE[1]), "it costs no build any more"
    assert (fetch.tried, bench.tally["builds"]) == (1, 1)
    # Whoever mended something begins a new session.
    with_fetch(planted.bench(journal, REQUEST), fetch).test(LINE[1], UNIT, "search")
    assert fetch.tried == 2


@pytest.mark.parametrize(
    "error",
    [
        BuildFailed("no end within 900 s", lasting=False),
        BuildUnusable("3 files could not be fetched"),
        MachineError("the disk is gone"),
    ],
)
def test_what_this_machine_made_fail_is_tried_again(journal: Journal, tmp_path: Path, error: Exception) -> None:
    fetch = Failing(error)
    bench = with_fetch(plant(tmp_path, LINE, lambda _: "times 1").bench(journal, REQUEST), fetch)
    for _ in range(2):
        try:
            bench.artifact(LINE[1])
        except (BuildUnusable, MachineError) as raised:
            assert raised is error
    assert fetch.tried == 2


def test_a_failed_build_uses_up_the_budget_of_builds(journal: Journal, tmp_path: Path) -> None:
    fetch = Failing(BuildFailed("the TypeScript build failed"))
    bench = with_fetch(plant(tmp_path, LINE, lambda _: "times 1").bench(journal, REQUEST), fetch)
    budget = Budget.of(replace(REQUEST, max_builds=1), bench.tally)
    budget.check(bench.tally, "x", builds=True)
    bench.test(LINE[1], UNIT, "search")
    with pytest.raises(OutOfBudget, match="1 build is used up"):
        budget.check(bench.tally, "x", builds=True)
    # Whoever takes the session up may spend as much again.
    Budget.of(replace(REQUEST, max_builds=1), bench.tally).check(bench.tally, "x", builds=True)


@pytest.mark.parametrize(
    ("status", "output", "lasting"),
    [
        (1, "error TS2322", True),
        (None, "", False),  # its time was over, or it could not be started
        (-9, "", False),
        (137, "", False),
        (1, "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", False),
    ],
)
def test_a_command_that_was_ended_from_outside_may_end_otherwise_the_next_time(
    status: int | None, output: str, lasting: bool
) -> None:
    assert Failed("the build", "it says", output, Path("log"), status).unusable().lasting is lasting
