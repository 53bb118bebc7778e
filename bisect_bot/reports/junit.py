"""A report as JUnit XML, which CI systems show as a list of tests.

One suite for each target and backend, one test for each case; in a matrix, for each case with each revision. A test
fails where its case was broken or fixed (in a matrix: where it is bad), is an error where this machine could not
answer, and is skipped where nothing certain can be said. The layout is the one that Jenkins reads:
https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from xml.etree import ElementTree

from bisect_bot.model import Cell, CellResult, Outcome, Report, Result, Trial
from bisect_bot.reports.commits import culprit_lines, culprits
from bisect_bot.reports.escaping import line, shorten, visible
from bisect_bot.reports.groups import answer_words
from bisect_bot.reports.proved import Proved, proved
from bisect_bot.reports.rows import by_cell, rows
from bisect_bot.reports.sentence import compare_link, headline, name
from bisect_bot.reports.words import told

_MESSAGE = 600
_LOG = 20_000
# What XML 1.0 cannot hold, in whatever form, and `visible` lets through.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Kind(StrEnum):
    """How a test ended; the values are the elements' names."""

    PASSED = "passed"
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


# How the test of one verdict ends.
KINDS = {
    Outcome.GOOD: Kind.PASSED,
    Outcome.BAD: Kind.FAILURE,
    Outcome.SKIP: Kind.SKIPPED,
    Outcome.INFRA: Kind.ERROR,
}


