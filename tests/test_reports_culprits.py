"""Reports say whose each culprit and each proof is, and what to do next where there is no answer."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from bisect_bot.model import Boundary, CellResult, Culprit, Direction, Outcome, Proof, Report, Result, Revision
from bisect_bot.reports import matrix
from bisect_bot.reports.commits import culprits
from bisect_bot.reports.html_report import to_html
from bisect_bot.reports.json_report import to_json
from bisect_bot.reports.junit import to_junit
from bisect_bot.reports.markdown import to_markdown
from bisect_bot.reports.proved import proved
from bisect_bot.reports.sentence import headline, to_go_on
from bisect_bot.session.journal import REPORT
from tests.test_reports_junit import two_culprits
from tests.test_reports_samples import BUILDS, POOL, RESIZE, found_regression, history, trial
from tests.test_reports_texts import printed

FORMS = [printed, to_markdown, to_html]


@pytest.mark.parametrize("form", FORMS)
def test_each_culprit_stands_in_the_report_with_its_cases(form: Callable[[Report], str]) -> None:
    text = form(two_culprits())
    for culprit, other, case in (("Ann Author", "Bo Builder", POOL), ("Bo Builder", "Ann Author", RESIZE)):
        # The case that it broke stands right before its author.
        before = text[: text.index(culprit)]
        assert case.case in before[-400:] and (other in before or culprit == "Ann Author")
    assert text.index("pool.ts") < text.index("resize.ts")


@pytest.mark.parametrize("form", FORMS)
def test_a_proof_says_which_commit_and_case_it_is_of(form: Callable[[Report], str]) -> None:
    text = " ".join(form(two_culprits()).replace("\\", "").split())
    assert f"revert of bbbbbbbbbb, for {POOL.case}" in text and f"revert of cccccccccc, for {RESIZE.case}" in text


def test_report_json_names_the_culprit_of_each_group_and_the_case_of_each_proof() -> None:
    told = to_json(two_culprits())
    assert [(each["commit"], [c["case"] for c in each["cases"]]) for each in told["culprits"]] == [
        ("b" * 40, [POOL.case]),
        ("c" * 40, [RESIZE.case]),
    ]
    assert told["culprit"]["commit"] == "b" * 40
    assert [(proof["commit"], proof["case"], proof["backend"]) for proof in told["proofs"]] == [
        ("b" * 40, POOL.case, "webgpu"),
        ("c" * 40, RESIZE.case, "webgpu"),
    ]


def one_culprit_both_ways() -> Report:
    """A commit that broke pooling and fixed resizing and one case more."""
    report = two_culprits()
    pool, resize = report.cells
    mended = replace(resize, direction=Direction.FIX, boundary=pool.boundary)
    more = replace(mended, cell=replace(mended.cell, case="another"))
    return replace(report, cells=(pool, mended, more), culprits=report.culprits[:1], proofs=())


@pytest.mark.parametrize("form", FORMS)
def test_of_a_commit_that_breaks_one_case_and_fixes_others_both_are_told(form: Callable[[Report], str]) -> None:
    text = " ".join(re.sub("<[^>]*>", " ", form(one_culprit_both_ways())).replace("\\", "").replace(":", "").split())
    assert f"broke {POOL.case}" in text and f"fixed {RESIZE.case} and another" in text
    assert text.count("Ann Author") == 1 and f"broke {POOL.case} and" not in text


def test_the_sentence_and_the_json_tell_both_ways_apart() -> None:
    report = one_culprit_both_ways()
    assert f"broken by bbbbbbbbbb, for {POOL}, and fixed for {RESIZE} and 1 more." in headline(report)
    assert [(each["direction"], [c["case"] for c in each["cases"]]) for each in to_json(report)["culprits"]] == [
        ("regression", [POOL.case]),
        ("fix", [RESIZE.case, "another"]),
    ]
    turned = replace(report, cells=report.cells[1:])
    assert f"fixed by bbbbbbbbbb, for {RESIZE} and 1 more." in headline(turned)


def test_each_test_of_a_junit_file_says_what_the_commit_did_to_its_case() -> None:
    failures = {
        case.get("name"): case.find("failure")
        for case in ElementTree.fromstring(to_junit(one_culprit_both_ways())).iter("testcase")
    }
    told = failures[RESIZE.case]
    assert told is not None and told.get("type") == "fix" and told.get("message") == "fixed by bbbbbbbbbb"
    assert f"fixed: {RESIZE.case} and another" in (told.text or "")
    for failure in failures.values():
        assert failure is not None and f"broke: {POOL.case}\n" in (failure.text or "")


def test_equal_proofs_of_several_cases_are_told_once() -> None:
    report = replace(two_culprits(), proofs=tuple(Proof("retest", True, None, 2, cell) for cell in (POOL, RESIZE)))
    (one,) = proved(report)
    assert (one.what, one.told) == ("retest, for all 2 cells", "held (2 runs)")


def test_a_report_of_an_earlier_version_is_read_and_still_names_its_culprit() -> None:
    sides = tuple(Revision(sha * 40, None, sha * 40) for sha in "ab")
    culprit = Culprit("b" * 40, "Ann Author", "2024-11-01T00:00:00Z", "Break pooling (#1)", 1, ("pool.ts",))
    cell = replace(found_regression().cells[0], boundary=Boundary(*sides))
    report = replace(found_regression(), cells=(cell,), proofs=(Proof("retest", True, None, 2),), culprit=culprit)
    stored = json.loads(json.dumps(REPORT.dump_python(report, mode="json")))
    for key in ("culprits", "next_step"):
        del stored[key]
    for proof in stored["proofs"]:
        del proof["cell"], proof["commit"]
    old = REPORT.validate_python(stored)
    assert [each.culprit for each in culprits(old)] == [culprit]
    assert "- author: Ann Author" in to_markdown(old) and "- retest: held (2 runs)" in to_markdown(old)


@pytest.mark.parametrize("form", FORMS)
def test_a_session_out_of_budget_says_what_is_left_what_comes_next_and_what_to_type(
    form: Callable[[Report], str],
) -> None:
    cell = CellResult(POOL, Result.STOPPED, None, Boundary(BUILDS[3], BUILDS[5]), note="not finished")
    why = f"the budget of 3 builds is used up; next would be search of {BUILDS[4].id}"
    report = replace(
        found_regression(), result=Result.STOPPED, cells=(cell,), reason=why, next_step=f"search of {BUILDS[4].id}"
    )
    text = form(report)
    for told in (BUILDS[3].id, BUILDS[5].id, f"search of {BUILDS[4].id}", f"bisect-bot resume {report.session}"):
        assert told in " ".join(text.replace("│", " ").split())
    assert to_json(report)["next"] == {
        "step": f"search of {BUILDS[4].id}",
        "command": f"bisect-bot resume {report.session}",
    }


def test_two_builds_that_were_found_without_a_clone_end_with_the_command_that_finds_the_commit() -> None:
    found = replace(found_regression(), reproduce="bisect-bot run --good 1 --source published --bad 2 --case x")
    command = "bisect-bot run --good 1 --bad 2 --case x --repo CLONE"
    for form in (printed, to_markdown, to_html):
        text = re.sub(r"\x1b\[[\d;]*m", "", form(found))
        assert command in text and "o find the commit between them" in text, form
    assert to_json(found)["next"] == {"step": "search of the commits between the two builds", "command": command}
    for ended in (
        replace(found, reproduce="bisect-bot run --repo here --source published --good 1 --bad 2"),
        replace(found, reproduce="bisect-bot verify report.json"),
        replace(found, result=Result.RANGE),
    ):
        assert to_go_on(ended) == "" and to_json(ended)["next"] is None


def test_the_last_lines_of_an_unusable_session_say_once_how_to_go_on() -> None:
    report = replace(found_regression(), result=Result.UNUSABLE, cells=(), trials=(), reason="no browser was found")
    assert printed(report).count("bisect-bot resume") == 1


def test_a_culprit_has_the_day_of_the_tables_and_its_pull_request_is_a_link() -> None:
    report = two_culprits()
    day = dt.date(2024, 10, 31)
    boundary = report.cells[0].boundary
    assert boundary is not None
    dated = Boundary(boundary.last_old, replace(boundary.first_new, date=day))
    report = replace(report, cells=(replace(report.cells[0], boundary=dated), *report.cells[1:]))
    assert "Ann Author, 2024-10-31" in to_html(report) and "Ann Author, 2024-10-31" in to_markdown(report)
    assert "Bo Builder, 2024-11-02" in to_html(report), "a commit without a day has its author's"
    link = "https://github.com/microsoft/onnxruntime/pull/1"
    assert f'<a href="{link}" rel="noreferrer noopener">{link}</a>' in to_html(report)


def test_a_finished_session_has_nothing_to_go_on_with_and_a_matrix_is_asked_again() -> None:
    assert to_go_on(two_culprits()) == "" and to_json(two_culprits())["next"] is None
    command = "bisect-bot matrix 1.20.1 --case conv"
    stopped = replace(found_regression(), result=Result.STOPPED, cells=(), reproduce=command)
    assert matrix.to_json(stopped)["next"]["command"] == command


@pytest.mark.parametrize(("place", "which", "other"), [(0, "older", "a later"), (7, "newer", "an earlier")])
def test_an_end_that_cannot_be_tested_is_named_with_what_to_name_instead(place: int, which: str, other: str) -> None:
    letters = "".join("s" if i == place else "g" if i in (0, 7) else "-" for i in range(8))
    cell = CellResult(POOL, Result.UNUSABLE, None, None, note="an end cannot answer (2 skip): choose another")
    report = replace(
        found_regression(), result=Result.UNUSABLE, cells=(cell,), trials=history(POOL, letters), reason=""
    )
    told = headline(report)
    assert f"the {which} end {BUILDS[place].id} cannot be tested (skip: the smoke case fails" in told
    assert f"name {other} one in its place with --good or --bad" in told and "--wasm" not in told
    assert to_go_on(report) == "", "going on would meet the same end"


def test_a_commit_that_cannot_be_tested_as_an_end_may_want_another_webassembly() -> None:
    ends = tuple(Revision(sha * 40, None, sha * 40) for sha in "ab")
    trials = (trial(ends[0], POOL, Outcome.SKIP, "end"), trial(ends[1], POOL, Outcome.BAD, "end"))
    cell = CellResult(POOL, Result.UNUSABLE, None, None)
    report = replace(
        found_regression(), result=Result.UNUSABLE, cells=(cell,), trials=trials, revisions=ends, reason=""
    )
    assert "--wasm VERSION or --wasm build" in headline(report)
