"""Asks a list of questions that does not depend on the answers, under control as a search is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bisect_bot.errors import DiskFull, JournalError, MachineError
from bisect_bot.model import Request, Revision, Target
from bisect_bot.session.bench import Bench
from bisect_bot.session.control import Controls
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

    `unanswered` hears of each that this machine has no answer to, and may raise. Raises DiskFull and JournalError.
    """
    pending = list(questions)
    revisions = {revision.id: revision for revision, _ in questions}
    while pending:
        revision, unit = pending.pop(0)
        try:
            ask(revision, unit)
            ruling = controls.ruling(last=not pending)
        except (DiskFull, JournalError):
            raise
        except MachineError as error:
            unanswered(revision, unit, error)
            continue
        units = {ruling.units.get(each, each) for _, each in questions}
        void = {(trial.revision, each) for trial in ruling.void for each in units if each.holds(trial.cell)}
        again = [(revisions[name], each) for name, each in void]
        pending = again + [(r, ruling.units.get(u, u)) for r, u in pending]