@dataclass(frozen=True, slots=True)
class Test:
    """One test: `group` and `name` say what it is, `message` why it did not pass, `details` more; `log` is printed."""

    group: str
    name: str
    kind: Kind
    message: str = ""
    details: str = ""
    word: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests of one place."""

    name: str
    tests: tuple[Test, ...]
    properties: tuple[tuple[str, str], ...] = ()


def to_junit(report: Report) -> str:
    """`report` as the text of a JUnit file."""
    tests = [(answer.cell, _answered(answer, own)) for answer, own in by_cell(report)]
    return document("bisect-bot run", _suites(tests, report), report.wall_s)


def matrix_to_junit(report: Report) -> str:
    """The report of a matrix as the text of a JUnit file."""
    names = {revision.id: name(revision) for revision in report.revisions}
    order = list(names)
    trials = sorted(report.trials, key=lambda trial: order.index(trial.revision))
    tests = [(trial.cell, _tried(trial, names[trial.revision])) for trial in trials]
    return document("bisect-bot matrix", _suites(tests, report), report.wall_s)


def document(title: str, suites: Iterable[Suite], seconds: float | None = None) -> str:
    """`suites` as the text of a JUnit file, in ASCII; `seconds` is what all took, where that is known."""
    made = list(suites)
    root = ElementTree.Element("testsuites", {"name": title, **_totals([t for suite in made for t in suite.tests])})
    if seconds is not None:
        root.set("time", f"{seconds:.3f}")
    for suite in made:
        _add_suite(root, suite)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="us-ascii", xml_declaration=True).decode("ascii")
    return text + "\n"


# --- what the tests are -------------------------------------------------------------------------


def _suites(tests: Sequence[tuple[Cell, Test]], report: Report) -> list[Suite]:
    places: dict[str, list[Test]] = {}
    for cell, test in tests:
        places.setdefault(f"{cell.target}/{cell.backend}", []).append(test)
    if not places:
        # A session that never came to its cases: no suite at all would look like success.
        why = Test("bisect-bot", "session", Kind.ERROR, report.reason or headline(report), word=report.result.value)
        return [Suite("bisect-bot", (why,), _properties(report))]
    return [Suite(place, tuple(own), _properties(report)) for place, own in places.items()]


def _properties(report: Report) -> tuple[tuple[str, str], ...]:
    targets = ((target.name, f"{target.version}, {target.adapter or 'no adapter'}") for target in report.targets)
    said = (("session", report.session), ("result", report.result.value), ("sentence", headline(report)))
    return (*said, *targets, ("reproduce", report.reproduce))


def _answered(answer: CellResult, own: Report) -> Test:
    cell, words = answer.cell, answer_words(answer, own)
    kind = _kind(answer, own)
    details = [answer.note] if answer.note else []
    if kind is Kind.FAILURE:
        details += [told(answer.signature, _MESSAGE)] if answer.signature else []
        for each in (named for named in culprits(own) if answer in named.cells):
            details += [f"{each.culprit.commit} {each.culprit.title}"]
            details += [f"{label}: {text}" for label, text in culprit_lines(each)]
        details += [f"proof by {p.what}: {p.told}{f': {p.reason}' if p.reason else ''}" for p in _proofs(answer, own)]
        details += [f"commits between them: {link}" for link in [compare_link(answer.boundary)] if link]
    listed = [f"{name(row.revision)}: {row.label} ({row.trial.verdict.reason})" for row in rows(own, cell, answer)]
    word = answer.direction.value if kind is Kind.FAILURE and answer.direction else answer.result.value
    return Test(f"{cell.target}.{cell.backend}", cell.case, kind, words, "\n".join(details), word, "\n".join(listed))


def _proofs(answer: CellResult, own: Report) -> tuple[Proved, ...]:
    """The proofs of one answer: those made with its case, and those of the commit that it names."""
    named = answer.boundary.first_new.commit if answer.boundary else None
    mine = (p for p in own.proofs if p.cell == answer.cell or (p.commit is not None and p.commit == named))
    return proved(replace(own, proofs=tuple(mine)))


def _kind(answer: CellResult, own: Report) -> Kind:
    """How the test of a cell ended: what did not change passes if it is good."""
    match answer.result:
        case Result.FOUND | Result.RANGE:
            return Kind.FAILURE
        case Result.SAME:
            said = {trial.verdict.outcome for trial in own.trials if trial.purpose == "end"}
            return Kind.PASSED if said == {Outcome.GOOD} else Kind.FAILURE if said == {Outcome.BAD} else Kind.SKIPPED
        case Result.UNUSABLE:
            return Kind.ERROR
    return Kind.SKIPPED


def _tried(trial: Trial, revision: str) -> Test:
    cell, verdict = trial.cell, trial.verdict
    more = told(verdict.signature, _MESSAGE) if verdict.signature else ""
    group = f"{cell.target}.{cell.backend}.{revision}"
    return Test(
        group,
        f"{cell.case} with {revision}",
        KINDS[verdict.outcome],
        "" if verdict.outcome is Outcome.GOOD else verdict.reason,
        more,
        verdict.signature.kind.value if verdict.signature else verdict.outcome.value,
        "\n".join(trial.log),
    )


# --- the file -----------------------------------------------------------------------------------


def _totals(tests: Sequence[Test]) -> dict[str, str]:
    count = {kind: sum(test.kind is kind for test in tests) for kind in Kind}
    return {
        "tests": str(len(tests)),
        "failures": str(count[Kind.FAILURE]),
        "errors": str(count[Kind.ERROR]),
        "skipped": str(count[Kind.SKIPPED]),
    }


def _add_suite(root: ElementTree.Element, suite: Suite) -> None:
    totals = _totals(suite.tests)
    made = ElementTree.SubElement(root, "testsuite", {"name": _one_line(suite.name), **totals})
    if suite.properties:
        properties = ElementTree.SubElement(made, "properties")
        for key, value in suite.properties:
            ElementTree.SubElement(properties, "property", {"name": _one_line(key), "value": _one_line(value, 4000)})
    for test in suite.tests:
        case = ElementTree.SubElement(
            made, "testcase", {"classname": _one_line(test.group), "name": _one_line(test.name)}
        )
        if test.kind is not Kind.PASSED:
            # `skipped` has a message alone: the schema gives it no type.
            kind = {} if test.kind is Kind.SKIPPED else {"type": test.word or test.kind.value}
            why = ElementTree.SubElement(case, test.kind.value, {"message": _one_line(test.message), **kind})
            why.text = _text(test.details) or None
        if test.log:
            ElementTree.SubElement(case, "system-out").text = _text(test.log)


def _one_line(text: str, limit: int = _MESSAGE) -> str:
    return _NOT_XML.sub("\ufffd", shorten(line(text), limit))


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", shorten(visible(text, keep="\n"), _LOG))
