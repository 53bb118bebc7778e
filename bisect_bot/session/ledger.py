"""What was answered on one target and backend since this machine was last seen to be healthy there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from bisect_bot.model import Trial
from bisect_bot.probes import Probe
from bisect_bot.session.journal import Place


@dataclass(slots=True)
class Ledger:
    """Answers that no healthy control has confirmed yet.

    `places` are those in the journal, `trials` the answers, `probes` how many browser runs they took and `began`
    the monotonic time of the first. `odd` tells why the machine is doubted, if it is. `pinned` is the first probe whose
    build ran at all: with the smoke case in place of its own, it is the control.
    """

    places: list[Place] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    probes: int = 0
    began: float | None = None
    odd: str = ""
    pinned: tuple[str, Probe] | None = None

    def probed(self) -> None:
        """One more browser run that nothing has confirmed."""
        self.probes += 1
        self.began = time.monotonic() if self.began is None else self.began

    def pin(self, revision: str, probe: Probe) -> None:
        """A probe whose build ran; the first is kept."""
        self.pinned = self.pinned or (revision, probe)

    def doubt(self, why: str) -> None:
        """Something was odd: the machine is to be looked at before anything else."""
        self.odd = self.odd or why

    def add(self, places: Iterable[Place], trials: Iterable[Trial]) -> None:
        """Answers that wait for a control."""
        self.places += places
        self.trials += trials

    def clear(self) -> None:
        """Begins anew, as after a control; the pinned build stays."""
        self.places, self.trials, self.probes, self.began, self.odd = [], [], 0, None, ""
