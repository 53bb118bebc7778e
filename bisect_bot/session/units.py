"""What one probe covers, and how its answers are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bisect_bot.model import Case, Cell, Target, Trial


@dataclass(frozen=True, slots=True)
class Unit:
    """What one probe covers: all cases on one target with one backend."""

    target: Target
    backend: str

    def cell(self, case: Case) -> Cell:
        """The question that `case` is here."""
        return Cell(case.name, self.target.name, self.backend)

    def holds(self, cell: Cell) -> bool:
        """Whether `cell` is a question of this unit."""
        return (cell.target, cell.backend) == (self.target.name, self.backend)


def units(targets: Sequence[Target], backends: Sequence[str]) -> tuple[Unit, ...]:
    """Every target with every backend."""
    return tuple(Unit(target, backend) for target in targets for backend in backends)


def id_of(trial: Trial) -> tuple[str, Cell, int]:
    """What tells a trial from all others of its session."""
    return trial.revision, trial.cell, trial.attempt
