"""What the HTML report shows, put together: the template only lays it out.

Texts are as they came from outside; the template's environment makes them harmless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from bisect_bot.model import Boundary, Cell, CellResult, Comparison, Outcome, Report, Revision, Trial
from bisect_bot.reports.boundaries import Step as ChangeStep
from bisect_bot.reports.boundaries import changes_remarks, steps, untold
from bisect_bot.reports.chart import Bar, Chart, channel_bars, drift_chart
from bisect_bot.reports.drift import Drift, drift
from bisect_bot.reports.failures import OtherKind, other_kinds
from bisect_bot.reports.rows import (
    OTHER_FAILURE,
    Row,
    by_cell,
    rows,
    shown_failure,
    side_marks,
)
from bisect_bot.reports.sentence import compare_link, headline
from bisect_bot.reports.words import failure_words

# A page that a browser opens at once: what is beyond stands in report.json, and the page says so.
MOST_DETAILS = 25
MOST_ROWS = 400
MOST_ACROSS = 60
MOST_LISTED = 100
MOST_LOGS = 40

_SIGNS = {
    Outcome.GOOD: ("good", "✓"),
    Outcome.BAD: ("bad", "✗"),
    Outcome.SKIP: ("skip", "–"),
    Outcome.INFRA: ("infra", "?"),
}


@dataclass(frozen=True, slots=True)
class Look:
    """How a verdict is shown: a class for its colour, a sign that says the same without one, and the word."""

    style: str
    sign: str
    word: str


@dataclass(frozen=True, slots=True)
class Line:
    """One tried revision."""

    row: Row
    look: Look

    @property
    def trial(self) -> Trial:
        """The trial that stands for it."""
        return self.row.trial


@dataclass(frozen=True, slots=True)
class Side:
    """One revision of the boundary; `row` is what was seen of it, if it was tried."""

    mark: str
    look: Look
    revision: Revision
    row: Row | None


@dataclass(frozen=True, slots=True)
class Failing:
    """How the answer's case fails: in words, then in the numbers of one comparison that does not match."""

    words: str
    revision: Revision | None
    trial: Trial | None
    comparison: Comparison | None
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring revisions with the same look: what a strip is made of."""

    look: Look
    count: int


@dataclass(frozen=True, slots=True)
class CellView:
    """One case on one target with one backend. `hidden` counts the revisions that are left out of `lines`."""

    answer: CellResult
    link: str | None
    lines: tuple[Line, ...]
    hidden: int
    sides: tuple[Side, ...] = ()
    failing: Failing | None = None
    drift: Drift | None = None
    chart: Chart | None = None
    others: tuple[OtherKind, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    steps: tuple[ChangeStep, ...] = ()
    remarks: tuple[str, ...] = ()
    logs: tuple[Line, ...] = ()

    @property
    def strip(self) -> tuple[Run, ...]:
        """The verdicts in the order of history, neighbours that look alike taken together."""
        return tuple(Run(look, len(list(same))) for look, same in groupby(line.look for line in self.lines))

    @property
    def tally(self) -> str:
        """How often each verdict was met: `5 good, 2 bad`."""
        counted = Counter(line.look.word for line in self.lines)
        return ", ".join(f"{count} {word}" for word, count in counted.items())


@dataclass(frozen=True, slots=True)
class View:
    """The whole page. `cells[0]` is the headline; only the first `MOST_DETAILS` are shown in full.

    Where nothing was searched (a matrix), all cells are equal and `grid` has them as rows, each with a line (or None)
    for every revision in `across`.
    """

    report: Report
    sentence: str
    cells: tuple[CellView, ...]
    across: tuple[Revision, ...] = ()
    grid: tuple[tuple[Cell, tuple[Line | None, ...]], ...] = ()


def view(report: Report, sentence: str | None = None) -> View:
    """What to show of `report`; `sentence` stands above it where that is no answer of a search."""
    said = headline(report) if sentence is None else sentence
    if report.cells or not report.trials:
        return View(report, said, _cells(report))
    tried = dict.fromkeys(trial.cell for trial in report.trials)
    cells = _cells(replace(report, cells=tuple(CellResult(cell, report.result, None, None) for cell in tried)))
    across = report.revisions[:MOST_ACROSS]
    grid = []
    for cell in cells[:MOST_ROWS]:
        by_id = {line.row.revision.id: line for line in cell.lines}
        grid.append((cell.answer.cell, tuple(by_id.get(revision.id) for revision in across)))
    return View(report, said, cells, across, tuple(grid))


def _cells(report: Report) -> tuple[CellView, ...]:
    return tuple(
        _detailed(answer, own) if place < MOST_DETAILS else _outline(answer, own)
        for place, (answer, own) in enumerate(by_cell(report))
    )


def _outline(answer: CellResult, report: Report) -> CellView:
    """What the table of all cells needs."""
    tried = rows(report, answer.cell, answer)
    lines = tuple(Line(row, _look(row)) for row in tried[:MOST_ROWS])
    return CellView(answer, compare_link(answer.boundary), lines, len(tried) - len(lines))


def _detailed(answer: CellResult, report: Report) -> CellView:
    outline = _outline(answer, report)
    found = drift(report, answer)
    return replace(
        outline,
        sides=tuple(_sides(answer, rows(report, answer.cell, answer))),
        failing=_failing(report, answer),
        drift=found,
        chart=drift_chart(found) if found else None,
        others=other_kinds(report, answer),
        boundaries=untold(report, answer),
        steps=steps(answer, report.proofs if answer is report.cells[0] else ()),
        remarks=changes_remarks(report, answer),
        logs=tuple(line for line in outline.lines if line.trial.log)[:MOST_LOGS],
    )


def _look(row: Row) -> Look:
    if row.outcome is None:
        return Look("mixed", "±", row.label)
    style, sign = _SIGNS[row.outcome]
    return Look("other", "≠", row.label) if row.label == OTHER_FAILURE else Look(style, sign, row.label)


def _sides(answer: CellResult, tried: tuple[Row, ...]) -> Iterator[Side]:
    if answer.boundary is None:
        return
    pair = (answer.boundary.last_old, answer.boundary.first_new)
    for mark, revision in zip(side_marks(answer), pair, strict=True):
        outcome = Outcome.GOOD if "good" in mark.split() else Outcome.BAD
        own = next((row for row in tried if row.revision.id == revision.id), None)
        yield Side(mark, Look(*_SIGNS[outcome], outcome.value), revision, own)


def _failing(report: Report, answer: CellResult) -> Failing | None:
    shown = shown_failure(report, answer)
    if answer.signature is None and shown is None:
        return None
    words = failure_words(answer.signature) if answer.signature else ""
    if shown is None:
        return Failing(words, None, None, None, ())
    revision, trial, comparison = shown
    return Failing(words, revision, trial, comparison, channel_bars(comparison.channels))
