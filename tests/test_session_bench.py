"""A bench believes what a machine can answer, retries what it cannot, and journals everything before it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_bot import paths
from bisect_bot.cases import smoke as smoke_case
from bisect_bot.errors import BuildUnusable, MachineError, NoAdapter, UnknownRevision
from bisect_bot.model import (
    Artifact,
    Case,
    Ending,
    Failure,
    Observation,
    Outcome,
    PageError,
    Request,
    Revision,
    Stage,
    Step,
    Target,
    Verdict,
)
from bisect_bot.probes import Probe, plain_target
from bisect_bot.session.bench import Bench
from bisect_bot.session.journal import Journal
from bisect_bot.session.smoke import after_smoke
from bisect_bot.session.tools import Tools
from bisect_bot.session.units import Unit
from bisect_bot.session.violence import if_repeated, violence_of
from bisect_bot.session.watcher import Silent
from bisect_bot.targets.browsers import BrowserConfig, load_config, locate
from bisect_bot.verdicts import judge, load_rules, load_tolerances
from tests.planted import planted_artifact, planted_bundle, planted_cases
from tests.planted_builds import NOWHERE, OnCase, plant

CONFIG = load_config()
TOLERANCES = load_tolerances(paths.config_file("tolerances.toml"))
RULES = load_rules(paths.config_file("verdicts.toml"))
REVISION = Revision("1.0.0", "1.0.0")


@pytest.fixture
def target() -> Target:
    """The installed browser."""
    return plain_target(locate("chrome", CONFIG), "any", ())


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A fresh journal."""
    with Journal.open(tmp_path / "journal.sqlite3") as opened:
        yield opened


def bench(
    journal: Journal,
    folder: Path,
    *words: str,
    fetch: Callable[[Revision], tuple[Artifact, bool]] | None = None,
    is_intact: Callable[[Artifact], bool] = lambda _: True,
    smoke: str = "echo",
    case_timeout_s: float = 10,
) -> Bench:
    """A bench over planted cases, each in its own page; by default every revision is the same planted artifact."""
    artifact = planted_artifact(folder / "artifact")
    request = Request("1.0.0", "1.1.0", words, isolate=True, case_timeout_s=case_timeout_s)
    tools = Tools(
        journal=journal,
        judge=lambda observation, case: judge(observation, case, TOLERANCES, RULES),
        rules="",
        browsers=CONFIG,
        fetch=fetch or (lambda _: (artifact, False)),
        is_intact=is_intact,
        bundle_for=lambda _revision, _backend: planted_bundle(),
        watcher=Silent(),
    )
    (smoke_planted,) = planted_cases(folder / "smoke", smoke)
    cases = tuple(planted_cases(folder / "cases", *words))
    return Bench(journal.start_session(request), request, cases, smoke_planted, tools)


@pytest.mark.browser
def test_every_case_gets_its_own_verdict_after_one_of_them_failed(
    journal: Journal, tmp_path: Path, target: Target
) -> None:
    words = ["echo", "echo", "throw", *["echo"] * 7]
    trials = bench(journal, tmp_path, *words).test(REVISION, Unit(target, "wasm"), "search")
    assert [t.verdict.outcome for t in trials] == [Outcome.BAD if word == "throw" else Outcome.GOOD for word in words]


@pytest.mark.browser
def test_the_same_question_is_tested_afresh_once_more_and_recalled_ever_after(
    journal: Journal, tmp_path: Path, target: Target
) -> None:
    unit = Unit(target, "wasm")
    first = bench(journal, tmp_path, "echo")
    assert [first.test(REVISION, unit, "end")[0].reused for _ in range(2)] == [False, False]
    assert first.tally["probes"] == 2
    first.settle(unit, healthy=True)
    second = bench(journal, tmp_path, "echo")
    assert [second.test(REVISION, unit, "end")[0].reused for _ in range(3)] == [True, True, False]
    assert second.tally["probes"] == 1


@pytest.mark.browser
def test_a_verdict_of_another_browser_or_other_neighbours_in_the_page_is_not_recalled(
    journal: Journal, tmp_path: Path, target: Target
) -> None:
    unit = Unit(target, "wasm")
    first = bench(journal, tmp_path, "echo")
    first.test(REVISION, unit, "end")
    first.settle(unit, healthy=True)
    updated = Unit(replace(target, version="999.0.0.0"), "wasm")
    assert not bench(journal, tmp_path, "echo").test(REVISION, updated, "end")[0].reused
    shared = bench(journal, tmp_path, "echo", "echo ")
    shared.request = replace(shared.request, isolate=False)
    assert not shared.test(REVISION, unit, "end")[0].reused


@pytest.mark.browser
def test_a_recalled_failure_bears_the_name_that_the_case_has_now(
    journal: Journal, tmp_path: Path, target: Target
) -> None:
    unit = Unit(target, "wasm")
    named = bench(journal, tmp_path, "throw")
    named.test(REVISION, unit, "end")
    named.settle(unit, healthy=True)
    renamed = bench(journal, tmp_path, "throw")
    renamed.cases = (replace(renamed.cases[0], name="another name"),)
    (trial,) = renamed.test(REVISION, unit, "end")
    assert trial.reused
    assert trial.verdict.signature is not None
    assert trial.verdict.signature.case == "another name"


