"""Doubt about the reference: who else says what a case must give, when values are what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx
from pydantic import TypeAdapter, ValidationError

from bisect_bot.cases.operators import computes_in_half
from bisect_bot.cases.opinion import Opinion, second_opinion
from bisect_bot.model import Case, CellResult, Failure, Report, Request
from bisect_bot.session.against import CASES
from bisect_bot.session.journal import Journal
from bisect_bot.verdicts import Tolerances, difference

LIMIT_S = 20.0
OPINION = "opinion"
# The kinds of failure that rest on the expected values; what throws or hangs is wrong whatever they are.
OF_VALUES = (Failure.MISMATCH, Failure.ALL_ZERO, Failure.CONSTANT, Failure.NAN)


def second_look(
    report: Report, request: Request, cases: Sequence[Case], tolerances: Tolerances, journal: Journal
) -> Report:
    """`report` with what another reference says about the headline's expected outputs: a warning when it disagrees.

    Unchanged when values are not what is wrong, when they come from another run, or when that reference has no
    opinion. Takes up to 20 seconds, once for each case.
    """
    if request.against != CASES or not report.cells:
        return report
    headline = report.cells[0]
    case = next((case for case in cases if case.name == headline.cell.case), None)
    if case is None or headline.signature is None or headline.signature.kind not in OF_VALUES:
        return report
    opinion = _opinion(case, headline, tolerances, journal)
    if opinion.agrees is None:
        return report
    if opinion.agrees:
        return replace(report, environment=(*report.environment, ("second opinion", opinion.text)))
    told = f"{case.name}: {opinion.text}: the expected outputs ({case.reference}) may be what is wrong."
    return replace(report, warnings=(*report.warnings, told))


def _opinion(case: Case, headline: CellResult, tolerances: Tolerances, journal: Journal) -> Opinion:
    """The opinion that was kept from an earlier look, or a fresh one."""
    kind = TypeAdapter(Opinion)
    key = f"{case.digest} {headline.cell.backend} {onnx.__version__}"
    try:
        return kind.validate_python(journal.remembered(OPINION, key))
    except ValidationError:
        pass
    exact = tolerances.for_half() if computes_in_half(case) else tolerances
    tolerance = exact.of(headline.cell.backend)
    opinion = second_opinion(case, LIMIT_S, lambda expected, actual: difference(expected, actual, tolerance))
    journal.remember(OPINION, key, kind.dump_python(opinion, mode="json"))
    return opinion
