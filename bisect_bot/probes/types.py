"""What a probe is: some cases, in order, with one artifact in one browser, on one backend."""

from __future__ import annotations

from dataclasses import dataclass, field

from bisect_bot.model import Artifact, Bundle, Case, Ending, Observation, Plan, Target


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds: for one case (loading included), and for the whole probe."""

    case_s: float = 60.0
    probe_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What to run: the smoke case, if any, in a page of its own for each of `smoke_backends`, and then the cases.

    With `isolate`, each case gets a page of its own; else those of one `Case.page` share one until a case fails.
    `plan` says how often each case is run; the smoke case is run once.
    """

    artifact: Artifact
    bundle: Bundle
    target: Target
    backend: str
    cases: tuple[Case, ...]
    smoke: Case | None = None
    smoke_backends: tuple[str, ...] = ()
    isolate: bool = False
    limits: Limits = Limits()
    plan: Plan = field(default_factory=Plan)

    @property
    def in_order(self) -> tuple[Case, ...]:
        """All that is run, the smoke case first, once for each of its backends."""
        return (*(self.smoke for _ in self.smoke_backends if self.smoke), *self.cases)

    @property
    def smokes(self) -> int:
        """How many of `in_order` are the smoke case."""
        return len(self.in_order) - len(self.cases)

    def backend_of(self, index: int) -> str:
        """The execution provider that the case at `index` of `in_order` is run with."""
        return self.smoke_backends[index] if index < self.smokes else self.backend

    def shares_page(self, index: int) -> bool:
        """Whether the case at `index` of `in_order` may run in the page of the case before it."""
        if self.isolate or index <= self.smokes:
            return False
        return self.in_order[index].page == self.in_order[index - 1].page

    def needs_fresh_page(self, seen: Observation, index: int) -> bool:
        """Whether the page is of no more use after `seen`: one failed kernel makes all later calls fail."""
        failed = seen.ending != Ending.COMPLETED or bool(seen.gpu_errors)
        after = index + 1
        return failed or (after < len(self.in_order) and not self.shares_page(after))
