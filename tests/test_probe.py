"""A probe answers for every case, whatever one of them does to the page or the browser, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from bisect_bot.errors import NoAdapter, NoBrowser
from bisect_bot.model import Ending, Observation, Stage, Target
from bisect_bot.probes import Limits, Probe, choose_target, plain_target, run_probe
from bisect_bot.probes.probe import OnCase
from bisect_bot.scratch import PREFIX
from bisect_bot.targets.browsers import Browser, load_config, locate
from tests.planted import INPUT, planted_artifact, planted_bundle, planted_cases

CONFIG = load_config()
NO_SOFTWARE = ("--disable-software-rasterizer",)


@pytest.fixture(scope="module")
def target() -> Target:
    """The installed browser, without a look at its adapter."""
    return plain_target(locate("chrome", CONFIG), "any", ())


def probe(
    target: Target, folder: Path, *words: str, on_case: OnCase = lambda _index, _seen: None, **changes: object
) -> list[Observation]:
    """What a probe of planted cases observes."""
    made = Probe(
        artifact=planted_artifact(folder / "artifact"),
        bundle=planted_bundle(),
        target=target,
        backend="wasm",
        cases=tuple(planted_cases(folder / "cases", *words)),
        limits=Limits(case_s=20, probe_s=120),
    )
    return run_probe(replace(made, **changes), CONFIG, on_case)  # type: ignore[arg-type]


def endings(observations: list[Observation]) -> list[Ending]:
    return [o.ending for o in observations]


def leftovers() -> list[str]:
    """Our browsers and folders that are still there, by name."""
    ours = [str(p) for p in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if (p / "owner.json").exists()]
    return [f for f in ours if f'"pid": {psutil.Process().pid},' in (Path(f) / "owner.json").read_text()]


@pytest.mark.browser
@pytest.mark.parametrize("file", ["ort.mjs", "ort.js"])
def test_outputs_times_and_console_come_back(target: Target, tmp_path: Path, file: str) -> None:
    (seen,) = probe(target, tmp_path, "echo", bundle=planted_bundle(file))
    assert seen.ending is Ending.COMPLETED
    assert np.array_equal(seen.outputs[0][0].array(), INPUT)
    assert {"load", "create", "run", "total"} <= {step for step, _ in seen.times_ms}
    assert seen.console == ("log: created with wasm",)
    assert (seen.bundle, seen.backend) == (file, "wasm")
    assert leftovers() == []


@pytest.mark.browser
def test_cases_after_a_failed_kernel_get_a_fresh_page(target: Target, tmp_path: Path) -> None:
    seen = probe(target, tmp_path, "echo", "echo", "throw", *["echo"] * 7)
    assert endings(seen) == [Ending.COMPLETED] * 2 + [Ending.ERROR] + [Ending.COMPLETED] * 7
    assert (seen[2].errors[0].stage, seen[2].errors[0].message) == (Stage.RUN, "TypeError: kernel failed")
    assert "kernel failed" in seen[2].errors[0].stack
    assert [o.case.partition("-")[0] for o in seen] == [str(n) for n in range(10)]


@pytest.mark.browser
def test_each_step_that_fails_is_named(target: Target, tmp_path: Path) -> None:
    seen = probe(target, tmp_path, "throw-in-create", "throw-in-release", "string", "lie", "alert")
    assert [o.errors[0].stage if o.errors else None for o in seen] == [
        Stage.CREATE,
        Stage.RELEASE,
        Stage.RUN,
        Stage.HARNESS,
        None,
    ]
    assert "string" in seen[2].errors[0].message
    assert seen[3].ending is Ending.HARNESS
    assert "16 bytes, came with 12" in seen[3].errors[0].message


@pytest.mark.browser
def test_a_bundle_that_does_not_load_says_so_for_all_cases(target: Target, tmp_path: Path) -> None:
    seen = probe(target, tmp_path, "echo", "echo", bundle=planted_bundle("broken.mjs"))
    assert [(o.ending, o.errors[0].stage) for o in seen] == [(Ending.ERROR, Stage.LOAD)] * 2


@pytest.mark.browser
@pytest.mark.parametrize("word", ["hang", "wait"])
def test_a_case_that_gives_no_answer_is_a_hang_and_the_next_one_runs(target: Target, tmp_path: Path, word: str) -> None:
    seen = probe(target, tmp_path, "echo", word, "echo", limits=Limits(case_s=3, probe_s=60))
    assert endings(seen) == [Ending.COMPLETED, Ending.HANG, Ending.COMPLETED]
    assert leftovers() == []


@pytest.mark.browser
@pytest.mark.parametrize("word", ["reload", "leave"])
def test_a_case_that_leaves_the_page_is_an_error_of_its_own(target: Target, tmp_path: Path, word: str) -> None:
    seen = probe(target, tmp_path, word, "echo")
    assert endings(seen) == [Ending.ERROR, Ending.COMPLETED]
    assert "left or reloaded" in seen[0].errors[0].message


@pytest.mark.browser
def test_the_probes_own_limit_ends_it_and_blames_no_case(target: Target, tmp_path: Path) -> None:
    seen = probe(target, tmp_path, "echo", "wait", "echo", limits=Limits(case_s=60, probe_s=8))
    assert endings(seen) == [Ending.COMPLETED, Ending.HARNESS, Ending.HARNESS]
    assert "limit of 8 s" in seen[1].errors[0].message


def kill_ours(kind: str) -> None:
    """Kills, half a second from now, those processes of our browser that have `kind` on their command line.

    Without a kind, it is the main process.
    """

    def kill() -> None:
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                words = " ".join(child.cmdline())
                if PREFIX in words and (kind in words if kind else "--type=" not in words and "crashpad" not in words):
                    child.kill()

    threading.Timer(0.5, kill).start()


@pytest.mark.browser
@pytest.mark.skipif(sys.platform == "win32", reason="process names differ")
@pytest.mark.parametrize(("kind", "ending"), [("--type=renderer", Ending.CRASH), ("", Ending.BROWSER_GONE)])
def test_a_killed_page_or_browser_is_named_and_the_next_case_runs(
    target: Target, tmp_path: Path, kind: str, ending: Ending
) -> None:
    def on_case(index: int, _seen: Observation) -> None:
        if index == 0:
            kill_ours(kind)

    seen = probe(target, tmp_path, "echo", "wait", "echo", on_case=on_case)
    assert endings(seen) == [Ending.COMPLETED, ending, Ending.COMPLETED]
    assert leftovers() == []


@pytest.mark.browser
@pytest.mark.parametrize("ending", [Ending.HANG, Ending.CRASH])
def test_what_was_finished_before_a_hang_or_crash_is_kept(target: Target, tmp_path: Path, ending: Ending) -> None:
    def on_case(index: int, _seen: Observation) -> None:
        if index == 0 and ending is Ending.CRASH:
            kill_ours("--type=renderer")

    limits = Limits(case_s=3 if ending is Ending.HANG else 20, probe_s=60)
    seen = probe(target, tmp_path, "echo", "echo", "hang", "echo", limits=limits, on_case=on_case)
    assert endings(seen) == [Ending.COMPLETED, Ending.COMPLETED, ending, Ending.COMPLETED]


@pytest.mark.browser
def test_a_flood_of_console_lines_is_cut(target: Target, tmp_path: Path) -> None:
    (seen,) = probe(target, tmp_path, "log")
    assert seen.ending is Ending.COMPLETED
    assert len(seen.console) <= 200
    assert max(map(len, seen.console)) <= 4000


@pytest.mark.browser
def test_dispatches_and_the_device_in_use_are_counted_case_by_case(tmp_path: Path) -> None:
    software = choose_target(locate("chrome", CONFIG), "software", (), CONFIG)
    assert software.adapter is not None and software.adapter.software
    seen = probe(software, tmp_path, "gpu", "echo", "gpu", backend="webgpu")
    assert [o.dispatches for o in seen] == [2, 0, 2]
    assert seen[0].adapter is not None
    assert (seen[0].adapter.vendor, seen[0].adapter.architecture) == ("google", "swiftshader")
    assert seen[0].gpu_errors == ()


@pytest.mark.browser
def test_a_gpu_error_that_nobody_catches_is_seen(tmp_path: Path) -> None:
    software = choose_target(locate("chrome", CONFIG), "software", (), CONFIG)
    seen = probe(software, tmp_path, "gpu bad-shader", "gpu", backend="webgpu")
    assert endings(seen) == [Ending.COMPLETED] * 2
    assert any("GPUValidationError" in text for text in seen[0].gpu_errors)
    assert seen[1].gpu_errors == ()


@pytest.mark.browser
def test_a_gpu_error_of_a_release_is_of_the_case_that_was_released(tmp_path: Path) -> None:
    software = choose_target(locate("chrome", CONFIG), "software", (), CONFIG)
    seen = probe(software, tmp_path, "gpu bad-on-release", "gpu", backend="webgpu")
    assert [bool(o.gpu_errors) for o in seen] == [True, False]
    assert seen[0].steps[-1].gpu_errors == seen[0].gpu_errors


@pytest.mark.browser
def test_no_adapter_and_a_software_adapter_are_told_from_hardware(tmp_path: Path) -> None:
    browser = locate("chrome", CONFIG)
    with pytest.raises(NoAdapter, match=r"requestAdapter\(\) answers null"):
        choose_target(browser, "any", NO_SOFTWARE, CONFIG)
    with pytest.raises(NoAdapter, match="swiftshader"):
        choose_target(browser, "nvidia|intel|no such vendor", ("--use-webgpu-adapter=swiftshader",), CONFIG)


@pytest.mark.browser
def test_a_probe_on_another_adapter_than_wished_for_is_no_verdict(tmp_path: Path) -> None:
    software = choose_target(locate("chrome", CONFIG), "software", (), CONFIG)
    (seen,) = probe(replace(software, wish="hardware"), tmp_path, "gpu", backend="webgpu")
    assert seen.ending is Ending.WRONG_ADAPTER


@pytest.mark.browser
@pytest.mark.parametrize(
    ("changes", "ending"),
    [
        ({"vendor": "nvidia"}, Ending.WRONG_ADAPTER),
        ({"architecture": "xe"}, Ending.WRONG_ADAPTER),
        ({"vendor": "", "architecture": ""}, Ending.COMPLETED),
    ],
)
def test_a_probe_on_another_adapter_than_was_looked_at_is_no_verdict(
    tmp_path: Path, changes: dict[str, Any], ending: Ending
) -> None:
    software = replace(choose_target(locate("chrome", CONFIG), "software", (), CONFIG), wish="any")
    assert software.adapter is not None
    other = replace(software, adapter=replace(software.adapter, **changes))
    (seen,) = probe(other, tmp_path, "gpu", backend="webgpu")
    assert seen.ending is ending


@pytest.mark.browser
def test_a_browser_that_ends_at_once_is_no_browser(tmp_path: Path) -> None:
    script = tmp_path / "browser"
    script.write_text("#!/bin/sh\necho cannot open display >&2\nexit 3\n")
    script.chmod(0o755)
    with pytest.raises(NoBrowser, match=r"status 3.*cannot open display"):
        choose_target(Browser("chrome", script, "1.2.3.4"), "any", (), CONFIG)
    assert leftovers() == []
