"""Words typed become a request, and a request the words that ask it again."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_bot.cli import app, options
from bisect_bot.cli.check import Expect, status_of, together
from bisect_bot.cli.demo import DEMO
from bisect_bot.cli.ending import out_folder
from bisect_bot.errors import CheckExit, UsageError
from bisect_bot.model import Cell, Outcome, Request, Trial, Verdict


def trial(outcome: Outcome) -> Trial:
    return Trial("1.0.0", Cell("case", "chrome", "webgpu"), 1, Verdict(outcome, ""))


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([Outcome.GOOD, Outcome.GOOD], Outcome.GOOD),
        ([Outcome.GOOD, Outcome.SKIP], Outcome.SKIP),
        ([Outcome.SKIP, Outcome.BAD, Outcome.GOOD], Outcome.BAD),
    ],
)
def test_a_revision_is_only_as_good_as_its_worst_case(outcomes: list[Outcome], expected: Outcome) -> None:
    assert together([trial(o) for o in outcomes]) is expected


@pytest.mark.parametrize(
    ("outcome", "expect", "status"),
    [
        (Outcome.GOOD, Expect.OLD, 0),
        (Outcome.BAD, Expect.OLD, 1),
        (Outcome.GOOD, Expect.NEW, 1),
        (Outcome.BAD, Expect.NEW, 0),
        (Outcome.SKIP, Expect.OLD, 125),
        (Outcome.SKIP, Expect.NEW, 125),
    ],
)
def test_check_gives_git_the_old_side_as_zero(outcome: Outcome, expect: Expect, status: int) -> None:
    assert status_of(outcome, expect) == status


@pytest.mark.parametrize("text", ["batch", "=1", "batch=", "batch=0", "batch=-1", "batch=x", "batch=1.5"])
def test_a_dimension_is_a_name_and_a_size(text: str) -> None:
    with pytest.raises(UsageError, match="name=size"):
        options.parse_dim(text)


def test_a_dimension_may_have_an_equals_sign_in_its_name() -> None:
    assert options.parse_dim("a=b=3") == ("a=b", 3)


def test_the_command_of_a_request_names_what_is_not_the_default() -> None:
    assert (
        options.command_of(DEMO) == "bisect-bot run --good 1.20.1 --bad 1.21.0 --case builtin:demo --source published"
    )
    odd = replace(
        DEMO, cases=("my case/",), backends=("wasm", "webgpu"), dims=(("n", 2),), isolate=True, browser_args=("--x y",)
    )
    words = shlex.split(options.command_of(odd))
    assert words[words.index("--case") + 1] == "my case/"
    assert [words[i + 1] for i, word in enumerate(words) if word == "--backend"] == ["wasm", "webgpu"]
    assert {"--isolate", "--browser-arg=--x y", "n=2"} <= set(words)


def test_the_command_of_a_check_has_one_revision() -> None:
    request = Request("1.20.1", "1.20.1", ("a",))
    assert options.command_of(request, "check") == "bisect-bot check 1.20.1 --case a"


@pytest.mark.parametrize("words", [[], ["--nonsense"], ["run"], ["nothing"], ["run", "--good"]])
def test_wrong_words_are_usage_not_a_traceback(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status = app.main(words)
    assert status in ((0, 2) if not words else (2,))
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [["check"], ["check", "--nonsense"], ["check", "1.20.1"]])
def test_wrong_words_for_check_are_no_verdict(words: list[str]) -> None:
    assert app.main(words) == CheckExit.USAGE
    assert CheckExit.USAGE >= 128


@pytest.mark.parametrize("command", ["run", "check", "demo", "resume", "sessions", "report", "versions"])
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main([command, "--help"]) == 0
    assert f"bisect-bot {command}" in capsys.readouterr().out


def test_an_initial_state_without_feed_is_refused() -> None:
    asked = options.CaseOptions(case=["a"], frames=3, initial_state="zeros")
    with pytest.raises(UsageError, match="--initial-state needs --feed"):
        asked.request()


def test_a_report_folder_that_cannot_be_written_is_refused_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="no reports can be written"):
            out_folder(folder)
    assert out_folder(tmp_path / "new" / "deep") == str(tmp_path / "new" / "deep")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_who_leaves_early_changes_no_exit_status(stream: str) -> None:
    read, write = os.pipe()
    os.close(read)
    code = (
        "import sys; from bisect_bot.cli.console import PatientConsole, print_patiently\n"
        f"console = PatientConsole(stderr={stream == 'stderr'})\n"
        "for _ in range(3): console.print('x' * 100000)\n"
        + ("print_patiently('y' * 100000)\n" if stream == "stdout" else "")
        + "sys.exit(11)"
    )
    out, err = (write, subprocess.DEVNULL) if stream == "stdout" else (subprocess.DEVNULL, write)
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60, stdout=out, stderr=err)
    os.close(write)
    assert done.returncode == 11
