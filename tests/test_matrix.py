"""The table of revision × case × target × backend: what is asked, what is shown, and that no cell loses the others."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from bisect_bot.errors import MachineError, UnknownRevision
from bisect_bot.model import Cell, Outcome, Report, Request, Result, Revision, Trial
from bisect_bot.probes import plain_target
from bisect_bot.reports.escaping import line
from bisect_bot.reports.matrix import MAX_LINES, dumps, sentence, summary, to_json, to_markdown
from bisect_bot.session import control, matrix
from bisect_bot.session.journal import Journal
from bisect_bot.session.loop import Ruling
from bisect_bot.session.matrix import expand, fill, labels, open_units
from bisect_bot.session.rounds import ask_all
from bisect_bot.session.supply import Supply
from bisect_bot.session.units import Unit
from bisect_bot.session.watcher import Silent
from bisect_bot.session.workshop import Workshop, open_workshop
from bisect_bot.targets.browsers import load_config, locate
from tests import planted_builds
from tests.command import Shell
from tests.test_reports_samples import BUILDS, HOSTILE, found_regression, trial
from tests.test_session_bench import bench

SCHEMA = json.loads((Path(__file__).parent.parent / "docs" / "report.schema.json").read_text(encoding="utf-8"))
OCTOBER, DECEMBER = BUILDS[3].id, BUILDS[4].id


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A workshop with a journal of its own."""
    with open_workshop(Silent(), tmp_path / "cache") as opened:
        return opened


def table_of(letters: str, cells: Sequence[Cell], result: Result = Result.TESTED) -> Report:
    """The report of a matrix: for each cell one trial of each build, by one letter (g, b, s, i, or - for untried)."""
    outcomes = dict(zip("gbsi", Outcome, strict=True))
    told = list(zip(BUILDS, letters, strict=False))
    trials = [trial(build, cell, outcomes[x], "matrix") for build, x in told if x != "-" for cell in cells]
    revisions = tuple(build for build, letter in told if letter != "-")
    return replace(
        found_regression(), result=result, cells=(), proofs=(), revisions=revisions, trials=tuple(trials), reason="why"
    )


def cells(*backends: str, case: str = "conv", target: str = "chrome") -> list[Cell]:
    """One cell for each backend."""
    return [Cell(case, target, backend) for backend in backends]


def printed(report: Report, width: int) -> str:
    """What a terminal of that width shows."""
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(summary(report), crop=False)
    return capture.get()


# --- what is asked ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "word", "ids"),
    [
        ("1.20.1", "1.20.1", ["1.20.1"]),
        (f"{OCTOBER}..1.21.0", f"{OCTOBER}..1.21.0", [*[b.id for b in BUILDS[3:7]], "1.21.0"]),
        (f"1.21.0..{OCTOBER}", f"{OCTOBER}..1.21.0", [*[b.id for b in BUILDS[3:7]], "1.21.0"]),
        ("d9ca84ef96..d27fecd3d3", f"{OCTOBER}..{DECEMBER}", [OCTOBER, DECEMBER]),
        ("1.20.1..1.20.1", "1.20.1", ["1.20.1"]),
    ],
)
def test_a_range_is_its_ends_and_the_builds_of_main_between_them(
    workshop: Workshop, text: str, word: str, ids: list[str]
) -> None:
    found, revisions = expand(text, Supply(Request("", "", ()), workshop, BUILDS))
    assert (found, [revision.id for revision in revisions]) == (word, ids)


@pytest.mark.parametrize("text", ["9.9.9", "1.20.1..9.9.9", "..", "1.20.1..", "..1.20.1"])
def test_a_range_of_what_nobody_knows_is_refused(workshop: Workshop, text: str) -> None:
    with pytest.raises(UnknownRevision):
        expand(text, Supply(Request("", "", ()), workshop, BUILDS))


# --- what is shown ------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [Result.TESTED, Result.STOPPED, Result.UNUSABLE])
def test_the_report_of_a_matrix_fits_the_schema(result: Result) -> None:
    read = json.loads(dumps(table_of("g-bs-gib", cells("webgpu", "wasm"), result)))
    jsonschema.Draft202012Validator(SCHEMA).validate(read)
    assert (read["kind"], read["result"], read["boundary"]) == ("matrix", result.value, None)
    assert len(read["matrix"]) == 12


