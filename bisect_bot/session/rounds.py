"""Asks a list of questions that does not depend on the answers, under control as a search is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bisect_bot.errors import DiskFull, JournalError, MachineError
from bisect_bot.model import Request, Revision, Target, Trial
from bisect_bot.session.bench import Bench
from bisect_bot.session.control import Controls
from bisect_bot.session.loop import Ruling
from bisect_bot.session.machine import Surroundings
from bisect_bot.session.units import Unit
from bisect_bot.session.workshop import Workshop

Question = tuple[Revision, Unit]


def under_control(bench: Bench, targets: Iterable[Target], request: Request, workshop: Workshop) -> Controls:
    """`bench` under controls that notice when one of `targets` becomes another."""
    surroundings = Surroundings(lambda target: workshop.renewed(target, request))
    for target in targets:
        surroundings.watch(target)
    return Controls(bench, surroundings)


def ask_all(
    questions: Sequence[Question],
    controls: Controls,
    ask: Callable[[Revision, Unit], None],
    unanswered: Callable[[Revision, Unit, MachineError], None],
) -> None:
    """Asks every question in order, and those again whose answers turn out to be void.

    `unanswered` hears of each that this machine has no answer to, also when it had one that is void and cannot be
    asked again; it may raise. Raises DiskFull and JournalError.
    """
    pending = list(questions)
    units = {unit for _, unit in questions}
    revisions = {revision.id: revision for revision, _ in questions}

    def touched(void: Iterable[Trial]) -> list[Question]:
        names = dict.fromkeys((trial.revision, unit) for trial in void for unit in units if unit.holds(trial.cell))
        return [(revisions[name], unit) for name, unit in names]

    def lost(void: Iterable[Trial], error: MachineError) -> None:
        for revision, unit in touched(void):
            unanswered(revision, unit, error)

    while pending:
        revision, unit = pending.pop(0)
        try:
            ask(revision, unit)
        except (DiskFull, JournalError):
            raise
        except MachineError as error:
            unanswered(revision, unit, error)
        ruling = _ruling(controls, lost, last=not pending)
        units = {ruling.units.get(each, each) for each in units}
        pending = touched(ruling.void) + [(r, ruling.units.get(u, u)) for r, u in pending]


def _ruling(controls: Controls, lost: Callable[[Sequence[Trial], MachineError], None], *, last: bool) -> Ruling:
    """The controls' word on the answers so far. `lost` hears of those that a machine which stays sick voided."""
    while True:
        try:
            return controls.ruling(last=last)
        except (DiskFull, JournalError):
            raise
        except MachineError as error:
            void = controls.taken_back()
            lost(void, error)
            if not void:
                return Ruling()
