"""The main job on real published builds in a real browser: what the README promises."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import models
from tests.command import Done, Shell, make_shell

pytestmark = [pytest.mark.network, pytest.mark.browser]

OCTOBER = "1.21.0-dev.20241024-d9ca84ef96"
DECEMBER = "1.21.0-dev.20241205-d27fecd3d3"
# Beside main, and tried for that reason only after the builds of main around it.
SIDE_BRANCH = "1.21.0-dev.20250203-75f394ca3e"
FEBRUARY = "1.21.0-dev.20250206-d981b153d3"


def sides(boundary: Mapping[str, Any]) -> tuple[str, str]:
    """The versions on both sides of a boundary of report.json."""
    return boundary["last_old"]["version"], boundary["first_new"]["version"]


def browsers_of(shell: Shell) -> list[int]:
    """Browser processes that commands of `shell` started: they inherit its environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            mine = process.environ().get("BISECT_BOT_CACHE") == str(shell.cache)
            if mine and any("--user-data-dir" in word for word in process.cmdline()):
                found.append(process.pid)
    return found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shell, Done]:
    """The demo, run once with a browser that leaves a line for each start."""
    shell = make_shell(tmp_path_factory.mktemp("demo"))
    return shell, shell.run("demo", "--out", "report")


def test_the_demo_finds_a_real_regression(demo: tuple[Shell, Done]) -> None:
    shell, done = demo
    assert done.status == 0, done.err
    report = shell.report()
    assert (report["result"], report["direction"]) == ("found", "regression")
    assert sides(report["boundary"]) == (OCTOBER, DECEMBER)
    assert OCTOBER in done.out and DECEMBER in done.out
    assert report["sentence"] in (shell.folder / "report" / "report.md").read_text(encoding="utf-8")


def test_the_demo_needs_logarithmically_many_search_probes(demo: tuple[Shell, Done]) -> None:
    report = demo[0].report()
    searched = [row for row in report["matrix"] if row["purpose"] == "search"]
    assert len(searched) <= math.ceil(math.log2(report["counts"]["revisions"]))
    assert (
        report["counts"]["builds"] == len({row["revision"] for row in report["matrix"]})
        or report["counts"]["artifacts_reused"]
    )


def test_a_second_identical_run_starts_no_browser_and_says_the_same(demo: tuple[Shell, Done]) -> None:
    shell, _ = demo
    first = shell.report()
    again = shell.run("demo", "--out", "again")
    second = shell.report("again")
    assert again.status == 0
    assert second["counts"]["probes"] == 0
    assert second["counts"]["builds"] == 0
    assert second["boundary"] == first["boundary"]
    assert all(row["reused"] for row in second["matrix"])


def test_a_regression_is_bracketed_from_a_model_of_the_users_own(shell: Shell) -> None:
    models.average_pool(shell.folder)
    done = shell.run(
        "run",
        "--source",
        "published",
        "--good",
        "1.20.1",
        "--bad",
        "1.21.0",
        "--case",
        "average_pool",
        "--out",
        "report",
    )
    assert done.status == 0, done.err
    report = shell.report()
    assert sides(report["boundary"]) == (OCTOBER, DECEMBER)
    assert report["direction"] == "regression"
    assert report["boundary"]["first_new"]["commit"].startswith("d27fecd3d3")
    assert report["cases"][0]["signature"]["kind"] == "kernel-error"
    assert all(proof["held"] for proof in report["proofs"])
    good = next(row for row in report["matrix"] if row["verdict"] == "good")
    assert (good["ran_on"], good["dispatches"]) == ("cpu", 0), "1.20.1 has no such kernel on WebGPU"
    assert any("on the CPU" in warning and "on the GPU" in warning for warning in report["warnings"])


def test_a_fix_is_found_without_being_told_and_the_change_of_implementation_is_said(shell: Shell) -> None:
    models.resize_crop(shell.folder)
    done = shell.run("run", "--bad", "1.20.1", "--good", "1.30.0", "--case", "resize_crop", "--out", "report")
    assert done.status == 0, done.err
    report = shell.report()
    assert (report["result"], report["direction"]) == ("found", "fix")
    assert report["cases"][0]["signature"]["kind"] == "mismatch"
    assert any("JSEP" in warning and "native" in warning for warning in report["warnings"])
    last, first = report["boundary"]["last_old"]["version"], report["boundary"]["first_new"]["version"]
    verdicts = {row["revision"]: row["verdict"] for row in report["matrix"]}
    assert (verdicts[last], verdicts[first]) == ("bad", "good")