@pytest.mark.browser
def test_a_build_that_fails_its_smoke_case_is_skipped_not_bad(journal: Journal, tmp_path: Path, target: Target) -> None:
    (trial,) = bench(journal, tmp_path, "throw", smoke="throw-in-create").test(REVISION, Unit(target, "wasm"), "end")
    assert trial.verdict.outcome is Outcome.SKIP
    assert "smoke" in trial.verdict.reason and "cannot create" in trial.verdict.reason


def test_a_build_that_cannot_be_had_is_skipped_without_a_browser(journal: Journal, tmp_path: Path) -> None:
    def no_build(revision: Revision) -> tuple[Artifact, bool]:
        raise BuildUnusable("the package lacks its wasm")

    nowhere = Target("chrome", "/nowhere", "1", "linux", "", "any")
    made = bench(journal, tmp_path, "echo", "echo ", fetch=no_build)
    trials = made.test(REVISION, Unit(nowhere, "wasm"), "search")
    assert [(t.verdict.outcome, t.verdict.reason) for t in trials] == [
        (Outcome.SKIP, "no artifact: the package lacks its wasm")
    ] * 2
    assert made.tally["probes"] == 0


def test_a_build_that_the_registry_no_longer_serves_is_skipped(journal: Journal, tmp_path: Path) -> None:
    def gone(revision: Revision) -> tuple[Artifact, bool]:
        raise UnknownRevision("no such version")

    nowhere = Target("chrome", "/nowhere", "1", "linux", "", "any")
    (trial,) = bench(journal, tmp_path, "echo", fetch=gone).test(REVISION, Unit(nowhere, "wasm"), "search")
    assert (trial.verdict.outcome, trial.verdict.reason) == (Outcome.SKIP, "no artifact: no such version")


@pytest.mark.browser
def test_a_damaged_artifact_is_fetched_again_before_it_is_tested(
    journal: Journal, tmp_path: Path, target: Target
) -> None:
    fetched: list[str] = []

    def fetch(revision: Revision) -> tuple[Artifact, bool]:
        fetched.append(revision.id)
        return planted_artifact(tmp_path / "artifact"), False

    made = bench(journal, tmp_path, "echo", fetch=fetch, is_intact=lambda _: len(fetched) > 1)
    made.test(REVISION, Unit(target, "wasm"), "end")
    assert len(fetched) == 2


def test_a_damaged_artifact_that_can_no_longer_be_had_is_skipped(journal: Journal, tmp_path: Path) -> None:
    artifact = planted_artifact(tmp_path / "artifact")
    answers = iter([(artifact, True)])

    def fetch(revision: Revision) -> tuple[Artifact, bool]:
        for answer in answers:
            return answer
        raise BuildUnusable("its package lacks a file")

    nowhere = Target("chrome", "/nowhere", "1", "linux", "", "any")
    made = bench(journal, tmp_path, "echo", fetch=fetch, is_intact=lambda _: False)
    (trial,) = made.test(REVISION, Unit(nowhere, "wasm"), "search")
    assert (trial.verdict.outcome, trial.verdict.reason) == (Outcome.SKIP, "no artifact: its package lacks a file")


@pytest.mark.parametrize("failing", ["wasm", "webgpu"])
def test_a_build_whose_smoke_case_fails_on_either_backend_is_skipped_never_bad(
    journal: Journal, tmp_path: Path, failing: str
) -> None:
    answers = {backend: "times 2 smoke fails" if backend == failing else "times 2" for backend in ("wasm", "webgpu")}
    planted = plant(tmp_path / "builds", [REVISION], lambda _: answers)
    made = planted.bench(journal, Request("1.0.0", "1.1.0", ("case",)))
    (trial,) = made.test(REVISION, Unit(NOWHERE, "webgpu"), "search")
    assert trial.verdict.outcome is Outcome.SKIP
    assert trial.verdict.reason.startswith(f"does not run here: the smoke case is bad: on {failing}: ")


def test_a_build_is_smoked_on_wasm_and_on_the_backend_under_test_and_once(journal: Journal, tmp_path: Path) -> None:
    planted = plant(tmp_path / "builds", [REVISION], lambda _: "times 1")
    made = planted.bench(journal, Request("1.0.0", "1.1.0", ("case",)))
    smoked: list[tuple[str, ...]] = []

    def observe(probe: Probe, config: BrowserConfig, on_case: OnCase) -> list[Observation]:
        smoked.append(tuple(probe.backend_of(index) for index in range(probe.smokes)))
        return planted.observe(probe, config, on_case)

    made.tools = replace(made.tools, observe=observe)
    for _ in range(2):
        made.test(REVISION, Unit(NOWHERE, "webgpu"), "search")
    made.test(REVISION, Unit(NOWHERE, "wasm"), "search")
    assert smoked == [("wasm", "webgpu"), (), ()]


