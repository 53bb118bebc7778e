"""Under which key a verdict is recalled: everything that may change it, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from bisect_bot.model import Case
from bisect_bot.probes import Probe
from bisect_bot.verdicts import JUDGE_VERSION


def probe_keys(probe: Probe, tolerances: str) -> tuple[str, ...]:
    """One key per case of `probe.cases`. `tolerances` is a digest of the rules that outputs are compared by.

    Cases that share a page can influence each other (some bugs need just that), so a case's key names all
    cases of its page and their order; with `isolate` it names the case alone.
    """
    shared = {
        "artifact": probe.artifact.digest,
        "bundle": probe.bundle.file,
        "target": probe.target.fingerprint,
        "backend": probe.backend,
        "limit": probe.limits.case_s,
        "judge": JUDGE_VERSION,
        "tolerances": tolerances,
    }
    page = _page(probe.cases)
    return tuple(
        _digest({**shared, "page": _page((case,)) if probe.isolate else page, "index": 0 if probe.isolate else index})
        for index, case in enumerate(probe.cases)
    )


def _page(cases: Sequence[Case]) -> list[str]:
    return [case.digest for case in cases]


def _digest(parts: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
