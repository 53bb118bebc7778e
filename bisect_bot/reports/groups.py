"""What the cells of a run have in common: one sentence for each group of them that has one answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bisect_bot.model import CellResult, Direction, Outcome, Report, Result
from bisect_bot.reports.boundaries import story
from bisect_bot.reports.escaping import line, shorten
from bisect_bot.reports.rows import Row, by_cell, ends, other_boundaries
from bisect_bot.reports.sentence import name
from bisect_bot.reports.values import short_list

EVERYTHING_ELSE = "everything else"
MOST_GROUPS = 10
_NAMED = 4  # cells that a sentence names before it counts the rest
_CASE = 80
_WHY = 200
_PLAIN = (Outcome.GOOD, Outcome.BAD)


@dataclass(frozen=True, slots=True)
class Group:
    """Cells with one answer. `who` names them, in no more words than needed, `answer` is what was found for them."""

    who: str
    answer: str
    cells: tuple[CellResult, ...]

    def __str__(self) -> str:
        return f"{self.who}: {self.answer}"


def groups(report: Report) -> tuple[Group, ...]:
    """The cells of `report` by their answer, in the order of the cells; none where there is a single cell.

    The last is called `everything else` where more than two would have to be named.
    """
    found: dict[str, list[CellResult]] = {}
    if len(report.cells) > 1:
        for cell, own in by_cell(report):
            found.setdefault(line(answer_words(cell, own)), []).append(cell)
    order = list(found.items())
    # What was searched for comes first, and what most cells share of the rest comes last.
    rest = [each for each in order if each[1][0].boundary is None]
    if len(order) > 1 and rest:
        largest = max(rest, key=lambda each: (len(each[1]), each[0] == f"always {Outcome.GOOD}", order.index(each)))
        order = [*(each for each in order if each is not largest), largest]
    return tuple(
        Group(who(cells, report.cells, 0 < place == len(order) - 1), answer, tuple(cells))
        for place, (answer, cells) in enumerate(order)
    )


def groups_sentence(report: Report) -> str:
    """All groups in one sentence of plain text on one line; empty where there is a single cell.

    Above `MOST_GROUPS` the rest is counted: a table of all cells stands in every report.
    """
    found = groups(report)
    told = [str(group) for group in found[:MOST_GROUPS]]
    told += [f"{len(found) - MOST_GROUPS} more answers below"] if len(found) > MOST_GROUPS else []
    return f"{'; '.join(told)}." if told else ""


def answer_words(cell: CellResult, own: Report) -> str:
    """What was found for one cell, without its name: equal for cells that share it; `own` has its trials alone."""
    why = shorten(line(cell.note), _WHY).rstrip(" .")
    match cell.result:
        case Result.FOUND | Result.RANGE if cell.boundary is not None:
            return story(cell) or _changed(cell)
        case Result.SAME:
            return ": ".join(filter(None, (_unchanged(cell, own), story(cell))))
        case Result.STOPPED:
            pair = cell.boundary
            left = f", between {name(pair.last_old)} and {name(pair.first_new)} so far" if pair else ""
            return f"not finished{left}"
        case Result.UNUSABLE:
            return f"cannot be tested: {_reason(own) or why or 'no answer from this machine'}"
    return f"no certain answer{f': {why}' if why else ''}"


def _changed(cell: CellResult) -> str:
    assert cell.boundary is not None, "something changed somewhere"
    verb = "fixed" if cell.direction is Direction.FIX else "broken"
    old, new = cell.boundary.last_old, cell.boundary.first_new
    between = f"{name(old)} and {name(new)}"
    if cell.result is Result.RANGE:
        several = len(cell.suspects) > 1 and new.version is None and not cell.suspects[0].skipped
        by = f"by one of {len(cell.suspects)} commits" if several else "somewhere"
        return f"{verb} {by} between {between}"
    return f"{verb} by {name(new)}" if new.version is None else f"{verb} between {between}"


def _unchanged(cell: CellResult, own: Report) -> str:
    """What both ends are; a change that was taken back between them is told."""
    tried = ends(own, cell.cell)
    if tried is None:
        return "the ends do not differ"
    said = tuple(row.outcome for row in tried)
    if said[0] is not said[1] or said[0] is None:
        return "the ends do not differ"
    if said[0] not in _PLAIN:
        return f"cannot be tested: {_why(tried[0])}"
    if other_boundaries(own, cell):
        return f"{said[0]} at both ends, but not between them"
    return f"always {said[0]}"


def _reason(own: Report) -> str:
    """Why an end gave no verdict, where one did not."""
    tried = ends(own, own.trials[0].cell) if own.trials else None
    return next((_why(row) for row in tried or () if row.outcome not in _PLAIN), "")


def _why(row: Row) -> str:
    return f"{row.label} ({shorten(line(row.trial.verdict.reason), _WHY).rstrip(' .')})"


def who(cells: Sequence[CellResult], everything: Sequence[CellResult], is_last: bool = False) -> str:
    """Names `cells` of a report: by places where they are all cases there, by cases where they are at all places.

    The last group is called `everything else` where more than two would have to be named.
    """
    places = list(dict.fromkeys(_place(cell) for cell in cells))
    cases = list(dict.fromkeys(cell.cell.case for cell in cells))
    all_cases, all_places = {cell.cell.case for cell in everything}, {_place(cell) for cell in everything}
    whole = len(cells) == len(places) * len(cases)
    if len(cells) == len(everything) and len(all_cases) > 1:
        return f"all {len(cells)} cells"
    if whole and len(cases) == len(all_cases):
        named = places
    elif whole and len(places) == len(all_places):
        named = [shorten(case, _CASE) for case in cases]
    else:
        named = [f"{shorten(cell.cell.case, _CASE)} on {_place(cell)}" for cell in cells]
    if is_last and len(named) > 2:
        return EVERYTHING_ELSE
    if len(named) > _NAMED:
        return line(short_list(named, _NAMED - 1))
    return line(" and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named))


def _place(cell: CellResult) -> str:
    return f"{cell.cell.target}/{cell.cell.backend}"