@pytest.mark.browser
def test_a_smoke_case_that_was_not_good_is_asked_again_in_the_next_session(
    journal: Journal, tmp_path: Path, target: Target
) -> None:
    unit = Unit(target, "wasm")
    first = bench(journal, tmp_path, "echo", smoke="throw")
    assert first.test(REVISION, unit, "end")[0].verdict.outcome is Outcome.SKIP
    again = bench(journal, tmp_path, "echo", smoke="throw")
    (trial,) = again.test(REVISION, unit, "end")
    assert (trial.verdict.outcome, trial.reused, again.tally["probes"]) == (Outcome.SKIP, False, 1)


def test_a_browser_that_never_starts_is_this_machines_fault(journal: Journal, tmp_path: Path) -> None:
    nowhere = Target("chrome", str(tmp_path / "nowhere"), "1", "linux", "", "any")
    made = bench(journal, tmp_path, "echo")
    with pytest.raises(MachineError, match="does not start"):
        made.test(REVISION, Unit(nowhere, "wasm"), "search")
    assert made.tally["probes"] == 3
    assert made.trials == []


@pytest.mark.browser
def test_a_missing_adapter_ends_the_session_and_records_nothing_bad(
    journal: Journal, tmp_path: Path, target: Target
) -> None:
    blind = replace(target, extra_args=("--disable-software-rasterizer",), flags="software")
    made = bench(journal, tmp_path, "gpu")
    with pytest.raises(NoAdapter, match=r"1\.0\.0"):
        made.test(REVISION, Unit(blind, "webgpu"), "search")
    assert made.trials == []
    fresh = bench(journal, tmp_path, "gpu")
    with pytest.raises(NoAdapter):
        fresh.test(REVISION, Unit(blind, "webgpu"), "search")
    assert fresh.tally["verdicts_reused"] == 0


@pytest.mark.browser
def test_a_hang_that_repeats_is_the_cases_own_failure(journal: Journal, tmp_path: Path, target: Target) -> None:
    made = bench(journal, tmp_path, "wait", "echo", case_timeout_s=4)
    trials = made.test(REVISION, Unit(target, "wasm"), "end")
    assert [t.verdict.outcome for t in trials] == [Outcome.BAD, Outcome.GOOD]
    assert trials[0].verdict.signature is not None
    assert trials[0].verdict.signature.kind is Failure.HANG
    assert (made.tally["probes"], made.tally["infra"]) == (2, 1)


@pytest.mark.parametrize("ending", [Ending.HANG, Ending.CRASH, Ending.BROWSER_GONE])
def test_a_violent_ending_is_believed_only_when_it_repeats(tmp_path: Path, ending: Ending) -> None:
    (case,) = planted_cases(tmp_path, "wait")
    first = judge(
        Observation(case.name, "", "", "wasm", ending, errors=(PageError(Stage.HARNESS, "gone"),)),
        case,
        TOLERANCES,
        RULES,
    )
    assert if_repeated(first, case, 1).outcome is Outcome.INFRA
    repeated = if_repeated(first, case, 2)
    assert repeated.outcome is Outcome.BAD
    assert repeated.signature is not None
    assert repeated.signature.kind in (Failure.HANG, Failure.CRASH)


def test_a_lost_device_is_believed_only_when_it_repeats(tmp_path: Path) -> None:
    (case,) = planted_cases(tmp_path, "gpu")
    steps = (Step(outputs=(case.data_sets[0].expected,)),)
    seen = Observation(case.name, "", "", "webgpu", Ending.COMPLETED, steps, gpu_errors=("device lost (unknown): x",))
    assert violence_of(seen) == "device lost"
    assert violence_of(replace(seen, gpu_errors=("GPUValidationError: x",))) is None
    verdict = judge(seen, case, TOLERANCES, RULES)
    assert (verdict.outcome, if_repeated(verdict, case, 1).outcome) == (Outcome.BAD, Outcome.INFRA)
    assert if_repeated(verdict, case, 2) == verdict


@pytest.mark.parametrize("outcome", [Outcome.BAD, Outcome.SKIP])
def test_no_verdict_passes_a_smoke_case_that_is_not_good(outcome: Outcome) -> None:
    good = Verdict(Outcome.GOOD, "")
    assert after_smoke(Verdict(Outcome.GOOD, ""), good) == good
    assert after_smoke(Verdict(outcome, "why"), good).outcome is Outcome.SKIP
    assert after_smoke(None, good).outcome is Outcome.INFRA


def test_the_real_smoke_case_is_good_when_its_outputs_are_right(tmp_path: Path) -> None:
    case: Case = smoke_case(tmp_path)
    steps = (Step(outputs=tuple(data_set.expected for data_set in case.data_sets)),)
    seen = Observation(case.name, "", "", "wasm", Ending.COMPLETED, steps)
    assert judge(seen, case, TOLERANCES, RULES).outcome is Outcome.GOOD


def test_two_cases_of_one_name_have_no_bench(journal: Journal, tmp_path: Path) -> None:
    made = bench(journal, tmp_path, "echo", "throw")
    with pytest.raises(AssertionError, match="known by its case's name"):
        replace(made, cases=(made.cases[0], replace(made.cases[1], name=made.cases[0].name)))