def test_the_sentence_counts_what_was_said() -> None:
    table = table_of("gggb-s", cells("webgpu", "wasm"))
    assert sentence(table) == "10 verdicts on 5 revisions: 6 good, 2 bad, 2 skip."
    assert "the same command" in sentence(replace(table, result=Result.STOPPED))


@pytest.mark.parametrize("width", [70, 80, 120])
def test_a_terminal_shows_every_name_in_one_piece(width: int) -> None:
    table = table_of("gbsigb", cells("webgpu", "wasm", "webgl"))
    bundle = "ort.webgpu.bundle.min.mjs"
    text = printed(replace(table, trials=tuple(replace(t, bundle=bundle) for t in table.trials)), width)
    for build in BUILDS[:6]:
        assert text.count(f"{build.id} ") >= 3
    if width >= 80:
        assert text.count(bundle) == 18
        lines = [each.rstrip() for each in text.splitlines() if not each.startswith("reproduce")]
        assert max(len(each) for each in lines) <= width


def test_large_tables_show_what_is_not_good_and_count_the_rest() -> None:
    many = [cell for n in range(MAX_LINES) for cell in cells("wasm", case=f"case_{n}")]
    table = table_of("gg", many)
    bad = trial(BUILDS[1], many[7], Outcome.BAD, "matrix")
    trials = [bad if (t.cell, t.revision) == (bad.cell, bad.revision) else t for t in table.trials]
    text = printed(replace(table, trials=tuple(trials)), 100)
    assert "case_7 on chrome/wasm" in text and "case_8 on chrome/wasm" not in text
    assert f"{MAX_LINES - 1} good, 1 bad" in text


def test_markdown_has_the_longer_side_downwards() -> None:
    tall = to_markdown(table_of("gbsg", cells("wasm")))
    assert f"| `{OCTOBER}` | good (gpu, 2.4e-07) |" in tall
    wide = to_markdown(table_of("g", cells("wasm", "webgl", "webgpu")))
    assert "| `conv on webgl` | good (gpu, 2.4e-07) |" in wide


def test_text_from_outside_stays_text() -> None:
    table = table_of("gb", [Cell(HOSTILE, HOSTILE, "wasm")])
    table = replace(table, trials=tuple(replace(t, bundle=HOSTILE) for t in table.trials))
    assert "<script" not in to_markdown(table)
    assert "\x1b" not in printed(table, 80).replace("\x1b[", "")
    assert to_json(table)["matrix"][0]["bundle"].startswith(HOSTILE[:20])
    assert dumps(table).isascii()


# --- what is done -------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize(
    ("asked", "called"),
    [
        (("chrome", "electron:/a/b/electron"), ("chrome", "electron")),
        (("electron:28", "chrome", "electron:/a", "electron"), ("electron", "chrome", "electron-2", "electron-3")),
    ],
)
def test_a_browser_that_cannot_be_tested_is_called_as_it_would_be(
    workshop: Workshop, asked: tuple[str, ...], called: tuple[str, ...]
) -> None:
    assert labels(asked) == called
    missing = tuple(f"{name}:/no/such/browser" for name in ("electron", "chrome", "electron"))
    opened, closed = open_units(Request("", "", ("case",), targets=missing, backends=("webgpu", "wasm")), workshop)
    assert opened == ()
    names = ["electron", "electron", "chrome", "chrome", "electron-2", "electron-2"]
    assert [each.target for each in closed] == names


def test_a_case_without_an_answer_does_not_lose_those_beside_it(tmp_path: Path, workshop: Workshop) -> None:
    with Journal.open(tmp_path / "journal.sqlite3") as journal:
        made = bench(journal, tmp_path, "echo", "wait", case_timeout_s=60)
        made.request = replace(made.request, probe_timeout_s=4)
        unit = Unit(plain_target(locate("chrome", load_config()), "any", ()), "wasm")
        fill([Revision("1.0.0", "1.0.0")], [unit], [], made, workshop)
    assert [(t.cell.case, t.verdict.outcome) for t in made.trials] == [
        ("0-echo", Outcome.GOOD),
        ("1-wait", Outcome.INFRA),
    ]
    assert "probe-timeout" in made.trials[1].verdict.reason


def test_a_machine_that_answers_nothing_is_given_up_and_said_so_in_each_cell(
    tmp_path: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "PATIENCE", 1)
    with Journal.open(tmp_path / "journal.sqlite3") as journal:
        made = bench(journal, tmp_path, "echo")
        nowhere = replace(
            plain_target(locate("chrome", load_config()), "any", ()), executable=str(tmp_path / "nowhere")
        )
        builds = [Revision(f"1.{n}.0", f"1.{n}.0") for n in range(4)]
        fill(builds, [Unit(nowhere, "wasm")], [], made, workshop)
    assert [t.verdict.outcome for t in made.trials] == [Outcome.INFRA] * 4
    assert "in a row" in made.trials[-1].verdict.reason
    assert made.tally["probes"] == 3


