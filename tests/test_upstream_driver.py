"""The driver of upstream's test runner, with a stand-in that prints what the real one does and needs no browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bisect_bot import cases
from bisect_bot.cases import smoke
from bisect_bot.cases.making import Making
from bisect_bot.errors import NoBrowser, UsageError
from bisect_bot.model import (
    Artifact,
    Bundle,
    Case,
    CaseKind,
    Ending,
    Loader,
    Observation,
    Request,
    Stage,
    Target,
)
from bisect_bot.probes import Limits, Probe
from bisect_bot.probes.upstream import refuse_upstream, runner, upstream_driver
from bisect_bot.probes.upstream.launching import browser_wrapper
from bisect_bot.processes import run
from bisect_bot.targets.browsers import load_config
from tests.models import one_node, save_case
from tests.upstream_runner import RUNNER, SCRIPT

CONFIG = load_config()
TARGET = Target("chrome", "/bin/true", "1", "linux", "software", "any")
REQUEST = Request("1", "2", ("c",))


@dataclass
class Checkout:
    """A checkout with the stand-in, and an artifact beside it."""

    root: Path
    place: Path

    def plant(self, **what: object) -> None:
        """Says how the stand-in answers."""
        (self.root / "js/web/lib/planted.json").write_text(json.dumps(what))

    def runs(self) -> list[dict[str, Any]]:
        """What each run of the stand-in was asked."""
        recorded = self.root / "js/web/runs.json"
        return [json.loads(line) for line in recorded.read_text().splitlines()] if recorded.exists() else []

    def case(self, name: str = "smoke") -> Case:
        """The smoke case under another name, from a folder."""
        return replace(smoke(self.place / "cache"), name=name)

    def manifest(self, *tests: tuple[str, str, int]) -> tuple[Case, ...]:
        """Cases of a manifest with tests of a name, an operator and a number of data sets."""
        one = {"data": [1, 2], "dims": [2], "type": "float32"}
        data = [
            {
                "name": name,
                "operator": operator,
                "cases": [{"name": f"set {n}", "inputs": [one], "outputs": [one]} for n in range(count)],
            }
            for name, operator, count in tests
        ]
        path = self.place / "tests.jsonc"
        path.write_text(json.dumps(data))
        return cases.load_all([str(path)], Making(root=self.place / "cache"))

    def probe(self, *given: Case, **more: Any) -> Probe:
        """A probe of `given` on webgpu."""
        artifact = Artifact("r", "k", f"sha256:{'1' * 64}", self.place / "artifact")
        bundle = Bundle("all", "ort.all.min.js", Loader.SCRIPT, "jsep", ("wasm", "webgpu"))
        return Probe(artifact, bundle, TARGET, "webgpu", given, **more)

    def observe(self, probe: Probe) -> list[Observation]:
        """What the driver says of `probe`."""

        @contextmanager
        def place(_probe: Probe) -> Iterator[Path]:
            yield self.root

        return upstream_driver(place, self.place / "logs")(probe, CONFIG, lambda _index, _seen: None)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout in which everything is right."""
    made = Checkout(tmp_path / "tree", tmp_path)
    for folder in ("js/web/script", "js/web/lib", "js/web/test/data/ops"):
        (made.root / folder).mkdir(parents=True)
    (made.root / RUNNER).write_text(SCRIPT)
    (made.root / "js/web/test/suite-test-list.jsonc").write_text("// upstream's own\n{}\n")
    (tmp_path / "artifact").mkdir()
    for name in ("ort-wasm-simd-threaded.jsep.wasm", "ort-wasm-simd-threaded.jsep.mjs", "ort.all.min.js"):
        (tmp_path / "artifact" / name).write_text(name)
    return made


def files(root: Path) -> dict[str, bytes]:
    """All files below `root`, but for what the stand-in writes."""
    found = (path for path in root.rglob("*") if path.is_file() and path.name != "runs.json")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def test_the_smoke_case_comes_first_on_each_backend_and_a_manifest_runs_in_one_page_in_its_order(
    checkout: Checkout,
) -> None:
    tests = checkout.manifest(("zeta", "Abs", 2), ("alpha", "Neg", 1))
    probe = checkout.probe(*tests, smoke=checkout.case(), smoke_backends=("wasm", "webgpu"))
    seen = checkout.observe(probe)
    assert [(o.case, o.backend) for o in seen] == [
        ("smoke", "wasm"),
        ("smoke", "webgpu"),
        ("zeta", "webgpu"),
        ("alpha", "webgpu"),
    ]
    assert all(o.ending is Ending.COMPLETED and o.told is not None and o.told.passed for o in seen)
    first, second = checkout.runs()
    assert first["words"][:3] == ["suite1", "--backend", "wasm,webgpu"]
    assert first["tests"] == ["[wasm] case-0000", "[webgpu] case-0001"]
    assert second["words"] == ["op", "bisect-bot.jsonc", "--backend", "webgpu", "--env", "chrome"]
    assert second["tests"] == ["[webgpu]Abs - case-0002 zeta", "[webgpu]Neg - case-0003 alpha"]


