"""JUnit XML as CI systems read it: its elements and their order, its counts, and what each answer is there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from bisect_bot.model import Boundary, CellResult, Culprit, Direction, Proof, Report, Result, Revision
from bisect_bot.reports.junit import matrix_to_junit, to_junit
from tests.test_reports_samples import BUILDS, POOL, RESIZE, SAMPLES, found_regression, history, hostile

# What the schema that Jenkins uses (junit-10.xsd of its xunit plugin) allows: attributes, then children in any order.
ALLOWED = {
    "testsuites": ({"name", "time", "tests", "failures", "errors", "skipped", "disabled"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": (
        {"name", "classname", "time", "status", "assertions"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "skipped": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}
WANTED = {"testsuite": {"name", "tests"}, "testcase": {"name", "classname"}, "property": {"name", "value"}}


def read(text: str) -> Element:
    """The file's root, after all of it was held against the schema and its counts against its tests."""
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    _check(root)
    for holder in (root, *root.iter("testsuite")):
        cases = list(holder.iter("testcase"))
        counted = {"tests": len(cases)} | {
            plural: sum(case.find(tag) is not None for case in cases)
            for plural, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
        }
        assert {key: int(holder.attrib[key]) for key in counted} == counted
    return root


def _check(element: Element) -> None:
    attributes, children = ALLOWED[element.tag]
    assert set(element.attrib) <= attributes and WANTED.get(element.tag, set()) <= set(element.attrib)
    assert {child.tag for child in element} <= children
    for child in element:
        _check(child)


def ways(cases: Iterable[Element]) -> list[str]:
    """How each test ended."""
    return [next((c.tag for c in case if c.tag in ("failure", "error", "skipped")), "passed") for case in cases]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_report_is_a_file_that_ci_reads_and_never_looks_like_success(name: str) -> None:
    report = SAMPLES[name]
    root = read(to_junit(report))
    cases = list(root.iter("testcase"))
    assert cases, "a file without a test would be taken for success"
    if report.result is not Result.SAME:
        assert set(ways(cases)) != {"passed"}


def test_text_from_outside_is_no_markup_and_holds_nothing_that_xml_cannot() -> None:
    report = hostile()
    odd = "a\x00b\x1b[31m]]>\ufffe\ud800</testcase><script>"
    first = replace(report.cells[0], note=odd)
    log = replace(report.trials[0], log=(odd,))
    read(to_junit(replace(report, cells=(first, *report.cells[1:]), trials=(log, *report.trials[1:]), reason=odd)))


def two_culprits() -> Report:
    """Two cases, each broken by a commit of its own."""
    commits = tuple(Revision(sha, None, sha) for sha in ("a" * 40, "b" * 40, "c" * 40, "d" * 40))
    cells = tuple(
        CellResult(cell, Result.FOUND, Direction.REGRESSION, Boundary(commits[i], commits[i + 1]), confidence=0.99)
        for cell, i in ((POOL, 0), (RESIZE, 1))
    )
    known = (
        Culprit("b" * 40, "Ann Author", "2024-11-01T00:00:00Z", "Break pooling (#1)", 1, ("pool.ts",)),
        Culprit("c" * 40, "Bo Builder", "2024-11-02T00:00:00Z", "Break resizing (#2)", 2, ("resize.ts",)),
    )
    proofs = tuple(
        Proof("revert", held, None, 2, cell, sha * 40) for held, cell, sha in ((True, POOL, "b"), (False, RESIZE, "c"))
    )
    trials = (*history(POOL, "gbbb", commits), *history(RESIZE, "ggbb", commits))
    return replace(
        found_regression(),
        cells=cells,
        revisions=commits,
        trials=trials,
        proofs=proofs,
        culprit=known[0],
        culprits=known,
    )


def test_a_broken_case_fails_with_its_own_culprit_and_proof() -> None:
    root = read(to_junit(two_culprits()))
    (suite,) = root.iter("testsuite")
    assert suite.attrib["name"] == "chrome/webgpu"
    pool, resize = suite.iter("testcase")
    for case, mine, other in ((pool, "Break pooling", "Break resizing"), (resize, "Break resizing", "Break pooling")):
        failure = case.find("failure")
        assert failure is not None and failure.attrib["type"] == "regression"
        assert mine in (failure.text or "") and other not in (failure.text or "")
    held, failed = (case.findtext("failure") or "" for case in (pool, resize))
    assert "proof by revert of bbbbbbbbbb" in held and "did not hold" in failed


def test_what_did_not_change_passes_only_where_it_is_good() -> None:
    for letters, way in (("g------g", "passed"), ("b------b", "failure"), ("s------s", "skipped")):
        cells = (CellResult(POOL, Result.SAME, None, None, note="both ends are alike"),)
        report = replace(found_regression(), result=Result.SAME, cells=cells, trials=history(POOL, letters, BUILDS))
        assert ways(read(to_junit(report)).iter("testcase")) == [way]


def test_a_case_that_this_machine_could_not_test_is_an_error_and_one_without_certainty_is_skipped() -> None:
    for result, way in ((Result.UNUSABLE, "error"), (Result.INCONCLUSIVE, "skipped"), (Result.STOPPED, "skipped")):
        cells = (CellResult(POOL, result, None, None, note="the reason why"),)
        report = replace(found_regression(), result=result, cells=cells)
        (case,) = read(to_junit(report)).iter("testcase")
        assert ways([case]) == [way]
        assert "the reason why" in (case.findtext(way) or "")


def test_a_session_without_any_answer_is_one_error() -> None:
    report = replace(found_regression(), result=Result.UNUSABLE, cells=(), trials=(), reason="no browser was found")
    (case,) = read(to_junit(report)).iter("testcase")
    error = case.find("error")
    assert error is not None and error.attrib["message"] == "no browser was found"


def test_a_matrix_has_a_test_for_each_verdict() -> None:
    report = replace(found_regression(), result=Result.TESTED, cells=(), trials=history(POOL, "gbsi----", BUILDS))
    cases = list(read(matrix_to_junit(report)).iter("testcase"))
    assert ways(cases) == ["passed", "failure", "skipped", "error"]
    assert [case.attrib["name"].split(" with ")[1] for case in cases] == [build.id for build in BUILDS[:4]]
    skipped = cases[2].find("skipped")
    assert skipped is not None and "the smoke case fails" in skipped.attrib["message"]