def test_many_cases_with_different_answers_are_each_bracketed_in_one_run(shell: Shell) -> None:
    expected = {
        models.grid_sample: ("regression", "mismatch", (OCTOBER, DECEMBER)),
        models.pad_wrap: ("regression", "gpu-error", (OCTOBER, DECEMBER)),
        models.transpose_rank_1: ("fix", "gpu-error", (OCTOBER, DECEMBER)),
        models.conv_transpose_1d: ("fix", "mismatch", (SIDE_BRANCH, FEBRUARY)),
        models.group_query_attention: ("fix", "kernel-error", ("1.20.1", OCTOBER)),
    }
    names = {make(shell.folder).name: answer for make, answer in expected.items()}
    cases = [word for name in names for word in ("--case", name)]
    done = shell.run("run", "--good", "1.20.1", "--bad", FEBRUARY, *cases, "--out", "report")
    assert done.status == 0, done.err
    answers = {
        case["name"]: (case["direction"], case["signature"]["kind"], sides(case["boundary"]))
        for case in shell.report()["cases"]
    }
    assert answers == names
    assert any(SIDE_BRANCH in warning and "beside main" in warning for warning in shell.report()["warnings"])
    gpu = [r for r in shell.report()["matrix"] if r["case"] == "transpose_rank_1" and r["verdict"] == "bad"]
    assert all("GPUValidationError" in row["reason"] for row in gpu)


def test_without_an_adapter_nothing_is_called_bad(shell: Shell) -> None:
    models.add(shell.folder)
    arguments = ("run", "--good", "1.20.1", "--bad", "1.21.0", "--case", "add", "--out", "report")
    done = shell.run(*arguments, "--browser-arg=--disable-software-rasterizer")
    assert done.status == 14
    assert "requestAdapter() answers null" in done.err + done.out
    assert shell.report()["result"] == "unusable"
    with sqlite3.connect(shell.cache / "journal.sqlite3") as journal:
        assert journal.execute("SELECT count(*) FROM verdicts WHERE outcome = 'bad'").fetchone() == (0,)


def test_a_software_adapter_never_passes_for_hardware(shell: Shell) -> None:
    models.add(shell.folder)
    arguments = ("run", "--good", "1.20.1", "--bad", "1.21.0", "--case", "add", "--out", "report")
    # This flag makes any machine a machine with nothing but SwiftShader.
    done = shell.run(*arguments, "--adapter", "hardware", "--browser-arg=--use-webgpu-adapter=swiftshader")
    assert done.status == 14
    assert "hardware" in done.out + done.err
    assert [row for row in shell.report()["matrix"] if row["verdict"] == "bad"] == []


def test_ends_that_do_not_differ_exit_11(shell: Shell) -> None:
    models.add(shell.folder)
    done = shell.run(
        "run", "--good", "1.20.1", "--bad", OCTOBER, "--case", "add", "--backend", "wasm", "--out", "report"
    )
    assert done.status == 11, done.err
    report = shell.report()
    assert (report["result"], report["boundary"]) == ("same", None)
    assert {row["provider"] for row in report["matrix"]} == {"wasm"}


def test_check_speaks_the_language_of_git_bisect_run(shell: Shell) -> None:
    models.average_pool(shell.folder)
    case = ("--case", "average_pool")
    assert shell.run("check", OCTOBER, *case).status == 0
    assert shell.run("check", "d27fecd3d3", *case).status == 1
    assert shell.run("check", "d27fecd3d3", *case, "--expect", "new").status == 0
    assert shell.run("check", "1.14.0", *case).status == 125, "a build without WebGPU cannot answer"
    assert shell.run("check", "9.9.9", *case).status == 129
    assert shell.run("check", OCTOBER, "--case", "nowhere").status == 129
    assert shell.run("check", OCTOBER).status == 129
    assert shell.run("check", OCTOBER, *case, CHROME_BIN="/nowhere/chrome").status == 130


def test_cases_after_one_that_throws_in_a_kernel_get_their_own_right_verdicts(shell: Shell) -> None:
    folders = [models.add(shell.folder, f"add_{n}", rows=n + 1) for n in range(9)]
    folders.insert(2, models.average_pool(shell.folder))
    done = shell.run("check", DECEMBER, *(word for folder in folders for word in ("--case", folder.name)))
    verdicts = [text.split()[0] for text in done.err.splitlines() if text.startswith(("good", "bad", "skip"))]
    assert verdicts == ["good", "good", "bad", *["good"] * 7]
    assert done.status == 1


