"""Reads somebody's `report.json`: what it claims of one boundary. It is a stranger's file: nothing in it is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from bisect_bot.errors import UsageError
from bisect_bot.model import Failure, Outcome, Result, Signature
from bisect_bot.reports.reading import Name, case_digests, read_report

MAX_CELLS = 10_000

_WHY_NOT = {
    Result.RANGE: "it is narrowed to a range only: there is no boundary to test again",
    Result.SAME: "its two ends do not differ: there is no boundary",
    Result.TESTED: "it is the table of a matrix, which has no boundary",
}


class _Revision(BaseModel):
    id: Name
    version: Name | None = None


class _Boundary(BaseModel):
    last_old: _Revision
    first_new: _Revision


class _Signature(BaseModel):
    kind: Failure
    message: Annotated[str, Field(max_length=10_000)] = ""
    when: Annotated[str, Field(max_length=300)] = ""


class _Cell(BaseModel):
    name: Name
    backend: Name
    direction: Literal["regression", "fix"] | None = None
    boundary: _Boundary | None = None
    signature: _Signature | None = None


class _Report(BaseModel):
    schema_: Literal[1] = Field(alias="schema")
    session: Annotated[str, Field(max_length=100)] = ""
    result: Result
    boundary: _Boundary | None = None
    cases: Annotated[tuple[_Cell, ...], Field(max_length=MAX_CELLS)]
    environment: dict[str, object] = {}
    reproduce: Annotated[str, Field(max_length=100_000)]


@dataclass(frozen=True, slots=True)
class ClaimedCell:
    """What a report says of one case with one backend: its verdict before and after the boundary, and how it fails.

    `signature` is None where it does not say how.
    """

    case: str
    backend: str
    old: Outcome
    new: Outcome
    signature: Signature | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """What a report says. `old` and `new` name its boundary, `cells` are those that have just this one.

    `digests` are the first 16 digits of what each case's content hashed to, by its name; `others` counts cells with
    another boundary. `reproduce` is the command that the report was made by: text, never to be run. `of_commits` tells
    that both sides are commits, which take a clone to be built; `session` is what made the report.
    """

    old: str
    new: str
    cells: tuple[ClaimedCell, ...]
    digests: dict[str, str]
    others: int
    reproduce: str
    of_commits: bool = False
    session: str = ""


def read_claim(path: Path) -> Claim:
    """The claim of the report.json at `path`.

    Raises UsageError when it cannot be read, is too large, is no report of schema 1, or names no boundary.
    """
    report = read_report(_Report, path)
    if report.result in _WHY_NOT:
        raise UsageError(f"{path} names no boundary: {_WHY_NOT[report.result]}", "Name the report.json of a `run`.")
    boundary = report.boundary
    if report.result is not Result.FOUND or boundary is None:
        raise UsageError(f"{path} names no boundary: its result is {report.result}", "Name a report that found one.")
    cells = tuple(_claimed(cell) for cell in report.cases if cell.boundary == boundary and cell.direction)
    if not cells or boundary.last_old == boundary.first_new:
        raise UsageError(f"{path} has a boundary that none of its cases has", "Was it changed by hand?")
    return Claim(
        old=boundary.last_old.version or boundary.last_old.id,
        new=boundary.first_new.version or boundary.first_new.id,
        cells=cells,
        digests=case_digests(report.environment),
        others=sum(1 for cell in report.cases if cell.boundary not in (None, boundary)),
        reproduce=report.reproduce,
        of_commits=boundary.last_old.version is None and boundary.first_new.version is None,
        session=report.session,
    )


def _claimed(cell: _Cell) -> ClaimedCell:
    sides = (Outcome.GOOD, Outcome.BAD) if cell.direction == "regression" else (Outcome.BAD, Outcome.GOOD)
    said = cell.signature
    return ClaimedCell(
        cell.name, cell.backend, *sides, Signature(said.kind, cell.name, said.message, said.when) if said else None
    )
