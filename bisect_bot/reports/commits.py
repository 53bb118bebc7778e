"""What a report says of commits: who made the culprit, and which may be it where one cannot be told from the others."""

from __future__ import annotations

from dataclasses import dataclass

from bisect_bot.model import CellResult, Culprit, Direction, Report, Result, Revision
from bisect_bot.reports.escaping import code_span, markdown, shorten
from bisect_bot.reports.groups import who
from bisect_bot.reports.sentence import UPSTREAM, name
from bisect_bot.reports.values import short_list

_LISTED = 100
_FILES = 20


@dataclass(frozen=True, slots=True)
class Effect:
    """What a commit did: `cells` are the answers that it broke, or that it fixed, all of one `direction`.

    `who` names them, where the report has others, too.
    """

    direction: Direction
    who: str
    cells: tuple[CellResult, ...]

    @property
    def verb(self) -> str:
        """What was done to the cells."""
        return "fixed" if self.direction is Direction.FIX else "broke"


@dataclass(frozen=True, slots=True)
class Named:
    """A commit that answers name, with what it did: one commit may break some cells and fix others."""

    culprit: Culprit
    effects: tuple[Effect, ...]

    @property
    def cells(self) -> tuple[CellResult, ...]:
        """The answers that name it."""
        return tuple(cell for effect in self.effects for cell in effect.cells)


def several(answer: CellResult | None) -> tuple[Revision, ...]:
    """The commits of which any may be the one; none where the answer names one, or speaks of builds."""
    if answer is None:
        return ()
    named = tuple(revision for suspect in answer.suspects for revision in suspect.revisions)
    is_open = answer.result is Result.RANGE and len(answer.suspects) > 1
    return named if is_open and named[0].version is None else ()


def culprits(report: Report) -> tuple[Named, ...]:
    """The commits that the answers of `report` name, in the order of its cells."""
    # Journals of earlier versions know that of the headline alone.
    known = {each.commit: each for each in report.culprits or filter(None, [report.culprit])}
    cells: dict[str, list[CellResult]] = {}
    for cell in report.cells:
        commit = cell.boundary.first_new.commit if cell.boundary and cell.result is Result.FOUND else None
        if commit in known:
            cells.setdefault(commit, []).append(cell)
    return tuple(Named(known[commit], _effects(own, report)) for commit, own in cells.items())


def _effects(cells: list[CellResult], report: Report) -> tuple[Effect, ...]:
    ways: dict[Direction, list[CellResult]] = {}
    for cell in cells:
        ways.setdefault(cell.direction or Direction.REGRESSION, []).append(cell)
    told = len(report.cells) > 1
    return tuple(Effect(way, who(own, report.cells) if told else "", tuple(own)) for way, own in ways.items())


def culprit_lines(named: Named) -> list[tuple[str, str]]:
    """Label and plain text for each fact about a culprit."""
    culprit = named.culprit
    number = culprit.pull_request
    boundary = named.cells[0].boundary
    # The day that tables give for this commit: an author's may be another.
    day = boundary.first_new.date if boundary else None
    return [
        *((effect.verb, effect.who) for effect in named.effects if effect.who),
        ("author", f"{culprit.author}, {day.isoformat() if day else culprit.date[:10]}"),
        *([("pull request", f"{UPSTREAM}/pull/{number}")] if number else []),
        ("files", short_list(culprit.files, _FILES)),
    ]


def culprits_markdown(report: Report) -> list[str]:
    """The culprits, each as a part of the Markdown report."""
    return [_culprit(named) for named in culprits(report)]


def _culprit(named: Named) -> str:
    lines = [f"- {label}: {markdown(shorten(text, 1000))}" for label, text in culprit_lines(named)]
    title = markdown(shorten(named.culprit.title, 200))
    return f"### {code_span(named.culprit.commit[:10])} {title}\n\n" + "\n".join(lines)


def several_markdown(answer: CellResult | None) -> list[str]:
    """The commits that may be the one, as a part of the Markdown report."""
    found = several(answer)
    if not found:
        return []
    lines = [
        f"- {code_span(name(revision))} {revision.date or ''} {markdown(shorten(revision.title or '', 120))}"
        for revision in found[:_LISTED]
    ]
    lines += [f"- … and {len(found) - _LISTED} more, in `report.json`"] if len(found) > _LISTED else []
    return [f"### Any of these {len(found)} commits may be the one\n\n" + "\n".join(lines)]
