"""Somebody's report.json: read as a stranger's file, and its two boundary revisions tested again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bisect_bot.cli.verify import _clone, _require_files, claimed_options, told, verify_report
from bisect_bot.errors import CaseError, UsageError
from bisect_bot.model import Case, Cell, Failure, Outcome, Request, Signature, Trial, Verdict
from bisect_bot.reports.claim import Claim, ClaimedCell, read_claim
from bisect_bot.reports.json_report import to_json
from bisect_bot.reports.reading import MAX_BYTES
from bisect_bot.session.journal import FILE_NAME, Journal
from bisect_bot.session.verify import Answer, Verification, compare, match_cases, worst
from tests.command import Shell
from tests.test_reports_samples import HOSTILE, SAMPLES, found_regression

OCTOBER = "1.21.0-dev.20241024-d9ca84ef96"
DECEMBER = "1.21.0-dev.20241205-d27fecd3d3"
JANUARY = "1.21.0-dev.20250111-73f5b0c597"
FAILURE = Signature(Failure.MISMATCH, "demo", "values differ")
CLAIMED = ClaimedCell("demo", "webgpu", Outcome.GOOD, Outcome.BAD, FAILURE)


def report_of(
    old: str = OCTOBER, new: str = DECEMBER, command: str = "bisect-bot run --good 1 --bad 2 --case builtin:demo"
) -> dict[str, Any]:
    """As much of a report.json as is read: the demo was broken between two builds."""
    boundary = {"last_old": {"id": old, "version": old}, "first_new": {"id": new, "version": new}}
    cell = {"name": "demo", "backend": "webgpu", "direction": "regression", "boundary": boundary}
    return {"schema": 1, "result": "found", "boundary": boundary, "cases": [cell], "reproduce": command}


def written(folder: Path, value: object) -> Path:
    """A file with `value` as JSON, or with the bytes that it is."""
    path = folder / "report.json"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


# --- reading a stranger's file ------------------------------------------------------------------


def test_a_report_of_ours_is_read(tmp_path: Path) -> None:
    claim = read_claim(written(tmp_path, to_json(found_regression())))
    assert (claim.old, claim.new) == (OCTOBER, DECEMBER)
    (cell,) = claim.cells
    assert (cell.case, cell.old, cell.new) == ("test_averagepool_2d_ceil", Outcome.GOOD, Outcome.BAD)
    assert cell.signature is not None and cell.signature.kind is Failure.MISMATCH


def test_only_cells_with_another_boundary_are_said_to_have_one(tmp_path: Path) -> None:
    report = report_of()
    (cell,) = report["cases"]
    other = {"last_old": {"id": "3", "version": "3"}, "first_new": {"id": "4", "version": "4"}}
    same, elsewhere = {**cell, "direction": None, "boundary": None}, {**cell, "boundary": other}
    nothing, texts = Verification("", Answer.AGREE, (OCTOBER, DECEMBER), (), ()), []
    for more in ([same], [same, elsewhere], [same, elsewhere, elsewhere]):
        claim = read_claim(written(tmp_path, {**report, "cases": [cell, *more]}))
        texts.append(told(nothing, claim).plain)
    assert "another boundary" not in texts[0]
    assert "1 more answer of the report has another boundary and was not tested." in texts[1]
    assert "2 more answers of the report have another boundary and were not tested." in texts[2]


def test_how_it_fails_is_read_with_the_time_when_it_begins(tmp_path: Path) -> None:
    report = report_of()
    report["cases"][0]["signature"] = {"kind": "mismatch", "case": "demo", "message": "y: all zero", "when": "run 2"}
    (cell,) = read_claim(written(tmp_path, report)).cells
    assert cell.signature == Signature(Failure.MISMATCH, "demo", "y: all zero", "run 2")


@pytest.mark.parametrize("name", [name for name, report in SAMPLES.items() if report.result != "found"])
def test_a_report_without_a_boundary_is_refused_and_says_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="boundary"):
        read_claim(written(tmp_path, to_json(SAMPLES[name])))


def changed(**changes: object) -> Callable[[], object]:
    """A report with some keys changed."""
    return lambda: {**report_of(), **changes}


@pytest.mark.parametrize(
    "make",
    {
        "nothing": lambda: b"",
        "no JSON": lambda: b"{",
        "no UTF-8": lambda: b'{"schema": "\xff"}',
        "a list": list,
        "deep": lambda: b"[" * 100_000,
        "deep below": lambda: b'{"schema":1,"result":"found","cases":' + b'{"a":' * 100_000,
        "a long number": lambda: b'{"schema":' + b"9" * 100_000 + b"}",
        "infinity": lambda: b'{"schema":1e999}',
        "schema 2": changed(schema=2),
        "schema as text": changed(schema="1"),
        "no cases": changed(cases=[]),
        "an unknown result": changed(result=HOSTILE.encode("utf-8", "replace").decode()),
        "a number for a name": changed(boundary={"last_old": {"id": 1}, "first_new": {"id": 2}}),
        "a name without end": changed(boundary={"last_old": {"id": "1" * 10_000}, "first_new": {"id": "2"}}),
        "no boundary": changed(boundary=None),
        "a boundary of one": lambda: report_of(OCTOBER, OCTOBER),
    }.values(),
)
def test_what_is_no_report_is_one_line_of_error(tmp_path: Path, make: Callable[[], object]) -> None:
    with pytest.raises(UsageError) as raised:
        read_claim(written(tmp_path, make()))
    assert len(str(raised.value)) < 600 and "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_a_file_larger_than_any_report_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, report_of())
    assert read_claim(path).new == DECEMBER
    with path.open("ab") as file:
        file.write(b" " * MAX_BYTES)
    with pytest.raises(UsageError, match="MiB"):
        read_claim(path)


@pytest.mark.parametrize("name", [".", "nowhere.json", "pipe", "a\0b"])
def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError):
        read_claim(tmp_path / name)


# --- options of a stranger ----------------------------------------------------------------------


def test_the_options_of_the_command_are_taken() -> None:
    asked, notes = claimed_options("bisect-bot run --good 1 --bad 2 --case 'a b' --seed 7 --dim n=2 --isolate --runs 3")
    assert (asked.case, asked.seed, asked.dim, asked.isolate, asked.runs) == (["a b"], 7, ["n=2"], True, 3)
    assert notes == ()


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("--target chrome:/tmp/evil", "target"),
        ("--browser-arg=--gpu-launcher=evil", "browser_arg"),
        ("--repo https://evil/repo", "repo"),
        ("--adapter '(a+)+$'", "adapter"),
    ],
)
def test_what_could_start_a_program_or_never_end_is_not_taken_but_said(words: str, field: str) -> None:
    usual, _ = claimed_options("bisect-bot run --good 1 --bad 2 --case a")
    asked, notes = claimed_options(f"bisect-bot run --good 1 --bad 2 --case a {words}")
    assert asked == usual
    assert len(notes) == 1 and f"--{field.replace('_', '-')}" in notes[0]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "bisect-bot",
        "rm -rf /",
        "bisect-bot cache gc",
        "bisect-bot run",
        "bisect-bot run --help",
        "bisect-bot run --good 1 --bad 2",
        "bisect-bot run --good 1 --bad 2 --case a --nonsense",
        "bisect-bot run --good 1 --bad 2 --case a; rm -rf /",
        "bisect-bot run --good 1 --bad 2 --case 'a",
        "bisect-bot run --good 1 --bad 2 --case a --runs 1000000000",
        "bisect-bot run --good 1 --bad 2 --case a --case-timeout inf",
        "bisect-bot run --good 1 --bad 2 --case a --probe-timeout nan",
        "bisect-bot run --good 1 --bad 2 --case a --runs " + "9" * 5000,
    ],
)
def test_another_command_or_one_without_measure_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError):
        claimed_options(command)
    assert capsys.readouterr().out == "", "it is read, not run"


# --- judging ------------------------------------------------------------------------------------


def trials(*outcomes: Outcome, kind: Failure = Failure.MISMATCH) -> list[Trial]:
    """Runs of one revision with these outcomes."""
    cell = Cell("demo", "chrome", "webgpu")
    return [
        Trial("1", cell, n, Verdict(o, "why", Signature(kind, "demo", "values differ") if o is Outcome.BAD else None))
        for n, o in enumerate(outcomes)
    ]


@pytest.mark.parametrize(
    ("said", "here", "answer"),
    [
        (Outcome.GOOD, trials(Outcome.GOOD, Outcome.GOOD), Answer.AGREE),
        (Outcome.BAD, trials(Outcome.BAD, Outcome.BAD), Answer.AGREE),
        (Outcome.GOOD, trials(Outcome.BAD, Outcome.BAD), Answer.DISAGREE),
        (Outcome.BAD, trials(Outcome.GOOD, Outcome.GOOD), Answer.DISAGREE),
        (Outcome.BAD, trials(Outcome.BAD, Outcome.GOOD), Answer.CANNOT_TELL),
        (Outcome.BAD, trials(Outcome.BAD, Outcome.BAD, kind=Failure.CRASH), Answer.CANNOT_TELL),
        (Outcome.GOOD, trials(Outcome.BAD, Outcome.BAD, kind=Failure.CRASH), Answer.DISAGREE),
        (Outcome.BAD, trials(Outcome.SKIP, Outcome.SKIP), Answer.CANNOT_TELL),
        (Outcome.BAD, [], Answer.CANNOT_TELL),
    ],
)
def test_what_is_seen_here_against_what_is_said_there(said: Outcome, here: list[Trial], answer: Answer) -> None:
    told, why = compare(CLAIMED, said, here)
    assert told is answer
    assert why


def failing(*signatures: Signature) -> list[Trial]:
    """Runs of one revision that fail so."""
    cell = Cell("demo", "chrome", "webgpu")
    return [Trial("1", cell, n, Verdict(Outcome.BAD, "why", each)) for n, each in enumerate(signatures)]


@pytest.mark.parametrize(
    ("claimed", "here", "answer", "words"),
    [
        (FAILURE, [replace(FAILURE, case="theirs")], Answer.AGREE, "as in the report:"),
        (FAILURE, [replace(FAILURE, message="y: all zero")], Answer.CANNOT_TELL, "y: all zero.*instead.*values differ"),
        (FAILURE, [replace(FAILURE, when="run 2")], Answer.CANNOT_TELL, "from run 2 on, instead of"),
        (replace(FAILURE, when="run 2"), [FAILURE], Answer.CANNOT_TELL, "instead of .* from run 2 on"),
        (FAILURE, [FAILURE, replace(FAILURE, kind=Failure.CRASH)], Answer.CANNOT_TELL, "mismatch .*; crash"),
        (
            Signature(Failure.KERNEL_ERROR, "demo", "AveragePool: ceil"),
            [Signature(Failure.KERNEL_ERROR, "demo", "Softmax: oom")],
            Answer.CANNOT_TELL,
            "Softmax: oom.*instead of.*AveragePool: ceil",
        ),
        (None, [FAILURE], Answer.AGREE, "does not say how it fails"),
        (None, [FAILURE, replace(FAILURE, message="other")], Answer.CANNOT_TELL, "different ways"),
    ],
)
def test_another_failure_is_not_the_one_that_was_reported(
    claimed: Signature | None, here: list[Signature], answer: Answer, words: str
) -> None:
    told, why = compare(replace(CLAIMED, signature=claimed), Outcome.BAD, failing(*here, here[0]))
    assert (told, bool(re.search(words, why))) == (answer, True), why


def test_one_contradiction_is_enough_and_no_answer_is_none() -> None:
    assert worst([Answer.AGREE, Answer.CANNOT_TELL, Answer.DISAGREE]) is Answer.DISAGREE
    assert worst([Answer.AGREE, Answer.CANNOT_TELL]) is Answer.CANNOT_TELL
    assert worst([Answer.AGREE]) is Answer.AGREE
    assert worst([]) is Answer.CANNOT_TELL


def test_a_case_is_known_by_its_content_its_name_or_by_being_the_only_one() -> None:
    def case(name: str, digest: str) -> Case:
        return Case(name, digest * 64, Path("model.onnx"), (), "files")

    claim = Claim("1", "2", (CLAIMED, replace(CLAIMED, case="other")), {"demo": "a" * 16, "other": "b" * 16}, 0, "")
    names, notes = match_cases(claim, [case("renamed", "a"), case("other", "c")])
    assert names == {"demo": "renamed", "other": "other"}
    assert len(notes) == 1 and "other" in notes[0]
    with pytest.raises(CaseError, match="demo"):
        match_cases(claim, [case("renamed", "d"), case("other", "b")])
    alone = replace(claim, cells=(CLAIMED,))
    assert match_cases(alone, [case("theirs", "d")])[0] == {"demo": "theirs"}


# --- for real -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["nowhere.onnx", "/nowhere/*.onnx", "//host/share/model.onnx", "x\0y", "1:x.jsonc"])
def test_a_case_that_is_not_here_has_to_be_given(tmp_path: Path, case: str) -> None:
    path = written(tmp_path, report_of(command=f"bisect-bot run --good 1 --bad 2 --case '{case}'"))
    with pytest.raises(UsageError) as raised:
        verify_report(path)
    assert "--case" in raised.value.advice


@pytest.mark.parametrize(
    ("make", "case"),
    [
        (None, "/"),
        (None, "."),
        ("below/one/model.onnx", "."),
        ("below/one/model.onnx", "below"),
        ("below/one/model.onnx", "below/*"),
        ("below/one/model.onnx", "~"),
        ("cases.zip", "cases.zip"),
        ("cases.ZIP", "./cases.ZIP"),
        ("suite-test-list.jsonc", "suite-test-list.jsonc#webgpu"),
    ],
)
@pytest.mark.parametrize("repo", [None, "."])
def test_nothing_is_looked_for_by_a_strangers_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: str | None, case: str, repo: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    if make:
        (tmp_path / make).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / make).write_bytes(b"")
    path = written(tmp_path, report_of(command=f"bisect-bot run --good 1 --bad 2 --case '{case}'"))
    with pytest.raises(UsageError, match="the report's case") as raised:
        verify_report(path, repo=repo)
    assert "--case" in raised.value.advice


@pytest.mark.parametrize("case", ["one", "one/model.onnx", "ops.jsonc#add", "builtin:demo", "script", "HEAD:ops.jsonc"])
def test_a_strangers_case_that_is_here_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one/model.onnx", "ops.jsonc", "script/repro.mjs"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    _require_files([case], Claim("1", "2", (CLAIMED,), {}, 0, ""), "." if ":" in case else None)


def between_commits(session: str = "") -> dict[str, Any]:
    """A report whose boundary lies between two commits."""
    report = report_of("a" * 40, "b" * 40, "bisect-bot run --good 1 --bad 2 --case builtin:demo --repo /theirs")
    for side in (*report["boundary"].values(), *report["cases"][0]["boundary"].values()):
        side["version"] = None
    return {**report, "session": session}


def test_a_report_of_commits_without_a_clone_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BISECT_BOT_CACHE", str(tmp_path / "cache"))
    path = written(tmp_path, between_commits("20241130-101112-ab12"))
    with pytest.raises(UsageError, match=r"between two commits \(aaaaaaaaaa and bbbbbbbbbb\)") as raised:
        verify_report(path, case=["my case"])
    command = f"bisect-bot verify {path} --case 'my case' --repo https://github.com/microsoft/onnxruntime"
    assert f"Type: {command} " in raised.value.advice
    assert not (tmp_path / "cache").exists(), "nothing is made to look for a session"


def test_the_clone_of_our_own_session_is_known_and_a_strangers_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BISECT_BOT_CACHE", str(tmp_path))
    with Journal.open(tmp_path / FILE_NAME) as journal:
        session = journal.start_session(Request("1", "2", ("builtin:demo",), repo="/ours"))
    claim = read_claim(written(tmp_path, between_commits(session)))
    assert claim.of_commits
    repo, (note,) = _clone(claim, None, [])
    assert repo == "/ours" and session in note
    assert _clone(claim, "/named", []) == ("/named", ())
    with pytest.raises(UsageError):
        _clone(replace(claim, session=session[:-1]), None, [])


@pytest.mark.network
@pytest.mark.browser
def test_a_true_report_is_agreed_with_and_nothing_in_it_is_started(shell: Shell) -> None:
    evil = shell.folder / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {shell.folder}/started\n")
    evil.chmod(0o755)
    command = f"bisect-bot run --good 1 --bad 2 --case builtin:demo --target chrome:{evil}"
    written(shell.folder, report_of(command=f"{command} --browser-arg=--gpu-launcher={evil}"))
    done = shell.run("verify", "report.json", "--json")
    assert done.status == 0, done.err
    told = json.loads(done.out)
    assert (told["kind"], told["answer"]) == ("verify", "agree")
    assert [(r["revision"], r["answer"]) for r in told["revisions"]] == [(OCTOBER, "agree"), (DECEMBER, "agree")]
    assert all("2 runs" in r["cells"][0]["why"] for r in told["revisions"])
    assert [note.partition(": ")[2].split()[0] for note in told["notes"]] == ["--target", "--browser-arg"]
    assert not (shell.folder / "started").exists()


@pytest.mark.network
@pytest.mark.browser
def test_a_false_report_is_disagreed_with(shell: Shell) -> None:
    written(shell.folder, report_of(DECEMBER, JANUARY))
    done = shell.run("verify", "report.json")
    assert done.status == 11, done.err
    said = [text.split()[:2] for text in done.out.splitlines()]
    assert said == [["disagree", DECEMBER], ["agree", JANUARY], ["disagree"]]
    assert "bad here, good in the report" in done.out


@pytest.mark.network
def test_a_boundary_that_goes_backwards_is_refused(shell: Shell) -> None:
    written(shell.folder, report_of(DECEMBER, OCTOBER))
    done = shell.run("verify", "report.json")
    assert (done.status, "no step forward" in done.err) == (2, True)
