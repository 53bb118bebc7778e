"""What a probe is: some cases, in order, with one artifact in one browser, on one backend."""

from __future__ import annotations

from dataclasses import dataclass

from bisect_bot.model import Artifact, Bundle, Case, Ending, Observation, Target


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds: for one case (loading included), and for the whole probe."""

    case_s: float = 60.0
    probe_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What to run: the smoke case, if any, in a page of its own, and then the cases.

    With `isolate`, each case gets a page of its own; else they share one until a case fails.
    """

    artifact: Artifact
    bundle: Bundle
    target: Target
    backend: str
    cases: tuple[Case, ...]
    smoke: Case | None = None
    isolate: bool = False
    limits: Limits = Limits()

    @property
    def in_order(self) -> tuple[Case, ...]:
        """All that is run, the smoke case first."""
        return (self.smoke, *self.cases) if self.smoke else self.cases

    def needs_fresh_page(self, seen: Observation, index: int) -> bool:
        """Whether the page is of no more use after `seen`: one failed kernel makes all later calls fail."""
        failed = seen.ending != Ending.COMPLETED or bool(seen.gpu_errors)
        return failed or self.isolate or (self.smoke is not None and index == 0)
