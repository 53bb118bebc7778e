"""The driver of upstream's test runner with a real Electron: karma starts it, as in upstream's checkouts."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from bisect_bot import cases, paths
from bisect_bot.cases.making import Making
from bisect_bot.model import Artifact, Bundle, Case, Ending, Loader, Observation, Outcome, Target
from bisect_bot.probes import Limits, Probe
from bisect_bot.probes.upstream import runner, upstream_driver
from bisect_bot.probes.upstream.launching import launching
from bisect_bot.scratch import scratch
from bisect_bot.targets.browsers import load_config, locate
from bisect_bot.verdicts.rules import load_rules
from bisect_bot.verdicts.told import judge_told
from bisect_bot.verdicts.tolerance import load_tolerances
from tests.upstream_karma import karma_checkout

CONFIG = load_config()
FORBIDDEN = ("ELECTRON_RUN_AS_NODE", "NODE_OPTIONS")

pytestmark = pytest.mark.electron


def target() -> Target:
    """The Electron of this machine."""
    browser = locate("electron", CONFIG)
    return Target("electron", str(browser.executable), browser.version, "linux", "", "any")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a checkout with karma, whose node_modules/electron is this machine's Electron."""
    root = tmp_path_factory.mktemp("upstream") / "tree"
    karma_checkout(root, Path(target().executable))
    return root


def told(checkout: Path, place: Path, tests: Sequence[str], **limits: float) -> tuple[list[Observation], list[Case]]:
    """What the runner of `checkout` says of a manifest with a test for each operator of `tests`."""
    one = {"data": [1, 2], "dims": [2], "type": "float32"}
    manifest = place / "tests.jsonc"
    data = {"inputs": [one], "outputs": [one], "name": "a set"}
    manifest.write_text(json.dumps([{"name": f"test of {name}", "operator": name, "cases": [data]} for name in tests]))
    given = cases.load_all([str(manifest)], Making(root=place / "cache"))
    (place / "artifact").mkdir(exist_ok=True)
    artifact = Artifact("r", "k", f"sha256:{'1' * 64}", place / "artifact")
    bundle = Bundle("all", "ort.all.min.js", Loader.SCRIPT, "jsep", ("wasm",))
    probe = Probe(artifact, bundle, target(), "wasm", given, limits=Limits(**limits))

    @contextmanager
    def at(_probe: Probe) -> Iterator[Path]:
        yield checkout

    return upstream_driver(at, place / "logs")(probe, CONFIG, lambda _index, _seen: None), list(given)


def left_behind(checkout: Path) -> list[str]:
    """Command lines of what still runs of all that runs of `checkout` started."""
    mine = {process.pid for process in psutil.Process().children(recursive=True)}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
            if words and (process.pid in mine or str(checkout) in words):
                found.append(words)
    return found


def kill_busy_page() -> None:
    """Kills the page's process of the browser that this process has started, when it has computed for some time."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "--type=renderer" in process.cmdline() and process.cpu_times().user > 1.5:
                    process.kill()
                    return
        time.sleep(0.2)


def test_the_runner_is_told_to_start_electron_on_a_display_and_the_display_is_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with scratch() as folder, launching(target(), CONFIG, folder) as how:
        wrapper = Path(how.variables["ELECTRON_BIN"]).read_text()
        assert (how.env, "CHROME_BIN" in how.variables) == ("electron", False)
        assert how.variables["DISPLAY"].startswith(":")
        assert target().executable in wrapper
        server = [each for each in psutil.Process().children() if each.name() == "Xvfb"]
        assert server
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in server)


@pytest.mark.network
def test_an_op_manifest_gets_verdicts_in_electrons_page_and_nothing_is_left_running(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in FORBIDDEN:
        monkeypatch.setenv(name, "1" if name == "ELECTRON_RUN_AS_NODE" else "--no-warnings")
    seen, _ = told(checkout, tmp_path, ["Abs", "Page"], probe_s=120)
    assert [each.told and each.told.passed for each in seen] == [True, True]
    assert [each.ending for each in seen] == [Ending.COMPLETED, Ending.COMPLETED]
    assert not left_behind(checkout)


@pytest.mark.network
def test_a_case_that_hangs_in_electron_is_named_and_ended_with_all_that_was_started(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "GRACE_S", 1.0)
    seen, _ = told(checkout, tmp_path, ["Hang"], case_s=1, probe_s=120)
    assert [each.ending for each in seen] == [Ending.HANG]
    assert not left_behind(checkout)


@pytest.mark.network
def test_a_page_of_electron_whose_process_dies_is_told_from_one_that_hangs(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "GRACE_S", 2.0)
    killer = threading.Thread(target=kill_busy_page, daemon=True)
    killer.start()
    seen, _ = told(checkout, tmp_path, ["Hang"], case_s=60, probe_s=120)
    killer.join(timeout=60)
    assert [each.ending for each in seen] == [Ending.CRASH]
    assert not left_behind(checkout)


@pytest.mark.network
def test_what_an_old_electron_cannot_read_is_a_skip_that_names_it_after_one_run(checkout: Path, tmp_path: Path) -> None:
    seen, (_, case) = told(checkout, tmp_path, ["Abs", "Static"], probe_s=120)
    rules = load_rules(paths.config_file("verdicts.toml"))
    verdict = judge_told(seen[1], case, load_tolerances(paths.config_file("tolerances.toml")), rules)
    if int(target().version.partition(".")[0]) < 16:
        assert verdict.outcome is Outcome.SKIP
        assert "the browser lacks static blocks of classes" in verdict.reason
        assert verdict.reason.endswith("in test/ort.test.js: static {)")
        assert len(list((tmp_path / "logs").iterdir())) == 1
    else:
        assert verdict.outcome is not Outcome.SKIP
