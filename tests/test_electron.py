"""A real Electron is a target like any other: it answers, what dies in it is named, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
from onnx import TensorProto

from bisect_bot.errors import NoAdapter, NoBrowser
from bisect_bot.model import Case, Ending, Observation, Outcome, Stage, Target
from bisect_bot.paths import config_file
from bisect_bot.probes import Limits, Probe, choose_target, plain_target, run_probe
from bisect_bot.probes.probe import OnCase
from bisect_bot.scratch import PREFIX, scratch
from bisect_bot.session.violence import if_repeated, violence_of
from bisect_bot.targets.browsers import command_line, load_config, locate
from bisect_bot.targets.display import NEEDED, display
from bisect_bot.targets.launcher import launcher
from bisect_bot.verdicts import judge, load_rules, load_tolerances
from tests.command import Shell
from tests.models import counting, one_node, save_case
from tests.planted import INPUT, planted_artifact, planted_bundle, planted_cases

CONFIG = load_config()
RULES, TOLERANCES = load_rules(config_file("verdicts.toml")), load_tolerances(config_file("tolerances.toml"))
pytestmark = pytest.mark.electron


@pytest.fixture(scope="module")
def target() -> Target:
    """The Electron that is found here."""
    return plain_target(locate("electron", CONFIG), "any", ())


def probe(
    target: Target,
    folder: Path,
    *words: str,
    file: str = "ort.mjs",
    on_case: OnCase = lambda _index, _seen: None,
    case_s: float = 20,
) -> tuple[list[Observation], Sequence[Case]]:
    """What a probe of planted cases observes in Electron, and the cases."""
    cases = planted_cases(folder / "cases", *words)
    artifact = planted_artifact(folder / "artifact")
    made = Probe(artifact, planted_bundle(file), target, "wasm", tuple(cases), limits=Limits(case_s, probe_s=120))
    return run_probe(made, CONFIG, on_case), cases


def endings(observations: Sequence[Observation]) -> list[Ending]:
    return [o.ending for o in observations]


def ours(*kinds: str) -> list[psutil.Process]:
    """Processes below this one that work in a scratch folder of ours, by a word on their command line."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = " ".join(child.cmdline())
            if (PREFIX in words or "electron" in words) and all(kind in words for kind in kinds):
                found.append(child)
    return found


def when_first_is_done(action: Callable[[], None]) -> OnCase:
    """Does `action` as soon as the first case was answered, half way through the second."""

    def on_case(index: int, _seen: Observation) -> None:
        if index == 0:
            action()

    return on_case


def kill(kind: str) -> None:
    """Kills the processes of our Electron that have `kind` on their command line; the main one has no type."""
    doomed = [p for p in ours("electron") if (kind in p.cmdline() if kind else is_main(p))]
    assert doomed, [p.cmdline()[:4] for p in ours()]
    for process in doomed:
        process.kill()


def is_main(process: psutil.Process) -> bool:
    return not any(word.startswith("--type=") for word in process.cmdline()) and "Xvfb" not in process.name()


@pytest.mark.parametrize("file", ["ort.mjs", "ort.js"])
def test_outputs_times_and_console_come_back(target: Target, tmp_path: Path, file: str) -> None:
    (seen,), _ = probe(target, tmp_path, "echo", file=file)
    assert seen.ending is Ending.COMPLETED
    assert np.array_equal(seen.outputs[0][0].array(), INPUT)
    assert {"load", "create", "run", "total"} <= {step for step, _ in seen.times_ms}
    assert seen.console == ("log: created with wasm",)
    assert ours() == []


def test_what_a_page_does_in_chrome_it_does_here(target: Target, tmp_path: Path) -> None:
    words = ["echo", "throw", "echo", "reload", "leave", "alert", "hang", "echo"]
    seen, _ = probe(target, tmp_path, *words, case_s=3)
    done, failed = Ending.COMPLETED, Ending.ERROR
    assert endings(seen) == [done, failed, done, failed, failed, done, Ending.HANG, done]
    assert seen[1].errors[0].message == "TypeError: kernel failed"
    assert all("left or reloaded" in seen[n].errors[0].message for n in (3, 4))
    assert ours() == []


def test_a_build_that_it_cannot_parse_is_a_skip_that_says_so(target: Target, tmp_path: Path) -> None:
    artifact = planted_artifact(tmp_path / "artifact")
    # What builds from 1.17 on are written in: newer than this browser, or than any.
    newer = "class Session { static { } #private = this ??= nothing; }"
    (artifact.directory / "newer.js").write_text(newer)
    (artifact.directory / "newer.mjs").write_text(newer)
    for file in ("newer.js", "newer.mjs"):
        case = planted_cases(tmp_path / "cases", "echo")[0]
        made = Probe(artifact, planted_bundle(file), target, "wasm", (case,))
        (seen,) = run_probe(made, CONFIG)
        verdict = judge(seen, case, TOLERANCES, RULES)
        assert (verdict.outcome, seen.errors[0].stage) == (Outcome.SKIP, Stage.LOAD)
        assert "does not load here" in verdict.reason
        assert "SyntaxError" in verdict.reason, "the browser's own words tell why"