@pytest.mark.network
@pytest.mark.browser
def test_every_revision_is_tested_with_every_backend_and_nothing_twice(shell: Shell) -> None:
    words = ("matrix", "1.20.1", "1.14.0", "--case", "builtin:smoke", "--out", "report")
    backends = ("--backend", "webgpu", "--backend", "wasm", "--backend", "webgl")
    done = shell.run(*words, *backends)
    assert done.status == 0, done.err
    rows = shell.report()["matrix"]
    assert [(row["revision"], row["backend"], row["verdict"]) for row in rows] == [
        ("1.14.0", "webgpu", "skip"),
        ("1.14.0", "wasm", "good"),
        ("1.14.0", "webgl", "good"),
        ("1.20.1", "webgpu", "good"),
        ("1.20.1", "wasm", "good"),
        ("1.20.1", "webgl", "good"),
    ]
    assert "no bundle webgpu" in rows[0]["reason"]
    assert [row["provider"] for row in rows[1:]] == ["wasm", "webgl", "webgpu", "wasm", "webgl"]
    assert [row["bundle"] for row in rows[1:]] == ["ort.min.js"] * 2 + [
        f"ort.{name}.mjs" for name in ("webgpu.bundle.min", "wasm.min", "webgl.min")
    ]
    assert all(name in done.out for name in ("1.14.0", "1.20.1", "ort.webgl.min.mjs", "no bundle webgpu"))
    assert (shell.folder / "report" / "report.md").read_text().startswith("**6 verdicts on 2 revisions")

    again = shell.run(*words, *backends, "--json")
    assert json.loads(again.out)["counts"]["probes"] == 0
    assert json.loads(again.out) == shell.report()
    session = json.loads(again.out)["session"]
    assert json.loads(shell.run("report", session, "--format", "json").out)["kind"] == "matrix"
    assert "is a matrix" in shell.run("resume", session).err
    assert "tested" in shell.run("sessions").out
    assert shell.run("report").out.startswith("**6 verdicts on 2 revisions"), "the latest, though it is no run"


@pytest.mark.network
@pytest.mark.browser
def test_ctrl_c_keeps_what_was_tested_and_the_same_command_goes_on(shell: Shell) -> None:
    words = ("matrix", "1.14.0", "1.20.1", "--case", "builtin:smoke", "--backend", "wasm", "--out", "report")
    running = shell.start(*words)
    assert running.stderr is not None
    for text in running.stderr:
        if text.startswith("good"):
            break
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 13, err
    assert "Traceback" not in err
    report = shell.report()
    assert (report["result"], [row["revision"] for row in report["matrix"]]) == ("stopped", ["1.14.0"])
    assert shell.run(*words).status == 0
    assert [row["reused"] for row in shell.report()["matrix"]] == [True, False]


@pytest.mark.network
@pytest.mark.browser
def test_without_an_adapter_the_cpu_still_answers(shell: Shell) -> None:
    words = ("matrix", "1.20.1", "--case", "builtin:smoke", "--browser-arg=--disable-software-rasterizer")
    done = shell.run(*words, "--adapter", "software", "--backend", "webgpu", "--backend", "wasm", "--out", "report")
    assert done.status == 0, done.err
    said = {row["backend"]: row for row in shell.report()["matrix"]}
    assert (said["webgpu"]["verdict"], said["wasm"]["verdict"]) == ("infra", "good")
    assert "requestAdapter() answers null" in said["webgpu"]["reason"]
    alone = shell.run(*words, "--adapter", "software", "--out", "alone")
    assert alone.status == 14
    assert shell.report("alone")["result"] == "unusable"
    assert "requestAdapter() answers null" in line(alone.out)


@pytest.mark.network
def test_the_plan_fetches_and_runs_nothing(shell: Shell) -> None:
    words = ("--case", "builtin:smoke", "--backend", "wasm", "--backend", "webgl", "--plan")
    done = shell.run("matrix", "1.14.0", "1.20.1", "1.14.0", *words)
    assert done.status == 0, done.err
    assert "4 verdict(s) in 4 probe(s), with at most 2 build(s) fetched" in done.out
    assert done.out.splitlines()[-1] == "nothing was done for this plan; to start it: the same command without --plan"
    assert shell.run("matrix", "9.9.9", *words).status == 2
    assert shell.run("matrix", "1.14.0", *words, "--against", "good-end").status == 2


