"""What a person reads: the sentence, the Markdown, the terminal."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from bisect_bot.model import Boundary, Outcome, Report, Result, Revision
from bisect_bot.reports.markdown import to_markdown
from bisect_bot.reports.sentence import compare_link, headline
from bisect_bot.reports.terminal import summary
from tests.test_reports_samples import (
    BUILDS,
    POOL,
    SAMPLES,
    drifting,
    found_fix,
    found_regression,
    history,
    hostile,
    same,
    stopped,
    trial,
)

EVERY = {**SAMPLES, "hostile": hostile()}


def printed(report: Report, color: bool = False) -> str:
    """What `summary` gives on a terminal of 80 columns."""
    console = Console(
        file=io.StringIO(),
        width=80,
        force_terminal=True,
        color_system="standard" if color else None,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(summary(report), crop=False)
    return "\n".join(text.rstrip() for text in captured.get().splitlines()) + "\n"


def controls(text: str) -> list[str]:
    return [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_a_regression_between_builds_is_told_in_one_sentence() -> None:
    assert headline(found_regression()) == (
        "1.21.0-dev.20241024-d9ca84ef96 (good) to 1.21.0-dev.20241205-d27fecd3d3 (bad): "
        "broken between these builds, for test_averagepool_2d_ceil on chrome/webgpu."
    )


def test_a_fix_names_the_commit_its_title_and_how_many_cases_share_it() -> None:
    sentence = headline(found_fix())
    assert sentence.startswith("0e4b1a5d7c (bad) to d9b91682f1 (good): fixed by d9b91682f1 (WebGPU JSEP: Make shader")
    assert sentence.endswith("and 1 more (another below); a proof of it did not hold.")


def test_two_good_ends_ask_for_a_bad_one_and_two_bad_ends_for_a_good_one() -> None:
    assert "are both good" in headline(same())
    assert "name a --bad" in headline(same())
    both_bad = replace(same(), trials=history(POOL, "b------b"))
    assert "are both bad" in headline(both_bad)
    assert "name a --good" in headline(both_bad)


def test_a_stopped_session_says_how_to_go_on() -> None:
    assert headline(stopped()).endswith("go on with: bisect-bot resume 20261130-101500-averagepool")


@pytest.mark.parametrize("result", [Result.STOPPED, Result.UNUSABLE])
def test_a_session_that_ended_early_still_tells_what_it_had_found(result: Result) -> None:
    sentence = headline(replace(found_fix(), result=result, reason="interrupted"))
    assert "with 3 of 3 answered (0e4b1a5d7c (bad) to d9b91682f1 (good): fixed by d9b91682f1" in sentence
    assert "interrupted" in sentence
    assert ("bisect-bot resume" if result is Result.STOPPED else "the search can go on") in sentence


@pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))
def test_the_headline_is_one_line_without_control_characters(report: Report) -> None:
    assert headline(report)
    assert not controls(headline(report))
    assert "\n" not in headline(report)


@pytest.mark.parametrize("result", list(Result))
def test_a_report_without_any_case_still_has_a_headline(result: Result) -> None:
    assert headline(replace(SAMPLES["nothing known"], result=result))


@pytest.mark.parametrize(
    ("old", "new", "link"),
    [
        ("d9ca84ef96", "d27fecd3d3", "https://github.com/microsoft/onnxruntime/compare/d9ca84ef96...d27fecd3d3"),
        ("d9ca84ef96", None, None),
        (None, "d27fecd3d3", None),
        ("d9ca84ef96", "d9ca84ef96", None),
        ("d9ca84ef96", "main?expand=1", None),
    ],
)
def test_the_compare_link_needs_two_different_commits(old: str | None, new: str | None, link: str | None) -> None:
    assert compare_link(Boundary(Revision("a", commit=old), Revision("b", commit=new))) == link
    assert compare_link(None) is None


def test_the_first_line_of_the_markdown_is_the_headline() -> None:
    assert to_markdown(found_regression()).splitlines()[0] == f"**{headline(found_regression())}**"


@pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))
def test_every_table_of_the_markdown_has_as_many_cells_in_each_row_as_in_its_header(report: Report) -> None:
    text = to_markdown(report)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    widths: list[int] = []
    for token in tokens:
        if token.type == "tr_open":
            widths.append(0)
        elif token.type in ("td_open", "th_open"):
            widths[-1] += 1
    assert len(widths) == len([row for row in text.splitlines() if re.match(r"\| (?!---)", row)])
    # A table is filled up with empty cells, or cut, by its reader; what was written must already fit.
    written = [len(re.findall(r"(?<!\\)\|", row)) - 1 for row in text.splitlines() if re.match(r"\| (?!---)", row)]
    assert written == widths


@pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))
def test_the_only_tags_of_the_markdown_are_those_that_fold(report: Report) -> None:
    tags: list[str] = []
    for token in MarkdownIt("commonmark").enable("table").parse(to_markdown(report)):
        for part in [token, *(token.children or [])]:
            assert part.type not in ("html_inline", "link_open", "image")
            if part.type == "html_block":
                tags += re.findall(r"</?\w+", part.content)
    folded = tags.count("<details")
    assert folded >= 1
    assert sorted(tags) == sorted(["<details", "</details", "<summary", "</summary"] * folded)


def test_the_markdown_marks_the_boundary_in_revision_order() -> None:
    rows = [row for row in to_markdown(found_regression()).splitlines() if re.search(r"\| (good|bad)\b.*\| gpu", row)]
    assert [re.sub(r"^\| `([^`]+)` \(([^)]+)\).*", r"\1: \2", row) for row in rows] == [
        "1.20.0-dev.20241016-2b8fc5529b: end",
        "1.21.0-dev.20241024-d9ca84ef96: last good",
        "1.21.0-dev.20241205-d27fecd3d3: first bad",
        "1.21.0: end",
    ]


def test_the_drift_is_folded_in_the_markdown_and_marks_where_it_goes_wrong() -> None:
    text = to_markdown(drifting())
    assert "<details><summary>Largest absolute error by step and frame</summary>" in text
    assert "| frame 8 | 8.59e-06 | 8.59e-06 |" in text
    assert "| frame 9 | 1.37e-05 | **wrong** 0.98, all zero, cosine 0 |" in text
    assert "Largest absolute error by step" not in to_markdown(found_regression())


def test_other_failures_have_their_revision_their_look_and_how_often_they_were_met() -> None:
    text = to_markdown(drifting())
    assert "### Other failures met on the way" in text
    assert '| a kernel that fails: `Kernel "[LSTM]" failed. Error: out of workgroups` | `1.20.1` (2×) |' in text
    assert "good in the first run, the GPU device is lost from run 2" in text
    shown = re.sub(r"\s+", " ", printed(drifting()))
    assert "Another failure, with 1.20.1 (2×): a kernel that fails:" in shown


@pytest.mark.parametrize("form", [to_markdown, printed, headline])
def test_every_form_says_from_when_on_it_goes_wrong(form: Callable[[Report], str]) -> None:
    assert "good at frame 1, all zero from frame 9" in re.sub(r"[\s│]+", " ", form(drifting()))


def test_the_shape_of_a_wrong_output_is_told() -> None:
    for shown in (to_markdown(drifting()), re.sub(r"\s+", " ", printed(drifting()))):
        assert "cosine similarity 0; foreground 0 % (expected 53 %)" in shown
        assert "largest error by channel: 0: 0.98, 2: 0.25, 1: 1e-07 (of 4)" in shown


def test_a_bad_run_of_another_kind_counts_as_skipped_unless_any_failure_is_wanted() -> None:
    row = next(r for r in to_markdown(drifting()).splitlines() if r.startswith("| `1.20.1`"))
    assert "| other failure (2×) |" in row
    taken = to_markdown(replace(drifting(), any_failure=True))
    assert "| bad (2×) |" in next(r for r in taken.splitlines() if r.startswith("| `1.20.1`"))


def test_runs_that_disagree_are_counted_rather_than_judged() -> None:
    assert "| 1 good, 1 bad |" in to_markdown(SAMPLES["inconclusive"])


def test_a_run_that_the_machine_could_not_do_does_not_hide_the_answer() -> None:
    report = found_regression()
    again = replace(report, trials=(trial(BUILDS[3], POOL, Outcome.INFRA), *report.trials))
    row = next(r for r in to_markdown(again).splitlines() if "(last good)" in r)
    assert "| good (4×) |" in row


@pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))
@pytest.mark.parametrize("color", [False, True])
def test_nothing_from_outside_acts_on_the_reader(report: Report, color: bool) -> None:
    assert not controls(to_markdown(report))
    to_markdown(report).encode()
    shown = printed(report, color)
    assert not controls(re.sub(r"\x1b\[[\d;]*m", "", shown))
    if not color:
        assert not re.search(r"\x1b\[(?!0?m|[1247]+(;[1247])*m)", shown)


@pytest.mark.parametrize("report", SAMPLES.values(), ids=list(SAMPLES))
def test_the_terminal_needs_no_more_than_80_columns_but_for_what_is_copied(report: Report) -> None:
    shown = re.sub(r"\x1b\[[\d;]*m", "", printed(report)).splitlines()
    wide = [text for text in shown if len(text) > 80]
    copied = ("commits between them: ", "to find the commit between them", "reproduce: ")
    assert all(text.startswith(copied) for text in wide)
    for revision in {tried.revision for tried in report.trials if len(tried.revision) < 31}:
        assert any(text.startswith(f"{revision} ") for text in shown)


@pytest.mark.parametrize("report", SAMPLES.values(), ids=list(SAMPLES))
def test_what_is_copied_from_the_terminal_is_whole_and_on_one_line(report: Report) -> None:
    shown = re.sub(r"\x1b\[[\d;]*m", "", printed(report)).splitlines()
    assert f"reproduce: {report.reproduce}" in shown
    link = compare_link(report.cells[0].boundary) if report.cells else None
    assert link is None or f"commits between them: {link}" in shown


def test_verdicts_are_coloured_and_still_written_out() -> None:
    shown = printed(found_regression(), color=True)
    assert "\x1b[32mgood" in shown
    assert "\x1b[31mbad" in shown


@pytest.mark.parametrize("name", SAMPLES)
def test_headline_of_each_sample(name: str, snapshot: SnapshotAssertion) -> None:
    assert headline(SAMPLES[name]) == snapshot


@pytest.mark.parametrize("name", EVERY)
def test_markdown_of_each_sample(name: str, snapshot: SnapshotAssertion) -> None:
    assert to_markdown(EVERY[name]) == snapshot


@pytest.mark.parametrize("name", SAMPLES)
def test_terminal_of_each_sample(name: str, snapshot: SnapshotAssertion) -> None:
    assert re.sub(r"\x1b\[[\d;]*m", "", printed(SAMPLES[name])) == snapshot
