"""How the error grows from step to step and from frame to frame, on both sides of the answer."""

from __future__ import annotations

from dataclasses import dataclass

from bisect_bot.model import CellResult, Comparison, Report, Trial
from bisect_bot.reports.rows import Row, rows, side_marks
from bisect_bot.reports.words import step_words

MOST_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class Pass:
    """All outputs of one data set (of a recurrent case: one frame) in one step of the plan.

    `error` is their largest absolute error, None where none could be compared by element. `odd` names what is wrong
    with one of them as a whole (`all zero`, `NaN`, …). `cosine` is the lowest similarity of them.
    """

    step: str
    data_set: str
    matches: bool
    error: float | None
    odd: str = ""
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """Passes side by side. `columns` are the rows that are compared, each with what it is to the answer.

    `lines` have the name of the pass and a pass for each column (None where it was not reached).
    """

    columns: tuple[tuple[str, Row], ...]
    lines: tuple[tuple[str, tuple[Pass | None, ...]], ...]


def passes(trial: Trial) -> tuple[Pass, ...]:
    """The passes of a trial, in the order in which they were made."""
    grouped: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in trial.verdict.comparisons:
        grouped.setdefault((comparison.step, comparison.data_set), []).append(comparison)
    return tuple(
        Pass(
            step,
            data_set,
            all(c.matches for c in compared),
            max((c.max_abs_err for c in compared if c.problem is None), default=None),
            next((odd for c in compared if (odd := _odd(c))), ""),
            min((c.cosine for c in compared if c.cosine is not None), default=None),
        )
        for (step, data_set), compared in grouped.items()
    )


def drift(report: Report, answer: CellResult) -> Drift | None:
    """The passes of both sides of the boundary of `answer`; without one, of all revisions or of the outermost two.

    None where there is a single pass: then the first mismatches say all.
    """
    tried = rows(report, answer.cell, answer)
    if answer.boundary is None:
        columns = tuple(("", row) for row in (tried if len(tried) <= MOST_COLUMNS else (tried[0], tried[-1])))
    else:
        assert answer.sides is not None, "a boundary has two sides"
        marks = dict(zip(answer.sides, side_marks(answer), strict=True))
        columns = tuple((marks[row.revision.id], row) for row in tried if row.revision.id in marks)
    found = [{(p.step, p.data_set): p for p in passes(row.trial)} for _, row in columns]
    keys = max((list(each) for each in found), key=len, default=[])
    if len(keys) < 2:
        return None
    steps, data_sets = {step for step, _ in keys}, {data_set for _, data_set in keys}
    return Drift(
        columns,
        tuple((_name(key, len(steps) > 1, len(data_sets) > 1), tuple(each.get(key) for each in found)) for key in keys),
    )


def _name(key: tuple[str, str], by_step: bool, by_data_set: bool) -> str:
    step, data_set = key
    return ", ".join([step_words(step)] * by_step + [data_set] * by_data_set)


def _odd(comparison: Comparison) -> str:
    if comparison.matches:
        return ""
    if comparison.problem is not None:
        return comparison.problem
    if comparison.all_zero:
        return "all zero"
    if comparison.nan:
        return f"{comparison.nan} NaN"
    return "all equal" if comparison.all_equal else ""
