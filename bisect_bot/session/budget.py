"""How much a session may cost, and when that is used up."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from bisect_bot.errors import OutOfBudget, UsageError
from bisect_bot.model import Request
from bisect_bot.reports.values import counted

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?")


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a session, counted from now on; 0 is no limit. `seconds` are those of the wall clock.

    `before` is what the session had done until now: whoever takes it up again has as much to spend once more.
    """

    seconds: float = 0.0
    builds: int = 0
    probes: int = 0
    began: float = field(default_factory=time.monotonic)
    before: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request, before: Mapping[str, int]) -> Budget:
        """The budget that `request` gives to a session that has done `before` by now."""
        return cls(request.budget_s, request.max_builds, request.max_probes, before=dict(before))

    def check(self, tally: Mapping[str, int], next_step: str, *, builds: bool) -> None:
        """Raises OutOfBudget where nothing is left for `next_step`, a reader's words for what would come next.

        `tally` counts what was done, `builds` tells whether the next step needs a build that was not made yet.
        """
        used = ""
        if self.seconds and time.monotonic() - self.began >= self.seconds:
            used = f"{self.seconds:g} s"
        elif self.builds and builds and self._done(tally, "builds") >= self.builds:
            used = counted(self.builds, "build")
        elif self.probes and self._done(tally, "probes") >= self.probes:
            used = counted(self.probes, "probe")
        if used:
            raise OutOfBudget(f"the budget of {used} is used up; next would be {next_step}", next_step)

    def _done(self, tally: Mapping[str, int], name: str) -> int:
        return tally.get(name, 0) - self.before.get(name, 0)


def seconds_of(text: str) -> float:
    """Seconds of a duration as it is typed: `90`, `45s`, `30m`, `8h`, `2d`. Raises UsageError."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not float(found[1]):
        raise UsageError(f"{text!r} is no duration", "For example: 30m, 8h, 2d.")
    return float(found[1]) * _UNITS[found[2] or ""]
