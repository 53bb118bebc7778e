"""A machine that falls ill in the middle of a search costs time, and no right answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_bot.errors import MachineError
from bisect_bot.history import line
from bisect_bot.model import Outcome, Report, Request, Result, Revision, Target, Trial
from bisect_bot.probes import plain_target
from bisect_bot.session.bench import Bench
from bisect_bot.session.control import FAILURES, PROBES, Controls
from bisect_bot.session.journal import Journal
from bisect_bot.session.loop import Hunt, run_hunts
from bisect_bot.session.machine import Surroundings, changed_since
from bisect_bot.session.summary import Circumstances, make_report
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Silent
from bisect_bot.session.workshop import open_workshop
from bisect_bot.targets.browsers import locate
from tests.planted_builds import CONFIG, GONE, HEALTHY, NOWHERE, THROWS, WRONG, Planted, plant, revisions

LINE = revisions(9)
FIRST_BAD = 5
REQUEST = Request(LINE[0].id, LINE[-1].id, ("case",), backends=("wasm",), isolate=True, case_timeout_s=10)


@pytest.fixture
def target() -> Target:
    """A browser that only tests in a browser need to be there."""
    return NOWHERE


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A fresh journal."""
    with Journal.open(tmp_path / "journal.sqlite3") as opened:
        yield opened


@pytest.fixture
def builds(tmp_path: Path) -> Planted:
    """Nine builds: wrong from the sixth on."""
    return plant(tmp_path / "builds", LINE, lambda index: "times -1" if index >= FIRST_BAD else "times 1")


def never(_seconds: float) -> None:
    raise AssertionError("nobody has to wait for a healthy machine")


def no_change(target: Target) -> Target:
    return target


def search(bench: Bench, controls: Controls, target: Target) -> Report:
    """Searches LINE and reports."""
    hunt = Hunt(Unit(target, "wasm").cell(bench.cases[0]), Unit(target, "wasm"), LINE, REQUEST.bad)
    run_hunts([hunt], line(LINE, LINE[0], LINE[-1]), controls, Silent())
    return make_report([hunt.answer()], bench, Circumstances(LINE, (target,), (), 1.0))


def sides(report: Report) -> tuple[Revision, Revision]:
    """The two sides of the boundary."""
    boundary = report.cells[0].boundary
    assert boundary is not None
    return boundary.last_old, boundary.first_new


def test_a_healthy_search_costs_one_control(journal: Journal, builds: Planted, target: Target) -> None:
    bench = builds.bench(journal, REQUEST)
    report = search(bench, Controls(bench, Surroundings(no_change), never), target)
    assert sides(report) == (LINE[FIRST_BAD - 1], LINE[FIRST_BAD])
    assert report.counts.probes in range(PROBES, 14)
    assert (report.counts.controls, report.counts.voided, bench.remarks) == (1, 0, [])
    assert dict(report.environment)["controls"] == "smoke on 1.20.1: 1 run"
    again = builds.bench(journal, REQUEST)
    second = search(again, Controls(again, Surroundings(no_change), never), target)
    assert (second.counts.probes, second.counts.controls) == (0, 0), "what a control confirmed stays so"


@pytest.mark.parametrize("illness", [WRONG, THROWS])
@pytest.mark.parametrize("after", range(1, 11))
def test_verdicts_of_an_ill_machine_are_voided_and_the_answer_is_the_same(
    journal: Journal, builds: Planted, target: Target, after: int, illness: str
) -> None:
    heard: list[Trial] = []
    pauses: list[float] = []

    def tried(trial: Trial) -> None:
        heard.append(trial)
        if len(heard) == after:
            builds.machine(illness)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            builds.machine(HEALTHY)

    bench = builds.bench(journal, REQUEST, tried=tried)
    report = search(bench, Controls(bench, Surroundings(no_change), pause), target)
    assert report.result is Result.FOUND
    assert sides(report) == (LINE[FIRST_BAD - 1], LINE[FIRST_BAD])
    assert pauses == [1, 2, 4], "each wait is longer than the one before"
    place = {revision.id: index for index, revision in enumerate(LINE)}
    told = {(place[t.revision] >= FIRST_BAD, t.verdict.outcome) for t in report.trials}
    assert told == {(False, Outcome.GOOD), (True, Outcome.BAD)}, "no verdict of the ill machine is left"
    assert report.counts.voided == len(heard) - len(report.trials) > 0
    (warning,) = [text for text in report.warnings if "control" in text]
    assert f"{report.counts.voided} verdict(s) were voided and tested again" in warning
    again = builds.bench(journal, REQUEST)
    assert search(again, Controls(again, Surroundings(no_change), never), target).counts.probes == 0
    assert [t.verdict.outcome for t in again.trials] == [t.verdict.outcome for t in bench.trials], "none is recalled"


@pytest.mark.browser
def test_in_a_browser_a_control_finds_the_ill_machine_that_a_new_builds_smoke_case_met(
    journal: Journal, builds: Planted
) -> None:
    unit = Unit(plain_target(locate("chrome", CONFIG), "any", ()), "wasm")
    bench = builds.bench(journal, REQUEST, in_browser=True)
    controls = Controls(bench, Surroundings(no_change), lambda _: builds.machine(HEALTHY))
    (good,) = controls.test(LINE[0], unit, "end")
    assert not controls.ruling(last=False)
    builds.machine(THROWS)
    (skipped,) = controls.test(LINE[-1], unit, "end")
    assert skipped.verdict.outcome is Outcome.SKIP
    assert set(controls.ruling(last=False).void) == {good, skipped}
    assert [controls.test(LINE[index], unit, "end")[0].verdict.outcome for index in (0, -1)] == ["good", "bad"]
    assert not controls.ruling(last=True)
    assert bench.tally["voided"] == 2