def test_the_runner_gets_the_artifacts_webassembly_and_the_checkout_is_left_as_it_was(checkout: Checkout) -> None:
    before = files(checkout.root)
    checkout.observe(checkout.probe(*checkout.manifest(("a", "Abs", 1)), checkout.case("model")))
    assert files(checkout.root) == before
    assert [each["dist"] for each in checkout.runs()] == [
        ["ort-wasm-simd-threaded.jsep.mjs", "ort-wasm-simd-threaded.jsep.wasm"]
    ] * 2


def test_isolated_cases_have_a_page_each(checkout: Checkout) -> None:
    tests = checkout.manifest(("a", "Abs", 1), ("b", "Neg", 1))
    checkout.observe(checkout.probe(*tests, isolate=True))
    assert [each["tests"] for each in checkout.runs()] == [["[webgpu]Abs - case-0000 a"], ["[webgpu]Neg - case-0001 b"]]


@pytest.mark.parametrize("batch", [False, True])
def test_a_wrong_output_is_told_with_its_values_and_its_data_set(checkout: Checkout, batch: bool) -> None:
    checkout.plant(wrong=["Neg"], batch=batch)
    good, bad = checkout.observe(checkout.probe(*checkout.manifest(("a", "Abs", 1), ("b", "Neg", 2))))
    assert good.told is not None
    assert good.told.passed
    assert bad.told is not None
    assert (bad.ending, bad.told.passed, bad.told.data_set) == (Ending.COMPLETED, False, "set 0")
    assert bad.told.mismatches[0].expected == 1
    assert bad.told.mismatches[0].actual == 2
    assert bad.outputs[0][0].array().tolist() == [2, 2]
    assert bad.bundle == "ort.all.js"


def test_after_an_exception_what_failed_later_in_the_page_runs_again_and_what_passed_does_not(
    checkout: Checkout,
) -> None:
    checkout.plant(throws=["Neg", "Floor"])
    tests = checkout.manifest(("a", "Neg", 1), ("b", "Abs", 1), ("c", "Floor", 1))
    seen = checkout.observe(checkout.probe(*tests))
    assert [o.ending for o in seen] == [Ending.ERROR, Ending.COMPLETED, Ending.ERROR]
    assert seen[0].errors[0].stage is Stage.RUN
    assert seen[0].errors[0].message == "Error: planted failure"
    assert [each["tests"] for each in checkout.runs()][1:] == [["[webgpu]Floor - case-0002 c"]]


def test_gpu_errors_of_a_page_are_those_of_the_first_case_that_has_them_and_the_next_gets_a_fresh_page(
    checkout: Checkout,
) -> None:
    checkout.plant(wrong=["Neg", "Floor"], gpu="'f16' type used without 'f16' extension enabled", batch=True)
    tests = checkout.manifest(("a", "Abs", 1), ("b", "Neg", 1), ("c", "Floor", 1))
    good, first, second = checkout.observe(checkout.probe(*tests))
    assert (good.ending, good.gpu_errors) == (Ending.COMPLETED, ())
    expected = ("GPUValidationError: 'f16' type used without 'f16' extension enabled",)
    assert (first.gpu_errors, second.gpu_errors) == (expected, expected)
    assert [len(each["tests"]) for each in checkout.runs()] == [3, 2, 1]


def test_a_runner_that_does_not_build_is_asked_once_and_answers_for_all(checkout: Checkout) -> None:
    checkout.plant(fails="Could not resolve './gone'")
    tests = checkout.manifest(("a", "Abs", 1), ("b", "Neg", 1))
    seen = checkout.observe(checkout.probe(*tests, smoke=checkout.case(), smoke_backends=("webgpu",)))
    assert [o.case for o in seen] == ["smoke", "a", "b"]
    assert {(o.ending, o.errors[0].stage) for o in seen} == {(Ending.ERROR, Stage.LOAD)}
    assert "Could not resolve './gone'" in seen[0].errors[0].message
    assert len(list((checkout.place / "logs").iterdir())) == 1


