"""The trials of a report, gathered by revision: what a table shows in one row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

from bisect_bot.model import (
    Boundary,
    Cell,
    CellResult,
    Comparison,
    Direction,
    Outcome,
    Report,
    Result,
    Revision,
    Trial,
)

OTHER_FAILURE = "other failure"
# Tests of what no revision is: they speak of the answer, and have no place in history.
ASIDE = ("attribution", "proof")
_DECIDED = (Outcome.GOOD, Outcome.BAD)


@dataclass(frozen=True, slots=True)
class Row:
    """All trials of one revision for one cell, in the order in which they were made; never empty.

    `marks` says what the revision is to the answer: `end`, `last good`, `first bad`, …. `answer` tells what was
    searched for (None: any failure): a run that is bad in another way says nothing about it, as a skipped one.
    """

    revision: Revision
    trials: tuple[Trial, ...]
    marks: tuple[str, ...] = ()
    answer: CellResult | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What all runs said, leaving out `infra` ones unless there are no others; None where they disagree."""
        said = {self._said(trial) for trial in self.trials}
        told = said - {Outcome.INFRA} or said
        return next(iter(told)) if len(told) == 1 else None

    @property
    def label(self) -> str:
        """The outcome in a word or two, or how often each was met: `good`, `other failure`, `1 good, 2 bad`."""
        if self.outcome is not None:
            return OTHER_FAILURE if self._is_other(self.trial) else self.outcome.value
        counted = Counter(self._said(trial) for trial in self.trials)
        return ", ".join(f"{counted[outcome]} {outcome}" for outcome in Outcome if counted[outcome])

    @property
    def trial(self) -> Trial:
        """The trial that stands for the row: the first with its outcome, or the first bad one where runs disagree."""
        wanted = self.outcome or Outcome.BAD
        return next((trial for trial in self.trials if self._said(trial) is wanted), self.trials[0])

    def _said(self, trial: Trial) -> Outcome:
        return Outcome.SKIP if self._is_other(trial) else trial.verdict.outcome

    def _is_other(self, trial: Trial) -> bool:
        mine = trial.verdict.signature
        is_bad = trial.verdict.outcome is Outcome.BAD
        return is_bad and mine is not None and self.answer is not None and self.answer.is_other(mine)


def sides(direction: Direction | None) -> tuple[str, str]:
    """What the older and the newer side of a boundary are called: good and bad, or bad and good for a fix."""
    return ("bad", "good") if direction is Direction.FIX else ("good", "bad")


def side_marks(answer: CellResult) -> tuple[str, str]:
    """How the two revisions of the boundary of `answer` are marked: only what was found is the last or the first."""
    old, new = sides(answer.direction)
    return (f"last {old}", f"first {new}") if answer.result is Result.FOUND else (f"{old} side", f"{new} side")


def rows(report: Report, cell: Cell, answer: CellResult | None = None) -> tuple[Row, ...]:
    """One row for each revision that was tried for `cell`, in revision order; marked by the boundary of `answer`.

    Swapped parts and reverted culprits are left out. Revisions that the report does not list come last, in the order of
    their trials.
    """
    trials: dict[str, list[Trial]] = {}
    for trial in report.trials:
        if trial.cell == cell and trial.purpose not in ASIDE:
            trials.setdefault(trial.revision, []).append(trial)
    known = {revision.id: revision for revision in report.revisions}
    ordered = [*(r for r in known if r in trials), *(r for r in trials if r not in known)]
    searched = None if report.any_failure else answer
    return tuple(
        Row(known.get(r, Revision(r)), tuple(trials[r]), _marks(r, tuple(trials[r]), answer), searched) for r in ordered
    )


def by_cell(report: Report) -> tuple[tuple[CellResult, Report], ...]:
    """Each answer with the report that has its trials alone: what is asked of it costs no look at all the others'."""
    trials: dict[Cell, list[Trial]] = {answer.cell: [] for answer in report.cells}
    for trial in report.trials:
        trials.setdefault(trial.cell, []).append(trial)
    return tuple((answer, replace(report, trials=tuple(trials[answer.cell]))) for answer in report.cells)


def ends(report: Report, cell: Cell) -> tuple[Row, Row] | None:
    """The rows of the oldest and the newest revision that were tried as ends for `cell`; None with fewer than two."""
    of_builds = report.ends is None or report.ends[0].version is not None
    tried = [row for row in rows(report, cell) if any(trial.purpose == "end" for trial in row.trials)]
    if of_builds and any(row.revision.version for row in tried):
        tried = [row for row in tried if row.revision.version]  # ends among commits are those of two builds
    return (tried[0], tried[-1]) if len(tried) > 1 else None


def between(report: Report, boundary: Boundary) -> int | None:
    """How many revisions of the report lie between the two of `boundary`; None where one is not listed."""
    order = [revision.id for revision in report.revisions]
    try:
        return max(0, order.index(boundary.first_new.id) - order.index(boundary.last_old.id) - 1)
    except ValueError:
        return None


def other_boundaries(report: Report, answer: CellResult) -> tuple[Boundary, ...]:
    """Further pairs of tested revisions between which the verdict changes, oldest first.

    Histories are not monotonic: a regression may be backed out and land again. Without a boundary in the
    answer one change is what was to be found, and only several are told. Builds and commits are two lines: a boundary
    in one is none in the other.
    """
    decided = [row for row in rows(report, answer.cell, answer) if row.outcome in _DECIDED]
    if answer.boundary is not None:
        of_builds = answer.boundary.first_new.version is not None
        decided = [row for row in decided if (row.revision.version is not None) is of_builds]
    changes = [Boundary(a.revision, b.revision) for a, b in pairwise(decided) if a.outcome is not b.outcome]
    if answer.boundary is None:
        return tuple(changes) if len(changes) > 1 else ()
    return tuple(change for change in changes if (change.last_old.id, change.first_new.id) != answer.sides)


def shown_failure(report: Report, answer: CellResult) -> tuple[Revision, Trial, Comparison] | None:
    """The failure nearest to the boundary that has numbers: its revision, its trial, its first failed comparison."""
    failed = [
        row
        for row in rows(report, answer.cell, answer)
        if row.trial.verdict.outcome is Outcome.BAD and row.outcome is not Outcome.SKIP
    ]
    near = answer.sides
    if near is not None:
        failed.sort(key=lambda row: row.revision.id not in near)
    for row in failed:
        for comparison in row.trial.verdict.comparisons:
            if not comparison.matches:
                return row.revision, row.trial, comparison
    return None


def _marks(revision: str, trials: tuple[Trial, ...], answer: CellResult | None) -> tuple[str, ...]:
    marks = ["end"] if any(trial.purpose == "end" for trial in trials) else []
    if answer is not None and answer.sides is not None:
        marks += [mark for mark, side in zip(side_marks(answer), answer.sides, strict=True) if revision == side]
    for change in answer.others if answer is not None else ():
        if change.is_known and change.answer.sides is not None:
            pairs = zip(side_marks(change.answer), change.answer.sides, strict=True)
            marks += [mark for mark, side in pairs if revision == side]
    return tuple(marks)
