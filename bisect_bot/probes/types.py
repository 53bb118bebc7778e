"""What a probe is: some cases, in order, with one artifact in one browser, on one backend."""

from __future__ import annotations

from dataclasses import dataclass, field

from bisect_bot.model import Artifact, Bundle, Case, CaseKind, Ending, Observation, Plan, Target

HARNESS_VERSION = 3
"""Goes up when the same build may be observed to do something else than before, so that a stored verdict is not
reused."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds: for one case, loading included (of a plan: each step), and for the whole probe."""

    case_s: float = 60.0
    probe_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What to run: the smoke case, if any, in a page of its own for each of `smoke_backends`, and then the cases.

    With `isolate`, each case gets a page of its own; else those of one `Case.page` share one until a case fails. A
    script never shares one.
    `plan` says how often each case is run; the smoke case is run once. For each of its `fresh_pages` all cases follow
    once more.
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
        """All that is run: the smoke case once for each of its backends, the cases, and these again in fresh pages."""
        return (*(self.smoke for _ in range(self.smokes) if self.smoke), *self.cases * (1 + self.plan.fresh_pages))

    @property
    def smokes(self) -> int:
        """How many of `in_order` are the smoke case."""
        return len(self.smoke_backends) if self.smoke else 0

    def backend_of(self, index: int) -> str:
        """The execution provider that the case at `index` of `in_order` is run with."""
        return self.smoke_backends[index] if index < self.smokes else self.backend

    def plan_of(self, index: int) -> Plan:
        """How often, in one page, the case at `index` of `in_order` is run."""
        return Plan() if index < self.smokes else self.plan

    def first_of(self, index: int) -> int:
        """The index of `in_order` at which the case at `index` is run for the first time."""
        return index if index < self.smokes else self.smokes + (index - self.smokes) % len(self.cases)

    def shares_page(self, index: int) -> bool:
        """Whether the case at `index` of `in_order` may run in the page of the case before it."""
        if self.isolate or index <= self.smokes or self.first_of(index) == self.smokes:
            return False
        before, case = self.in_order[index - 1], self.in_order[index]
        return case.page == before.page and CaseKind.SCRIPT not in (case.kind, before.kind)

    def turns(self, first: int) -> range:
        """The indices of `in_order` at which the case that is first run at `first` is run, page by page."""
        return range(first, first + 1) if first < self.smokes else range(first, len(self.in_order), len(self.cases))

    def needs_fresh_page(self, seen: Observation, index: int, after: int) -> bool:
        """Whether the page in which `seen` was observed at `index` of `in_order` is of no use for that at `after`.

        One failed kernel makes all later calls fail.
        """
        failed = seen.ending != Ending.COMPLETED or bool(seen.gpu_errors)
        between = range(index + 1, min(after + 1, len(self.in_order)))
        return failed or not all(self.shares_page(each) for each in between)
