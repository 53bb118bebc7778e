"""A machine that falls ill in the middle of a search costs time, and no right answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bisect_bot.errors import MachineError
from bisect_bot.history import line
from bisect_bot.model import (
    Artifact,
    Bundle,
    Case,
    Ending,
    Observation,
    Outcome,
    Report,
    Request,
    Result,
    Revision,
    Target,
    Trial,
)
from bisect_bot.probes import plain_target
from bisect_bot.session.bench import TRIES, Bench
from bisect_bot.session.control import FAILURES, PROBES, Controls
from bisect_bot.session.journal import Journal, SessionState
from bisect_bot.session.loop import Hunt, run_hunts
from bisect_bot.session.machine import Surroundings, changed_since, changes, gpu_environment
from bisect_bot.session.run import check_request
from bisect_bot.session.summary import Circumstances, make_report
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Silent
from bisect_bot.session.workshop import Workshop, open_workshop
from bisect_bot.targets.browsers import locate
from tests.planted_builds import CONFIG, GONE, HEALTHY, NOWHERE, THROWS, WRONG, Planted, plant, revisions

FLAGS = CONFIG.flags
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


@dataclass(frozen=True, slots=True)
class PlantedWorkshop(Workshop):
    """A workshop with planted builds and cases, and the browsers of this machine."""

    planted: Planted

    def revisions(self) -> tuple[Revision, ...]:
        return LINE

    def fetch(self, _revision: Revision) -> tuple[Artifact, bool]:
        return Artifact("planted", "planted", "sha256:planted", self.planted.folder), True

    def is_intact(self, _artifact: Artifact) -> bool:
        return True

    def bundle_for(self, revision: Revision, backend: str, _wish: str) -> Bundle:
        return self.planted.bundle_for(revision, backend)

    def pin(self, request: Request) -> tuple[Request, tuple[Case, ...]]:
        return request, tuple(self.planted.case(name) for name in request.cases)

    def smoke(self) -> Case:
        return self.planted.case("smoke")


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


def killed_after(
    count: int, journal: Journal, builds: Planted, target: Target, illness: str, request: Request = REQUEST
) -> None:
    """A search that ends after `count` answers as by a kill, on a machine that falls ill once both ends answered."""
    heard: list[Trial] = []

    def tried(trial: Trial) -> None:
        heard.append(trial)
        if len(heard) == 4:
            builds.machine(illness)
        if len(heard) == count:
            raise KeyboardInterrupt

    bench = builds.bench(journal, request, tried=tried)
    with pytest.raises(KeyboardInterrupt):
        search(bench, Controls(bench, Surroundings(no_change), never), target)


@pytest.mark.parametrize("same_process", [True, False])
def test_a_healthy_machine_does_not_confirm_what_an_ill_one_said_in_an_earlier_session(
    tmp_path: Path, builds: Planted, target: Target, same_process: bool
) -> None:
    path = tmp_path / "journal.sqlite3"
    with Journal.open(path) as journal:
        smoked = builds.bench(journal, REQUEST)
        smoked.cases = (builds.case("another"),)
        search(smoked, Controls(smoked, Surroundings(no_change), never), target)
        for revision in LINE:
            smoked.test(revision, Unit(target, "wasm"), "smoke")
        killed_after(6, journal, builds, target, WRONG)
        builds.machine(HEALTHY)
        with Journal.open(path) as later:
            bench = builds.bench(journal if same_process else later, REQUEST)
            report = search(bench, Controls(bench, Surroundings(no_change), never), target)
    assert sides(report) == (LINE[FIRST_BAD - 1], LINE[FIRST_BAD])
    place = {revision.id: index for index, revision in enumerate(LINE)}
    told = {(place[t.revision] >= FIRST_BAD, t.verdict.outcome) for t in report.trials}
    assert told == {(False, Outcome.GOOD), (True, Outcome.BAD)}


@pytest.mark.parametrize("gone", [WRONG, GONE])
def test_what_a_probe_said_before_it_failed_as_a_whole_is_void_with_the_rest(
    journal: Journal, builds: Planted, target: Target, gone: str
) -> None:
    bench = builds.bench(journal, REQUEST)
    bench.cases = (builds.case("first"), builds.case("second"))
    unit = Unit(target, "wasm")
    bench.test(LINE[0], unit, "end")
    bench.settle(unit, healthy=True)
    builds.machine(WRONG)
    honest, ill = bench.tools.observe, 0

    def observe(*words: Any) -> list[Observation]:
        nonlocal ill
        seen = honest(*words)
        if len(seen) < len(bench.cases):
            return seen
        ill += 1
        if ill <= TRIES:
            seen[-1] = replace(seen[-1], ending=Ending.HARNESS, steps=())
        if ill == TRIES:
            builds.machine(gone)
        return seen

    bench.tools = replace(bench.tools, observe=observe)
    controls = Controls(bench, Surroundings(no_change), lambda _: builds.machine(HEALTHY))
    trials = controls.test(LINE[0], unit, "end")
    assert [t.verdict.outcome for t in trials] == ["good", "good"]


def test_a_last_look_confirms_right_outputs_and_asks_a_control_about_others(
    journal: Journal, builds: Planted, target: Target
) -> None:
    unit = Unit(target, "wasm")

    def asked(index: int, machine: str = HEALTHY) -> tuple[Outcome, bool, int]:
        builds.machine(machine)
        bench = builds.bench(journal, REQUEST)
        controls = Controls(bench, Surroundings(no_change), never)
        (trial,) = bench.test(LINE[index], unit, "check")
        controls.confirm()
        return trial.verdict.outcome, trial.reused, bench.tally["controls"]

    assert asked(0) == (Outcome.GOOD, False, 0)
    assert asked(0, GONE) == (Outcome.GOOD, True, 0)
    assert asked(-1) == (Outcome.BAD, False, 1)
    assert asked(-1, GONE) == (Outcome.BAD, True, 0)


@pytest.mark.browser
def test_a_check_on_an_ill_machine_is_no_verdict_and_is_not_recalled(builds: Planted, tmp_path: Path) -> None:
    request = replace(REQUEST, good=LINE[0].id, kind="check")
    with open_workshop(Silent(), tmp_path / "cache") as opened:
        fields = {name: getattr(opened, name) for name in Workshop.__dataclass_fields__}
        workshop = PlantedWorkshop(**fields, planted=builds)
        (first,) = check_request(replace(request, cases=("another",)), workshop)
        assert first.verdict.outcome is Outcome.GOOD
        builds.machine(WRONG)
        with pytest.raises(MachineError, match="the control failed on chrome/wasm"):
            check_request(request, workshop)
        assert [row.state for row in opened.journal.sessions()] == [SessionState.FAILED, SessionState.FINISHED]
        builds.machine(HEALTHY)
        told = [check_request(request, workshop)[0] for _ in range(2)]
    assert [(t.verdict.outcome, t.reused) for t in told] == [(Outcome.GOOD, False), (Outcome.GOOD, True)]


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
        renewed = workshop.renewed(second, request)
        assert (renewed.name, renewed.version) == ("chrome-2", "157.0.1.10")
        assert changes(second, renewed) == ("The browser changed from Chromium 156.0.1.1 to Chromium 157.0.1.10",)


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


@pytest.mark.parametrize("name", ["VK_ICD_FILENAMES", "VK_DRIVER_FILES", "DRI_PRIME", "__GLX_VENDOR_LIBRARY_NAME"])
@pytest.mark.browser
def test_an_environment_that_chooses_another_gpu_makes_another_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name, raising=False)
    with open_workshop(Silent(), tmp_path) as workshop:
        (before,) = workshop.targets(REQUEST)
        monkeypatch.setenv(name, "1")
        assert f"{name}=1" in gpu_environment()
        (after,) = workshop.targets(REQUEST)
        assert (before.version, before.fingerprint == after.fingerprint) == (after.version, False)
        monkeypatch.setenv("UNRELATED", "1")
        assert workshop.targets(REQUEST) == (after,)


@pytest.mark.browser
def test_an_adapter_is_looked_for_again_where_the_environment_or_the_flags_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = replace(REQUEST, backends=("webgpu",), adapter="software")
    monkeypatch.delenv("DRI_PRIME", raising=False)
    looks: list[str] = []

    class Looking(Silent):
        def doing(self, text: str) -> None:
            looks.extend([text] if "GPU adapters" in text else [])

    with open_workshop(Looking(), tmp_path) as workshop:
        (first,) = workshop.targets(request)
        assert workshop.targets(request) == (first,)
        assert len(looks) == 1
        monkeypatch.setenv("DRI_PRIME", "1")
        (second,) = workshop.targets(request)
        assert (len(looks), first.adapter, first.fingerprint == second.fingerprint) == (2, second.adapter, False)
        flags = {system: {**sets, "software": (*sets["software"], "--mute-audio")} for system, sets in FLAGS.items()}
        (third,) = replace(workshop, browsers=CONFIG.model_copy(update={"flags": flags})).targets(request)
        assert (len(looks), third.flags, third.fingerprint == second.fingerprint) == (3, second.flags, False)
        workshop.forget_adapters((replace(second, name="chrome-2"),))
        workshop.targets(request)
        assert len(looks) == 4
