"""A table of builds × browsers tells a browser's regression from onnxruntime's, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from rich.console import Console

from bisect_bot.model import Adapter, Cell, Report, Result, Target
from bisect_bot.reports.differences import MOST_SENTENCES, By, difference_sentences, differences
from bisect_bot.reports.html_report import to_html
from bisect_bot.reports.markdown import to_markdown
from bisect_bot.reports.matrix import summary
from bisect_bot.reports.matrix import to_html as matrix_html
from bisect_bot.reports.matrix import to_json as matrix_json
from bisect_bot.reports.matrix import to_markdown as matrix_markdown
from tests.test_reports_groups import run_of
from tests.test_reports_samples import BUILDS, CHROME, HOSTILE, found_regression, history
from tests.test_reports_texts import printed

THREE = BUILDS[1:4]
NEW, OLD = (
    replace(CHROME, name=name, product="Chrome", version=f"{major}.0.6778.86")
    for name, major in (("chrome", 131), ("chrome-2", 130))
)
NVIDIA = Adapter("nvidia", "turing", driver="550.1")


def table_of(told: Mapping[str, str], *targets: Target) -> Report:
    """A matrix of three builds with one letter each, for each `case on target/backend`."""
    return table({Cell(*re.split(" on |/", words)): letters for words, letters in told.items()}, *targets)


def table(told: Mapping[Cell, str], *targets: Target) -> Report:
    """The same, by cells."""
    trials = [trial for cell, letters in told.items() for trial in history(cell, letters, THREE)]
    return replace(
        found_regression(),
        result=Result.TESTED,
        cells=(),
        trials=tuple(trials),
        revisions=THREE,
        targets=targets or (NEW, OLD),
    )


def test_what_fails_in_one_browser_with_every_build_is_no_regression_of_onnxruntime() -> None:
    report = table_of({"conv on chrome/webgpu": "bbb", "conv on chrome-2/webgpu": "ggg"})
    assert difference_sentences(report) == (
        "Differs by browser, not by build: conv fails on Chrome 131, passes on Chrome 130, with all 3 builds.",
    )
    assert [(each.by, each.cases) for each in differences(report)] == [(By.TARGET, ("conv",))]


def test_what_changes_with_the_build_in_every_browser_is_one_of_onnxruntime() -> None:
    report = table_of({"conv on chrome/webgpu": "gbb", "conv on chrome-2/webgpu": "gbb"})
    assert difference_sentences(report) == (
        "Differs by build, not by browser: conv passes with 1.20.0; fails with 1.20.1 and "
        "1.21.0-dev.20241024-d9ca84ef96, on Chrome 131 and Chrome 130 alike.",
    )


def test_a_build_that_only_one_browser_minds_is_told_as_both() -> None:
    report = table_of({"conv on chrome/webgpu": "gbb", "conv on chrome-2/webgpu": "ggg"})
    assert difference_sentences(report) == (
        "Differs by browser and by build: conv: on Chrome 131 it passes with 1.20.0, fails with 1.20.1 and "
        "1.21.0-dev.20241024-d9ca84ef96; on Chrome 130 it always passes.",
    )


@pytest.mark.parametrize(
    "letters", [("ggg", "ggg"), ("bbb", "bbb"), ("bbb", "sss"), ("iii", "ggg"), ("b--", "-gg"), ("bss", "sgg")]
)
def test_where_nothing_differs_or_nothing_can_be_compared_nothing_is_said(letters: tuple[str, str]) -> None:
    report = table_of({"conv on chrome/webgpu": letters[0], "conv on chrome-2/webgpu": letters[1]})
    assert difference_sentences(report) == ()


@pytest.mark.parametrize("silent", ["iii", "sss", "is-"])
def test_a_table_with_one_browser_that_gave_no_verdict_still_tells_a_regression_of_the_build(silent: str) -> None:
    report = table_of({"conv on chrome/webgpu": "gbb", "conv on electron/webgpu": silent}, NEW)
    first, *others = (build.id for build in THREE)
    assert difference_sentences(report) == (
        f"Differs by build on Chrome 131: conv passes with {first}; fails with {' and '.join(others)};"
        " electron could not be compared.",
    )


@pytest.mark.parametrize("letters", [("ggg", "iii"), ("gbb", "g--")])
def test_a_browser_without_verdicts_is_told_only_where_that_is_certain_and_builds_differ(
    letters: tuple[str, str],
) -> None:
    report = table_of({"conv on chrome/webgpu": letters[0], "conv on electron/webgpu": letters[1]}, NEW)
    assert difference_sentences(report) == ()
    one_run_of_each = table_of({"conv on chrome/webgpu": "gbb", "conv on electron/webgpu": "b--"}, NEW)
    twice = table_of({"conv on electron/webgpu": "g--"}, NEW).trials
    wavering = replace(one_run_of_each, trials=(*one_run_of_each.trials, *twice))
    assert difference_sentences(wavering) == ()


def test_builds_that_one_browser_could_not_answer_for_are_not_counted() -> None:
    two = table_of({"conv on chrome/webgpu": "bbb", "conv on chrome-2/webgpu": "sgg"})
    assert "with the 2 builds that both answered for." in difference_sentences(two)[0]
    one = table_of({"conv on chrome/webgpu": "bbb", "conv on chrome-2/webgpu": "ssg"})
    (told,) = difference_sentences(one)
    assert "not by build" not in told and told.endswith(
        "the only build that both answered for: another build may differ."
    )


def test_adapters_that_differ_too_may_be_the_reason() -> None:
    on_nvidia = replace(OLD, adapter=NVIDIA)
    said = {"conv on chrome/webgpu": "bbb", "conv on chrome-2/webgpu": "ggg"}
    assert difference_sentences(table_of(said, NEW, on_nvidia))[0].startswith(
        "Differs by browser or GPU adapter, not by build: conv fails on Chrome 131 with google swiftshader"
    )
    same = replace(on_nvidia, version=NEW.version)
    told = difference_sentences(table_of(said, NEW, same))[0]
    assert told.startswith(
        "Differs by GPU adapter, not by build: conv fails on chrome (Chrome 131.0.6778.86) with google"
    )


def test_cases_with_equal_verdicts_are_told_together_and_backends_apart() -> None:
    said: dict[str, str] = {}
    for case in ("conv", "pool"):
        said |= {f"{case} on chrome/webgpu": "bbb", f"{case} on chrome-2/webgpu": "ggg"}
    said |= {"conv on chrome/wasm": "ggb", "conv on chrome-2/wasm": "ggb"}
    told = difference_sentences(table_of(said))
    assert [text.partition(", ")[0] for text in told] == ["Differs by browser", "Differs by build"]
    assert "conv and pool (webgpu) fail on Chrome 131, pass on Chrome 130" in told[0]
    assert "conv (wasm) passes with 1.20.0 and 1.20.1; fails with 1.21.0-dev" in told[1]


def test_a_thousand_ways_to_differ_are_counted() -> None:
    said: dict[str, str] = {}
    for number in range(MOST_SENTENCES + 5):
        said |= {f"c{number} on chrome/b{number}": "bbb", f"c{number} on chrome-2/b{number}": "ggg"}
    assert difference_sentences(table_of(said))[-1] == "5 more such differences are in the table."


def test_the_sentence_stands_in_every_form_of_a_table_and_is_escaped_there() -> None:
    report = table_of({"conv on chrome/webgpu": "bbb", "conv on chrome-2/webgpu": "ggg"})
    (sentence,) = difference_sentences(report)
    console = Console(width=80, highlight=False)
    with console.capture() as captured:
        console.print(summary(report), crop=False)
    assert sentence in " ".join(captured.get().split())
    assert sentence in matrix_markdown(report) and sentence in matrix_html(report)
    assert matrix_json(report)["differences"] == [sentence]
    hostile = table({Cell(HOSTILE, "chrome", "webgpu"): "bbb", Cell(HOSTILE, "chrome-2", "webgpu"): "ggg"})
    assert all("\x1b" not in text and "\n" not in text for text in difference_sentences(hostile))
    assert "<img" not in matrix_html(hostile) and "<img" not in matrix_markdown(hostile).partition("```")[0]


def test_a_search_whose_ends_differ_by_browser_alone_says_so_in_its_reports() -> None:
    said = {"conv on chrome/webgpu": "bbbbbbbb", "conv on chrome-2/webgpu": "gggggggg"}
    report = replace(run_of(said), targets=(NEW, OLD))
    (sentence,) = difference_sentences(report)
    assert "fails on Chrome 131, passes on Chrome 130, with all 8 builds" in sentence
    assert sentence in to_markdown(report) and sentence in to_html(report)
    assert sentence in " ".join(printed(report).split())
    # What changes with the build is what the search answers.
    assert difference_sentences(replace(run_of(dict.fromkeys(said, "gggbbbbb")), targets=(NEW, OLD))) == ()
