"""Controls: now and then this machine is asked something trivial, so that a sick one does not decide the search.

The control is the smoke case on the first build that ran at all in this session. When it fails, what was answered
since this machine was last seen to be healthy is void, and asked again once it is healthy again.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bisect_bot.errors import DiskFull, JournalError, MachineError, NoBrowser, NpmError
from bisect_bot.model import Outcome, Plan, Revision, Trial
from bisect_bot.session.against import CASES
from bisect_bot.session.bench import Bench
from bisect_bot.session.budget import Budget
from bisect_bot.session.ledger import Ledger
from bisect_bot.session.loop import Ruling
from bisect_bot.session.machine import Surroundings, changes
from bisect_bot.session.smoke import smoke_backends
from bisect_bot.session.units import Unit
from bisect_bot.verdicts import JUDGE_VERSION

# A control is due after so many browser runs, or so many seconds, that nothing has confirmed. A search of twelve
# probes needs one or two: a smoke case that a new build passes confirms what came before it, too.
PROBES = 8
SECONDS = 120.0
CASE_S = 30.0
# How long a machine may take to become healthy again, and the longest pause between two looks at it.
PATIENCE_S = 600.0
LONGEST_PAUSE_S = 60.0
# After so many failures of it on one unit, the search itself must be what makes the machine fail.
FAILURES = 4


@dataclass(slots=True)
class Controls:
    """A bench under control. `pause` waits that many seconds; `surroundings` tell when a target became another.

    `budget` is what may be spent on tests.
    """

    bench: Bench
    surroundings: Surroundings
    pause: Callable[[float], None] = time.sleep
    budget: Budget = field(default_factory=Budget)
    _void: list[Trial] = field(default_factory=list)
    _failures: Counter[Unit] = field(default_factory=Counter)

    def test(self, revision: Revision, unit: Unit, purpose: str) -> tuple[Trial, ...]:
        """One more answer of `revision` for every cell of `unit`, as `Bench.test`.

        A machine that gives no answer and fails its control is waited for. Raises MachineError when it stays sick, or
        is healthy and gives none all the same, and OutOfBudget.
        """
        new = not self.bench.has_built(revision)
        self.budget.check(self.bench.tally, f"{purpose} of {revision.id}", builds=new)
        while True:
            try:
                return self.bench.test(revision, unit, purpose)
            except (DiskFull, JournalError, NpmError):
                raise
            except MachineError:
                if self._is_healthy(unit):
                    raise
                self._recover(unit, revision.id)

    def ruling(self, *, last: bool) -> Ruling:
        """What is to be taken back by now: answers of a sick machine, or of one that is another by now."""
        renewed = self._renewed()
        for unit, ledger in list(self.bench.ledgers.items()):
            if self._is_due(ledger, last=last) and not self._is_healthy(unit):
                self._recover(unit, ledger.trials[-1].revision if ledger.trials else "")
        return Ruling(self.taken_back(), renewed)

    def taken_back(self) -> tuple[Trial, ...]:
        """What was voided and told to nobody, as by a ruling that raised."""
        void, self._void = tuple(self._void), []
        return void

    def confirm(self) -> None:
        """One last look after a few answers: what waited for it is confirmed. Raises MachineError when it is void.

        Right outputs are as good as a control, where what is right does not come from this machine.
        """
        for unit, ledger in list(self.bench.ledgers.items()):
            if not (ledger.trials or ledger.places):
                continue
            right = all(trial.verdict.outcome is Outcome.GOOD for trial in ledger.trials)
            if right and not ledger.odd and self.bench.request.against == CASES:
                self.bench.settle(unit, healthy=True)
            elif not self._is_healthy(unit):
                self._void += self.bench.settle(unit, healthy=False)
                raise MachineError(
                    f"the control failed on {unit.target.name}/{unit.backend}: no verdict can be believed",
                    "See what keeps this machine's GPU busy (or restart it), and try again.",
                )

    @staticmethod
    def _is_due(ledger: Ledger, *, last: bool) -> bool:
        if ledger.pinned is None or not (ledger.trials or ledger.places):
            return False
        waited = time.monotonic() - ledger.began if ledger.began is not None else 0.0
        return last or bool(ledger.odd) or ledger.probes >= PROBES or waited >= SECONDS

    def _is_healthy(self, unit: Unit) -> bool:
        """Runs the control; what waited for it is confirmed when it is good. Without any, nothing speaks against it."""
        pinned = self.bench.ledgers[unit].pinned
        if pinned is None:
            return True
        name, known_good = pinned
        smoke, tools = self.bench.smoke, self.bench.tools
        limits = replace(known_good.limits, case_s=min(known_good.limits.case_s, CASE_S))
        backend = smoke_backends(known_good)[-1]
        probe = replace(known_good, cases=(smoke,), plan=Plan(), isolate=True, limits=limits, backend=backend)
        tools.watcher.doing(f"control: {smoke.name} on {name}")
        self.bench.tally["controls"] += 1
        begin = time.monotonic()
        try:
            (seen,) = tools.observe(probe, tools.browsers, lambda _index, _seen: None)
        except NoBrowser:
            return False
        verdict = tools.judge(seen, smoke)
        key, seconds = self.bench.keys(probe)[0], time.monotonic() - begin
        tools.journal.record(self.bench.session, key, None, name, seen, verdict, seconds, JUDGE_VERSION)
        if verdict.outcome is not Outcome.GOOD:
            return False
        self.bench.settle(unit, healthy=True)
        return True

    def _recover(self, unit: Unit, after: str) -> None:
        """After a control that failed: voids what waited for it, and waits until the machine is healthy again."""
        when, begin = dt.datetime.now(dt.UTC), time.monotonic()
        void = self.bench.settle(unit, healthy=False)
        self._void += void
        self._failures[unit] += 1
        place = f"{unit.target.name}/{unit.backend}"
        say = self.bench.tools.watcher.say
        say(f"the control failed on {place}: {len(void)} verdict(s) are void; waiting for this machine to be healthy")
        if self._failures[unit] >= FAILURES:
            raise MachineError(
                f"the control failed {FAILURES} times on {place}, at last after {after}: no verdict can be believed",
                "See whether a case makes its GPU fail, then: bisect-bot resume",
            )
        waited, pause = 0.0, 1.0
        while not self._is_healthy(unit):
            if waited >= PATIENCE_S:
                raise MachineError(
                    f"the control has failed on {place} for {PATIENCE_S:.0f} s: this machine gives no answers",
                    "See what keeps its GPU busy (or restart it), then: bisect-bot resume",
                )
            self.pause(pause)
            waited += pause
            pause = min(2 * pause, LONGEST_PAUSE_S)
        self.bench.remark(
            f"The control failed on {place} at {when:%Y-%m-%d %H:%M:%S} UTC and was good again"
            f" {time.monotonic() - begin:.0f} s later: {len(void)} verdict(s) were voided and tested again."
        )

    def _renewed(self) -> dict[Unit, Unit]:
        """The units whose browser or driver is another by now, with what they are; their answers are taken back."""
        renewed: dict[Unit, Unit] = {}
        for unit in list(self.bench.ledgers):
            try:
                target = self.surroundings.look(unit.target)
            except MachineError:
                self._void += self.bench.settle(unit, healthy=False)
                raise
            if target == unit.target:
                continue
            # The last of them may have been given by either.
            self._void += self.bench.settle(unit, healthy=False)
            before = [trial for trial in self.bench.trials if unit.holds(trial.cell)]
            self._void += before
            self.bench.forget(before)
            del self.bench.ledgers[unit]
            renewed[unit] = Unit(target, unit.backend)
            for change in changes(unit.target, target):
                self.bench.remark(f"{change} during the search: everything before was tested again.")
        return renewed
