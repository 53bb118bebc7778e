"""What outputs are compared with when it is not the case's own files: the same build's wasm, or the good end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_bot.errors import MachineError, UsageError
from bisect_bot.model import CaseKind, Outcome, Request
from bisect_bot.probes import plain_target
from bisect_bot.session import against
from bisect_bot.session import journal as journal_module
from bisect_bot.session.journal import Journal
from bisect_bot.session.units import Unit
from bisect_bot.targets.browsers import locate
from tests.planted_builds import CONFIG, NOWHERE, Planted, plant, revisions

LINE = revisions(3)
GOOD, MIDDLE, BAD = LINE
UNIT = Unit(NOWHERE, "webgpu")
REQUEST = Request(GOOD.id, BAD.id, ("case",), against="wasm")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A fresh journal."""
    with Journal.open(tmp_path / "journal.sqlite3") as opened:
        yield opened


def built(folder: Path, *answers: tuple[str, str]) -> Planted:
    """Builds of LINE that answer, each, so on wasm and so on webgpu."""
    return plant(folder / "builds", LINE, lambda i: dict(zip(("wasm", "webgpu"), answers[i], strict=True)))


def verdict_of(builds: Planted, journal: Journal, request: Request, index: int) -> tuple[Outcome, str]:
    """Outcome and reason of the build at `index`."""
    (trial,) = builds.bench(journal, request, GOOD).test(LINE[index], UNIT, "search")
    return trial.verdict.outcome, trial.verdict.reason


def test_against_wasm_only_what_differs_from_the_same_builds_wasm_is_bad(journal: Journal, tmp_path: Path) -> None:
    builds = built(tmp_path, ("times 2", "times 2"), ("times 2", "times 3"), ("throws", "times 2"))
    assert verdict_of(builds, journal, replace(REQUEST, against="reference"), 0)[0] is Outcome.BAD
    assert verdict_of(builds, journal, REQUEST, 0)[0] is Outcome.GOOD
    outcome, reason = verdict_of(builds, journal, REQUEST, 1)
    assert outcome is Outcome.BAD
    assert "is 3 instead of 2" in reason
    outcome, reason = verdict_of(builds, journal, REQUEST, 2)
    assert outcome is Outcome.SKIP, "a build whose wasm gives nothing cannot be compared with it"
    assert reason.startswith(f"wasm of {BAD.id}, which it is compared with, gives nothing")


def test_against_the_good_end_only_what_differs_from_it_is_bad(journal: Journal, tmp_path: Path) -> None:
    builds = built(tmp_path, ("times 1", "times 2"), ("times 1", "times 2"), ("times 1", "times 3"))
    request = replace(REQUEST, against="good-end")
    assert [verdict_of(builds, journal, request, index)[0] for index in range(3)] == ["good", "good", "bad"]


def test_a_good_end_without_outputs_ends_the_session(journal: Journal, tmp_path: Path) -> None:
    builds = built(tmp_path, ("times 1", "throws"), ("times 1", "times 2"), ("times 1", "times 3"))
    with pytest.raises(MachineError, match=r"nothing to compare with on the good end 1\.20\.1") as raised:
        verdict_of(builds, journal, replace(REQUEST, against="good-end"), 1)
    assert "--against wasm" in raised.value.advice


@pytest.mark.parametrize("mode", ["wasm", "good-end"])
@pytest.mark.parametrize("kept", [pytest.param(True, id="small outputs"), pytest.param(False, id="large outputs")])
def test_a_reference_is_run_once_and_its_verdicts_are_recalled(
    journal: Journal, tmp_path: Path, mode: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kept:
        monkeypatch.setattr(journal_module, "MAX_TENSOR_BYTES", 0)
    builds = built(tmp_path, *[("times 2", "times 2")] * 3)
    request = replace(REQUEST, against=mode)
    bench = builds.bench(journal, request, GOOD)
    trials = [*bench.test(MIDDLE, UNIT, "end"), *bench.test(MIDDLE, UNIT, "end")]
    assert [t.verdict.outcome for t in trials] == ["good", "good"]
    assert bench.tally["probes"] == 3, "the reference and two tests"
    bench.settle(UNIT, healthy=True)
    again = builds.bench(journal, request, GOOD)
    recalled = [again.test(MIDDLE, UNIT, "end")[0] for _ in range(2)]
    assert [t.reused for t in recalled] == [True, True]
    assert again.tally["probes"] == 0
    (third,) = again.test(MIDDLE, UNIT, "end")
    assert third.verdict.outcome is Outcome.GOOD
    assert again.tally["probes"] == (1 if kept else 2), "what was too large to keep is computed again"


def test_a_verdict_against_one_reference_is_none_against_another(journal: Journal, tmp_path: Path) -> None:
    builds = built(tmp_path, *[("times 2", "times 2")] * 3)
    for mode in against.CASES, against.WASM, against.GOOD_END:
        request = replace(REQUEST, against=mode)
        (trial,) = builds.bench(journal, request, GOOD).test(MIDDLE, UNIT, "search")
        assert not trial.reused


def test_a_reference_of_an_ill_machine_is_void_too(journal: Journal, tmp_path: Path) -> None:
    builds = built(tmp_path, *[("times 2", "times 2")] * 3)
    bench = builds.bench(journal, REQUEST, GOOD)
    bench.test(GOOD, UNIT, "end")
    bench.settle(UNIT, healthy=True)
    builds.machine("wrong")
    bench.settle(UNIT, healthy=False)
    bench.test(MIDDLE, UNIT, "end")
    bench.settle(UNIT, healthy=False)
    builds.machine("healthy")
    (trial,) = bench.test(MIDDLE, UNIT, "end")
    assert trial.verdict.outcome is Outcome.GOOD


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    builds = built(tmp_path, *[("times 1", "times 1")] * 3)
    case = builds.case("case")
    against.refuse(REQUEST, (case,))
    with pytest.raises(UsageError, match="cannot be used with repro"):
        against.refuse(REQUEST, (case, replace(case, name="repro", kind=CaseKind.SCRIPT)))
    for backends in ("wasm",), ("webgpu", "wasm"):
        for kind in ("run", "check", "matrix"):
            with pytest.raises(UsageError, match="compares each build with itself") as raised:
                against.refuse(replace(REQUEST, kind=kind, backends=backends), (case,))
            assert "other backends" in raised.value.advice
        against.refuse(replace(REQUEST, against="good-end", backends=backends), (case,))
    with pytest.raises(UsageError, match="needs a good end"):
        against.refuse(replace(REQUEST, against="good-end", kind="check"), (case,))


@pytest.mark.browser
def test_in_a_browser_the_reference_runs_on_wasm(journal: Journal, tmp_path: Path) -> None:
    builds = built(tmp_path, ("times 2", "times 2"), ("times 2", "times 3"), ("throws", "times 2"))
    target = replace(plain_target(locate("chrome", CONFIG), "any", ()), flags="software")
    bench = builds.bench(journal, REQUEST, GOOD, in_browser=True)
    outcomes = [bench.test(revision, Unit(target, "webgpu"), "search")[0].verdict.outcome for revision in LINE]
    assert outcomes == ["good", "bad", "skip"]
