"""One sentence for all cells of a run: which share an answer, and how they are named."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from bisect_bot.model import Boundary, Cell, CellResult, Direction, Report, Result, Suspect, Trial
from bisect_bot.reports.groups import groups, groups_sentence
from bisect_bot.reports.html_report import to_html
from bisect_bot.reports.markdown import to_markdown
from tests.test_reports_samples import BUILDS, HOSTILE, SAMPLES, found_fix, found_regression, history, hostile
from tests.test_reports_texts import printed

COMMITS = found_fix().revisions


def answered(cell: Cell, letters: str) -> CellResult:
    """The answer of a cell whose builds said `letters`: one change is a boundary, equal ends are the same."""
    changes = [i for i in range(1, len(letters)) if letters[i] != letters[i - 1] and "-" not in letters[i - 1 : i + 1]]
    if letters[0] == letters[-1] or len(changes) != 1:
        result = Result.SAME if letters[0] == letters[-1] else Result.INCONCLUSIVE
        return CellResult(cell, result, None, None, note="runs disagree.")
    direction = Direction.REGRESSION if letters[0] == "g" else Direction.FIX
    return CellResult(cell, Result.FOUND, direction, Boundary(BUILDS[changes[0] - 1], BUILDS[changes[0]]))


def run_of(told: Mapping[str, str]) -> Report:
    """A run with one cell for each `case on target/backend`, with one letter a build."""
    cells: list[CellResult] = []
    trials: list[Trial] = []
    for words, letters in told.items():
        case, target, backend = re.split(" on |/", words)
        cells.append(answered(Cell(case, target, backend), letters))
        trials += history(cells[-1].cell, letters)
    return replace(found_regression(), cells=tuple(cells), trials=tuple(trials))


def test_cells_that_share_an_answer_are_one_group_and_the_rest_is_everything_else() -> None:
    told = {
        "conv on electron/wasm": "bbg",
        "conv on chrome/wasm": "bbg",
        "conv on chrome/webgpu": "ggg",
        "conv on electron/webgpu": "ggg",
        "conv on edge/webgpu": "ggg",
    }
    assert groups_sentence(run_of(told)) == (
        "electron/wasm and chrome/wasm: fixed between 1.20.0 and 1.20.1; everything else: always good."
    )


def test_a_commit_is_named_as_such() -> None:
    assert groups_sentence(found_fix()) == (
        "matmul.jsonc#same ranks, different | broadcast and matmul.jsonc#larger 1: fixed by d9b91682f1; "
        "matmul.jsonc#two axes: always good."
    )


def test_what_was_searched_for_comes_first_and_the_largest_rest_last() -> None:
    told = {"a on x/webgpu": "gb", "b on x/webgpu": "gg", "c on x/webgpu": "gg", "d on x/webgpu": "bb"}
    assert [str(group) for group in groups(run_of(told))] == [
        "a: broken between 1.20.0-dev.20241016-2b8fc5529b and 1.20.0",
        "d: always bad",
        "b and c: always good",
    ]


@pytest.mark.parametrize(
    ("told", "who"),
    [
        ({"a on x/wasm": "gb", "a on y/wasm": "gb"}, ["x/wasm and y/wasm"]),
        ({"a on x/wasm": "gb", "b on x/wasm": "gb"}, ["all 2 cells"]),
        ({"a on x/wasm": "gb", "b on x/wasm": "gb", "c on x/wasm": "gg"}, ["a and b", "c"]),
        (
            {"a on x/wasm": "gb", "a on y/wasm": "gg", "b on x/wasm": "gg", "b on y/wasm": "gg"},
            ["a on x/wasm", "everything else"],
        ),
        ({"a on x/wasm": "gb", "a on y/wasm": "gg"}, ["x/wasm", "y/wasm"]),
        (
            {f"{case} on x/wasm": "gb" for case in "abcdefg"} | {"h on x/wasm": "gg"},
            ["a, b, c and 4 more", "h"],
        ),
    ],
)
def test_a_group_is_named_by_no_more_than_tells_it_apart(told: Mapping[str, str], who: list[str]) -> None:
    assert [group.who for group in groups(run_of(told))] == who


def test_cells_that_could_not_be_tested_say_why() -> None:
    told = run_of({"a on x/webgpu": "gb", "b on x/webgpu": "sbs", "c on x/webgpu": "igi"})
    unusable = replace(told.cells[2], result=Result.UNUSABLE)
    report = replace(told, cells=(*told.cells[:2], unusable))
    skipped, silent = (str(group) for group in groups(report)[1:])
    assert skipped == ("b: cannot be tested: skip (the smoke case fails: TypeError: wasm3.getValue is not a function)")
    assert silent == "c: cannot be tested: infra (no GPU adapter)"
    noted = replace(report, cells=(report.cells[0], replace(unusable, note="the browser is gone.")), trials=())
    assert groups(noted)[1].answer == "cannot be tested: the browser is gone"


def test_a_change_that_was_taken_back_is_not_always_good() -> None:
    answers = [group.answer for group in groups(run_of({"a on x/wasm": "gbg", "b on x/wasm": "g-g"}))]
    assert answers == ["good at both ends, but not between them", "always good"]


def test_what_is_not_certain_is_told_as_such() -> None:
    told = run_of({"a on x/wasm": "gg", "b on x/wasm": "gg", "c on x/wasm": "gb", "d on x/wasm": "gbgb"})
    several = replace(
        told.cells[2],
        result=Result.RANGE,
        boundary=Boundary(COMMITS[0], COMMITS[3]),
        suspects=tuple(Suspect((commit,), 0.3) for commit in COMMITS[1:]),
    )
    cells = (several, told.cells[3], replace(told.cells[0], result=Result.STOPPED), told.cells[1])
    assert [group.answer for group in groups(replace(told, cells=cells))] == [
        "broken by one of 3 commits between 6a295eb75b and d3ad76b2cf",
        "no certain answer: runs disagree",
        "not finished",
        "always good",
    ]


def test_many_answers_are_cut_and_counted() -> None:
    letters = ["g" * n + "b" * (8 - n) for n in range(1, 8)] + ["b" * n + "g" * (8 - n) for n in range(1, 8)]
    told = run_of({f"case {n} on x/wasm": each for n, each in enumerate(letters)})
    assert len(groups(told)) == 14
    sentence = groups_sentence(told)
    assert sentence.count("broken") + sentence.count("fixed") == 10
    assert sentence.endswith("; 4 more answers below.")


def test_a_single_cell_has_no_groups() -> None:
    assert groups(found_regression()) == ()
    assert groups_sentence(found_regression()) == ""


def test_it_is_the_second_paragraph_of_every_report() -> None:
    sentence = groups_sentence(found_fix())
    assert to_markdown(found_fix()).split("\n\n")[1] == sentence.replace("|", "&#124;")
    page = to_html(found_fix())
    assert page.index("</h1>") < page.index("fixed by d9b91682f1; ") < page.index("</header>")
    assert "matmul.jsonc#two axes: always good" in printed(found_fix())


@pytest.mark.parametrize("report", [*SAMPLES.values(), hostile()], ids=[*SAMPLES, "hostile"])
def test_it_is_one_line_without_what_was_hidden_in_names(report: Report) -> None:
    sentence = groups_sentence(report)
    assert sentence.isprintable() and HOSTILE not in sentence