@pytest.mark.skipif(sys.platform == "win32", reason="process names differ")
@pytest.mark.parametrize(
    ("kind", "ending", "says"),
    [
        ("--type=renderer", Ending.CRASH, "the page's process crashed (killed"),
        ("--type=gpu-process", Ending.CRASH, "the GPU process died (killed"),
        ("", Ending.BROWSER_GONE, "the browser ended"),
    ],
)
def test_what_is_killed_is_named_and_no_verdict_and_the_next_case_runs(
    target: Target, tmp_path: Path, kind: str, ending: Ending, says: str
) -> None:
    seen, cases = probe(target, tmp_path, "echo", "wait", "echo", on_case=when_first_is_done(lambda: kill(kind)))
    assert endings(seen) == [Ending.COMPLETED, ending, Ending.COMPLETED]
    assert says in seen[1].errors[0].message
    assert violence_of(seen[1]) == ending, "it is tried again"
    verdict = judge(seen[1], cases[1], TOLERANCES, RULES)
    once, again = (if_repeated(verdict, cases[1], times) for times in (1, 2))
    assert (once.outcome, again.outcome) == (Outcome.INFRA, Outcome.BAD)
    assert again.signature is not None
    assert ("GPU process" in again.signature.message) == ("gpu" in kind), "it is not taken for the page's own crash"
    assert ours() == []


def test_an_electron_without_webgpu_has_no_adapter(target: Target) -> None:
    browser = locate("electron", CONFIG)
    if int(browser.version.partition(".")[0]) > 20:
        pytest.skip(f"Electron {browser.version} has WebGPU")
    with pytest.raises(NoAdapter, match=r"has no WebGPU: navigator\.gpu is missing with all flags$"):
        choose_target(browser, "any", (), CONFIG)


def test_the_main_process_tells_its_versions_and_the_page_has_no_node(target: Target, tmp_path: Path) -> None:
    async def ask() -> tuple[str, object]:
        with scratch() as folder:
            flags = command_line(CONFIG, None, (), "electron")
            async with (
                launcher(target.name, CONFIG, folder) as launch,
                launch(Path(target.executable), flags) as running,
            ):
                await running.open("about:blank")
                seen = await running.evaluate(
                    "(name) => [typeof require, typeof process, typeof module, name]", "given"
                )
                with pytest.raises(NoBrowser, match="stop here"):
                    await running.evaluate("() => { throw new Error('stop here'); }", None)
                return running.versions["electron"], seen

    version, seen = asyncio.run(ask())
    assert version == target.version
    assert seen == ["undefined"] * 3 + ["given"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_without_a_display_one_of_our_own_is_made_and_ends_with_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)

    async def look() -> tuple[Path, bool]:
        with scratch() as folder:
            async with display(folder) as shown:
                socket = Path("/tmp/.X11-unix", f"X{shown['DISPLAY'].removeprefix(':')}")
                return socket, socket.exists() and Path(shown["XAUTHORITY"]).is_file()

    socket, was_there = asyncio.run(look())
    assert was_there and not socket.exists()
    assert not Path("/tmp", f".X{socket.name.removeprefix('X')}-lock").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_where_no_display_can_be_made_it_is_named(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoBrowser) as caught:
        probe(target, tmp_path, "echo")
    assert str(caught.value).startswith(f"{NEEDED}: there is no display (DISPLAY and WAYLAND_DISPLAY are not set)")
    assert "xvfb" in caught.value.advice


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_runs_on_when_we_are_interrupted_or_killed(target: Target, tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "probe.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\n"
        "from bisect_bot.probes import plain_target\n"
        "from tests.test_electron import CONFIG, locate, probe\n"
        "target = plain_target(locate('electron', CONFIG), 'any', ())\n"
        f"probe(target, Path({str(tmp_path)!r}), 'echo', 'wait', on_case=lambda *_: print('running', flush=True))\n"
    )
    temporary = tmp_path / "t"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parent.parent)}
    started = subprocess.Popen(
        [sys.executable, str(script)], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"running\n"
    below = psutil.Process(started.pid).children(recursive=True)
    assert len(below) > 2, "Electron has several processes"
    os.kill(started.pid, how)
    started.wait(timeout=20)
    deadline = time.monotonic() + 15
    while (alive := [p for p in below if p.is_running() and p.status() != "zombie"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive == []
    if how is signal.SIGINT:
        assert list(temporary.glob(f"{PREFIX}*")) == [], "a kill leaves it to the next start, which sweeps it"


@pytest.mark.network
@pytest.mark.browser
def test_a_published_build_answers_in_electron_and_chrome_side_by_side(shell: Shell, tmp_path: Path) -> None:
    conv = {"x": counting(1, 2, 5, 5), "w": counting(3, 2, 3, 3)}
    matmul = {"a": counting(2, 3, 4), "b": counting(2, 4, 5)}
    folders = [
        save_case(tmp_path / "conv", one_node("Conv", conv, TensorProto.FLOAT, opset=13, ir=7, pads=[1] * 4), conv),
        save_case(tmp_path / "matmul", one_node("MatMul", matmul, TensorProto.FLOAT, opset=13, ir=7), matmul),
    ]
    words = [word for folder in folders for word in ("--case", str(folder))]
    targets = ("--target", "electron", "--target", "chrome", "--backend", "wasm")
    done = shell.run("matrix", "1.14.0", *targets, *words, "--out", "report")
    assert done.status == 0, done.err
    rows = shell.report()["matrix"]
    assert {(row["target"], row["case"]) for row in rows} == {
        (target, case) for target in ("electron", "chrome") for case in ("conv", "matmul")
    }
    assert {row["verdict"] for row in rows} == {"good"}
    assert {row["ran_on"] for row in rows} == {"cpu"}
    versions = {target["name"]: target["version"] for target in shell.report()["targets"]}
    assert set(versions) == {"electron", "chrome"} and versions["electron"] != versions["chrome"]