def test_questions_whose_answers_turn_out_void_are_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []
    unit = Unit(replace(found_regression().targets[0]), "wasm")
    void = trial(BUILDS[0], Cell("conv", "chrome", "wasm"), Outcome.BAD, "matrix")

    class OnceSick:
        """A machine that takes its first answer back when the second was given."""

        def ruling(self, *, last: bool) -> Ruling:
            return Ruling((void,) if len(asked) == 2 else ())

    def ask(revision: Revision, _unit: Unit) -> None:
        asked.append(revision.id)

    def unanswered(_revision: Revision, _unit: Unit, error: MachineError) -> None:
        raise error

    ask_all([(build, unit) for build in BUILDS[:3]], OnceSick(), ask, unanswered)  # type: ignore[arg-type]
    assert asked == [BUILDS[0].id, BUILDS[1].id, BUILDS[0].id, BUILDS[2].id]


def test_after_a_last_question_without_an_answer_the_others_are_still_looked_at() -> None:
    rulings: list[bool] = []
    unheard: list[str] = []
    unit = Unit(found_regression().targets[0], "wasm")

    class Recorded:
        """Controls that find nothing."""

        def ruling(self, *, last: bool) -> Ruling:
            rulings.append(last)
            return Ruling()

    def ask(revision: Revision, _unit: Unit) -> None:
        if revision == BUILDS[1]:
            raise MachineError("no answer")

    def unanswered(revision: Revision, _unit: Unit, _error: MachineError) -> None:
        unheard.append(revision.id)

    ask_all([(build, unit) for build in BUILDS[:2]], Recorded(), ask, unanswered)  # type: ignore[arg-type]
    assert (rulings, unheard) == ([False, True], [BUILDS[1].id])


@pytest.mark.parametrize("after", range(1, 7))
def test_a_machine_that_stays_ill_leaves_one_answer_in_each_cell(
    tmp_path: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(control, "PATIENCE_S", 0.0)
    revisions = planted_builds.revisions(3)
    builds = planted_builds.plant(tmp_path / "builds", revisions, lambda _: "times 1")
    heard: list[Trial] = []

    def tried(trial: Trial) -> None:
        heard.append(trial)
        if len(heard) == after:
            builds.machine(planted_builds.WRONG)

    opened = [Unit(planted_builds.NOWHERE, backend) for backend in ("wasm", "webgpu")]
    with Journal.open(tmp_path / "journal.sqlite3") as journal:
        made = builds.bench(journal, Request("", "", ("case",), kind="matrix", isolate=True), tried=tried)
        fill(revisions, opened, [], made, workshop)
        again = builds.bench(journal, made.request)
        builds.machine(planted_builds.HEALTHY)
        fill(revisions, opened, [], again, workshop)
    cells = [(t.revision, t.cell) for t in made.trials]
    assert sorted(map(str, cells)) == sorted({str(each) for each in cells})
    assert len(cells) == 6
    told = {t.verdict.outcome for t in made.trials}
    assert told <= {Outcome.GOOD, Outcome.SKIP, Outcome.INFRA} and Outcome.INFRA in told
    assert {t.verdict.outcome for t in again.trials} == {Outcome.GOOD}


@pytest.mark.parametrize("source", ["reference", "wasm"])
def test_what_is_compared_with_another_run_is_not_salvaged_from_what_was_compared_with_the_files(
    tmp_path: Path, workshop: Workshop, source: str
) -> None:
    (revision, *_) = planted_builds.revisions(3)
    builds = planted_builds.plant(tmp_path / "builds", [revision], lambda _: "times 2")
    unit = Unit(planted_builds.NOWHERE, "webgpu")
    request = Request("", "", ("case",), kind="matrix", isolate=True)
    with Journal.open(tmp_path / "journal.sqlite3") as journal:
        files = builds.bench(journal, request)
        files.test(revision, unit, "matrix")
        files.settle(unit, healthy=True)
        made = builds.bench(journal, replace(request, against=source))
        told = [t.verdict.outcome for t in matrix._salvaged(made, revision, unit, "the machine is away")]
    assert told == [Outcome.BAD if source == "reference" else Outcome.INFRA]