def test_check_gives_no_verdict_when_nobody_can_read_it(shell: Shell) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            shell.argv(["check", OCTOBER, "--case", "builtin:smoke", "--backend", "wasm"]),
            env=shell.environment(),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=full,
            check=False,
        )
    assert done.returncode >= 128


def test_a_check_is_no_run_to_go_on_with(shell: Shell) -> None:
    assert shell.run("check", OCTOBER, "--case", "builtin:smoke", "--backend", "wasm").status == 0
    assert "no run" in shell.run("report").err
    assert "no unfinished" in shell.run("resume").err
    session = shell.run("sessions").out.splitlines()[-1].split()[0]
    assert "is a check" in shell.run("resume", session).err


def test_a_killed_run_is_resumed_without_repeating_what_was_confirmed(shell: Shell) -> None:
    models.average_pool(shell.folder)
    running = shell.start("run", "--good", OCTOBER, "--bad", DECEMBER, "--case", "average_pool", "--out", "report")
    assert running.stderr is not None
    seen = []
    for text in running.stderr:
        seen.append(text)
        if text.startswith("bad"):
            break
    deadline = time.monotonic() + 60
    while not browsers_of(shell) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert browsers_of(shell), "the next probe has started its browser"
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = sum(text.startswith(("good", "bad")) for text in seen)

    done = shell.run("resume")
    assert done.status == 0, done.err
    assert sides(shell.report()["boundary"]) == (OCTOBER, DECEMBER)
    # The next new build's smoke case is a control: only what came after the last one is tested again.
    assert done.err.count("known]") >= before - 1
    finished = {text.split()[-1] for text in seen if text.startswith("downloading")}
    repeated = {text.split()[-1] for text in done.err.splitlines() if text.startswith("downloading")}
    assert not finished & repeated
    assert browsers_of(shell) == []
    assert shell.run("sessions").out.count("finished") == 1


def test_a_session_with_the_least_budget_comes_further_each_time_it_is_taken_up(shell: Shell) -> None:
    models.add(shell.folder)
    ends = ["--good", "1.20.1", "--bad", OCTOBER]
    first = shell.run("run", *ends, "--case", "add", "--backend", "wasm", "--max-probes", "1")
    assert first.status == 13, first.err
    assert "the budget of 1 probe is used up" in first.out
    second = shell.run("resume")
    assert second.status == 13, second.err
    assert re.search(r"1\.20\.1 .*\[end, known\]", second.err)
    assert re.search(f"{OCTOBER} .*" + r"\[end, tested\]", second.err)


@pytest.mark.parametrize(
    "words", [["--good", "9.9.9"], ["--case", "broken.onnx"], ["--case", "no_outputs"], ["--case", "x"]]
)
def test_what_cannot_be_meant_is_one_line_and_exit_2(shell: Shell, words: list[str]) -> None:
    folder = models.add(shell.folder)
    no_outputs = models.add(shell.folder, "no_outputs")
    for path in no_outputs.rglob("output_*.pb"):
        path.unlink()
    (shell.folder / "broken.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-7])
    usual = {"--good": "1.20.1", "--bad": "1.21.0", "--case": "add", **dict([words])}
    done = shell.run("run", *[word for pair in usual.items() for word in pair])
    assert done.status == 2
    assert len(done.err.strip().splitlines()) <= 2, done.err
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    assert list((shell.cache / "tmp").glob("*") if (shell.cache / "tmp").is_dir() else []) == []


def test_ctrl_c_leaves_a_report_and_nothing_else(shell: Shell) -> None:
    models.average_pool(shell.folder)
    running = shell.start("run", "--good", OCTOBER, "--bad", DECEMBER, "--case", "average_pool", "--out", "report")
    assert running.stderr is not None
    for text in running.stderr:
        if text.startswith("bad"):
            break
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 13, err
    report = shell.report()
    assert report["result"] == "stopped"
    assert "Traceback" not in err
    assert browsers_of(shell) == []


def test_a_full_disk_is_named_and_leaves_the_cache_whole(shell: Shell, small_disk: Path) -> None:
    models.add(shell.folder)
    words = ("run", "--good", "1.20.1", "--bad", "1.21.0", "--case", "add", "--out", "report")
    done = shell.run(*words, BISECT_BOT_CACHE=str(small_disk))
    assert done.status in (2, 14), done.err
    assert "space" in done.err
    assert "Traceback" not in done.err
    with sqlite3.connect(small_disk / "journal.sqlite3") as journal:
        assert journal.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not list(small_disk.glob("tmp/*"))
