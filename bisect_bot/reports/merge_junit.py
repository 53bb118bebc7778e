"""The merged table of several machines as JUnit XML: a suite for each machine and backend, a test for each place."""

from __future__ import annotations

from bisect_bot.model import Outcome
from bisect_bot.reports.junit import KINDS, Kind, Suite, Test, document
from bisect_bot.reports.merging import Line, Merged, State, Tally
from bisect_bot.reports.sentence import name


def to_junit(merged: Merged) -> str:
    """`merged` as the text of a JUnit file. Runs that disagree fail: what wavers is not good."""
    suites: dict[str, list[Test]] = {}
    for line in merged.lines:
        place = f"{merged.labels[line.machine]}/{line.backend}"
        suites.setdefault(place, []).extend(_tests(line, merged, place))
    about = (("sentence", merged.sentence), *(("session", each.session) for each in merged.reports))
    return document("bisect-bot merge", [Suite(place, tuple(tests), about) for place, tests in suites.items()])


def _tests(line: Line, merged: Merged, place: str) -> list[Test]:
    case = merged.cases[line.case].label
    return [
        _test(tally, f"{place}.{name(revision)}", f"{case} with {name(revision)}")
        for revision, tally in zip(merged.revisions, line.cells, strict=True)
        if tally is not None
    ]


def _test(tally: Tally, group: str, what: str) -> Test:
    outcome = Outcome.BAD if tally.state is State.WAVERS else tally.outcome
    kind = KINDS[outcome] if outcome else Kind.SKIPPED
    message = "" if kind is Kind.PASSED else "; ".join((tally.label, *tally.reasons))
    return Test(group, what, kind, message, word=outcome.value if outcome else "")