def test_a_machine_that_stays_ill_ends_the_session_which_can_be_gone_on_with(
    journal: Journal, builds: Planted, target: Target
) -> None:
    pauses: list[float] = []
    bench = builds.bench(journal, REQUEST, tried=lambda _: builds.machine(WRONG))
    with pytest.raises(MachineError, match="has failed on chrome/wasm for 600 s") as raised:
        search(bench, Controls(bench, Surroundings(no_change), pauses.append), target)
    assert "resume" in raised.value.advice
    assert 600 <= sum(pauses) < 720
    assert bench.trials == []
    builds.machine(HEALTHY)
    resumed = builds.bench(journal, REQUEST)
    report = search(resumed, Controls(resumed, Surroundings(no_change), never), target)
    assert sides(report) == (LINE[FIRST_BAD - 1], LINE[FIRST_BAD])


def test_a_machine_that_falls_ill_again_and_again_is_given_up(
    journal: Journal, builds: Planted, target: Target
) -> None:
    bench = builds.bench(journal, REQUEST, tried=lambda _: builds.machine(WRONG))
    controls = Controls(bench, Surroundings(no_change), lambda _: builds.machine(HEALTHY))
    with pytest.raises(MachineError, match=f"failed {FAILURES} times"):
        search(bench, controls, target)


def test_a_machine_that_gives_no_answer_at_all_is_waited_for(journal: Journal, builds: Planted, target: Target) -> None:
    heard: list[Trial] = []

    def tried(trial: Trial) -> None:
        heard.append(trial)
        if len(heard) == 3:
            builds.machine(GONE)

    bench = builds.bench(journal, REQUEST, tried=tried)
    report = search(bench, Controls(bench, Surroundings(no_change), lambda _: builds.machine(HEALTHY)), target)
    assert sides(report) == (LINE[FIRST_BAD - 1], LINE[FIRST_BAD])
    assert any("The control failed" in text for text in report.warnings)


def wrapper(folder: Path, version: str) -> Path:
    """A browser that calls itself Chromium `version`: a script that starts the installed one."""
    script = folder / "chrome"
    real = locate("chrome", CONFIG).executable
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "Chromium {version}" && exit\nexec "{real}" "$@"\n')
    script.chmod(0o755)
    return script


def test_a_browser_that_is_updated_during_a_search_begins_it_again(
    journal: Journal, builds: Planted, tmp_path: Path
) -> None:
    browser = wrapper(tmp_path, "156.0.1.1")
    heard: list[Trial] = []

    def tried(trial: Trial) -> None:
        heard.append(trial)
        if len(heard) == 5:
            wrapper(tmp_path, "157.0.1.10")

    def renew(_target: Target) -> Target:
        return plain_target(locate(f"chrome:{browser}", CONFIG), "any", ())

    bench = builds.bench(journal, REQUEST, tried=tried)
    old = renew(plain_target(locate("chrome", CONFIG), "any", ()))
    surroundings = Surroundings(renew)
    report = search(bench, Controls(bench, surroundings, never), old)
    assert surroundings.now(old).version == "157.0.1.10"
    assert sides(report) == (LINE[FIRST_BAD - 1], LINE[FIRST_BAD])
    assert len(report.trials) == len(heard) - 5, "all that was answered before is tested again"
    assert [t.revision for t in report.trials[:2]] == [LINE[0].id, LINE[-1].id]
    assert (
        "The browser changed from Chromium 156.0.1.1 to Chromium 157.0.1.10 during the search:"
        " everything before was tested again." in report.warnings
    )


@pytest.mark.browser
def test_a_target_is_looked_at_again_under_its_name(tmp_path: Path) -> None:
    browser = wrapper(tmp_path, "156.0.1.1")
    request = replace(REQUEST, targets=("chrome", f"chrome:{browser}"))
    with open_workshop(Silent(), tmp_path / "cache") as workshop:
        _, second = workshop.targets(request)
        assert (second.name, second.version) == ("chrome-2", "156.0.1.1")
        wrapper(tmp_path, "157.0.1.10")
        assert workshop.renewed(second, request) == replace(second, version="157.0.1.10")


def test_a_resumed_session_says_what_changed_since_it_began(journal: Journal) -> None:
    old = Target("chrome", "/chrome", "156.0.1.1", "linux", "", "any", product="Chromium")
    session = journal.start_session(REQUEST)
    assert changed_since(session, (old,), journal) == ()
    assert changed_since(session, (old,), journal) == ()
    (said,) = changed_since(session, (replace(old, version="157.0.1.1"),), journal)
    assert said.startswith("The browser changed from Chromium 156.0.1.1 to Chromium 157.0.1.1 since this session began")
    journal.remember("onnxruntime", session, "1.0.0")
    (said,) = changed_since(session, (replace(old, version="157.0.1.1"),), journal)
    assert said.startswith("onnxruntime changed from 1.0.0 to ")
