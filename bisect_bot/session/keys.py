"""Under which key a verdict is recalled: everything that may change it, and nothing else."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable

from bisect_bot.model import Case, Plan
from bisect_bot.probes import HARNESS_VERSION, Probe
from bisect_bot.verdicts import JUDGE_VERSION


def probe_keys(probe: Probe, tolerances: str) -> tuple[str, ...]:
    """One key per case of `probe.cases`. `tolerances` is a digest of the rules that outputs are compared by.

    Cases that share a page can influence each other (some bugs need just that), so a case's key names all
    cases of its page and their order; with `isolate` it names the case alone. The plan belongs to what was run.
    """
    shared = {
        "artifact": probe.artifact.digest,
        "bundle": probe.bundle.file,
        "target": probe.target.fingerprint,
        "backend": probe.backend,
        "limit": probe.limits.case_s,
        "judge": JUDGE_VERSION,
        "harness": HARNESS_VERSION,
        "tolerances": tolerances,
        "plan": _plan(probe.plan),
    }
    return tuple(
        _digest({**shared, "page": [case.digest for case in page], "index": index})
        for page in _pages(probe)
        for index in range(len(page))
    )


def _pages(probe: Probe) -> Iterable[list[Case]]:
    """The cases by the page that they share."""
    if probe.isolate:
        return ([case] for case in probe.cases)
    return (list(cases) for _, cases in itertools.groupby(probe.cases, key=lambda case: case.page))


def _plan(plan: Plan) -> list[object]:
    between = plan.between.digest if plan.between else None
    return [plan.runs, plan.recreate, plan.sessions, plan.fresh_pages, between]


def _digest(parts: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
