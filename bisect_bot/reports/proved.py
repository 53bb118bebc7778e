"""The proofs of a report in words: what was put to the proof, for which cases, and what came out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bisect_bot.model import CellResult, Proof, Report
from bisect_bot.reports.groups import who
from bisect_bot.reports.values import counted, proof_word


@dataclass(frozen=True, slots=True)
class Proved:
    """Equal proofs, in plain text that is not escaped: `retest of 1a2b3c4d5e, for conv`, `held (2 runs)`, why."""

    what: str
    told: str
    reason: str


def proved(report: Report) -> tuple[Proved, ...]:
    """The proofs of `report` in their order; equal ones of several cells are told once."""
    by_cell = {answer.cell: answer for answer in report.cells}
    found: dict[Proof, list[CellResult]] = {}
    for proof in report.proofs:
        own = found.setdefault(replace(proof, cell=None), [])
        if proof.cell in by_cell:
            own.append(by_cell[proof.cell])
    return tuple(_proved(proof, own, report) for proof, own in found.items())


def _proved(proof: Proof, cells: list[CellResult], report: Report) -> Proved:
    what = proof.kind + (f" of {proof.commit[:10]}" if proof.commit else "")
    if cells and len(report.cells) > 1:
        what += f", for {who(cells, report.cells)}"
    return Proved(what, f"{proof_word(proof)} ({counted(proof.runs, 'run')})", proof.reason or "")