def test_a_case_that_the_runner_says_nothing_of_is_no_answer(checkout: Checkout) -> None:
    checkout.plant(prints=["Neg"], says="Error: no space left on device")
    good, nothing = checkout.observe(checkout.probe(*checkout.manifest(("a", "Abs", 1), ("b", "Neg", 1))))
    assert good.ending is Ending.COMPLETED
    assert nothing.ending is Ending.HARNESS
    assert "no space left on device" in nothing.errors[0].message
    assert str(checkout.place / "logs") in nothing.console[-1]


def test_a_hang_is_found_to_be_the_case_that_hangs_and_the_others_are_answered(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "GRACE_S", 0.2)
    checkout.plant(silent=["Neg"], batch=True)
    tests = checkout.manifest(("a", "Abs", 1), ("b", "Neg", 1), ("c", "Floor", 1))
    seen = checkout.observe(checkout.probe(*tests, limits=Limits(1.0, 60)))
    assert [o.ending for o in seen] == [Ending.COMPLETED, Ending.HANG, Ending.COMPLETED]


def test_when_the_probes_time_is_over_what_is_left_is_no_answer(checkout: Checkout) -> None:
    checkout.plant(silent=["Abs"])
    begin = time.monotonic()
    seen = checkout.observe(checkout.probe(*checkout.manifest(("a", "Abs", 1), ("b", "Neg", 1)), limits=Limits(60, 2)))
    assert time.monotonic() - begin < 20
    assert [o.ending for o in seen] == [Ending.HARNESS, Ending.HARNESS]
    assert "--probe-timeout" in seen[0].errors[0].message


def test_a_browser_that_does_not_start_is_said_to_be_none(checkout: Checkout) -> None:
    words = "30 11 2026 20:25:48.279:ERROR [launcher]: Cannot start Chrome"
    (checkout.root / RUNNER).write_text(f"console.log('Running karma'); console.log('{words}'); process.exit(1)")
    with pytest.raises(NoBrowser, match="Cannot start Chrome"):
        checkout.observe(checkout.probe(checkout.case()))


def test_the_browser_gets_the_targets_flags_after_those_of_the_runner(tmp_path: Path) -> None:
    echo = tmp_path / "a browser"
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    echo.chmod(0o755)
    wrapper = browser_wrapper(tmp_path, echo, ["--host-resolver-rules=MAP * ~NOTFOUND", "--b"])
    done = run([str(wrapper), "--own", "http://localhost:9876/"], timeout_s=10)
    assert done.stdout.splitlines() == [
        "--own",
        "http://localhost:9876/",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--b",
    ]


def test_a_case_of_a_manifest_keeps_its_test_when_it_is_pinned_and_recalled(checkout: Checkout) -> None:
    (case,) = checkout.manifest(("a", "Abs", 2))
    entry = json.loads(case.manifest)
    assert (entry["operator"], [each["name"] for each in entry["cases"]]) == ("Abs", ["set 0", "set 1"])
    assert entry["opset"] == {"domain": "", "version": 21}, "another era's default would be another model"
    assert cases.load_pinned(case.digest, case.name, checkout.place / "cache").manifest == case.manifest
    model = one_node("Abs", {"x": np.ones(2, "<f4")}, 1, opset=13, ir=7)
    folder = save_case(checkout.place / "folder", model, {"x": np.ones(2, "<f4")})
    assert not cases.load_all([str(folder)], Making(root=checkout.place / "cache"))[0].manifest


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"runs": 2}, "--runs"),
        ({"recreate": 1}, "--recreate"),
        ({"fresh_pages": 1}, "--fresh-page"),
        ({"against": "wasm"}, "--against wasm"),
        ({"require_provider": "webgpu"}, "--require-provider"),
        ({"bundle": "webgpu"}, "--bundle webgpu"),
        ({"source": "published"}, "--source published"),
    ],
)
def test_what_the_runner_cannot_do_is_refused_before_anything_is_built(
    checkout: Checkout, asked: dict[str, Any], named: str
) -> None:
    with pytest.raises(UsageError, match=named) as refused:
        refuse_upstream(replace(REQUEST, **asked), (checkout.case(),))
    assert "--driver" in refused.value.advice


def test_cases_that_the_runner_cannot_run_are_refused(checkout: Checkout) -> None:
    case = checkout.case("mine")
    refuse_upstream(REQUEST, (case,))
    for other in (
        replace(case, kind=CaseKind.SCRIPT),
        replace(case, feed=(("h", "h0"),)),
        replace(case, external=("w",)),
    ):
        with pytest.raises(UsageError, match="mine"):
            refuse_upstream(REQUEST, (case, other))
