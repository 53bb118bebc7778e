"""The smoke case: what it is run with before a build is believed, and what its verdicts mean for the cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bisect_bot.model import Outcome, Verdict
from bisect_bot.probes import Probe

_LACKING = "the browser lacks "


def smoke_backends(probe: Probe) -> tuple[str, ...]:
    """What the smoke case is run with before a build is believed: wasm, where the bundle has it, and what is tested.

    A build whose WebAssembly does not fit its JavaScript fails on wasm too, whatever is wrong with the GPU. The last
    one is what is tested, or wasm on a target without an adapter, where a script may still run.
    """
    wished = dict.fromkeys(b for b in ("wasm", probe.backend) if b == probe.backend or b in probe.bundle.backends)
    able = tuple(b for b in wished if b != "webgpu" or probe.target.adapter is not None)
    return able or (probe.backend,)


def worst_smoke(verdicts: Mapping[str, Verdict]) -> Verdict | None:
    """What the smoke case's verdicts by backend say together, None when one of them was not answered."""
    if any(verdict.outcome is Outcome.INFRA for verdict in verdicts.values()):
        return None
    failed = {backend: verdict for backend, verdict in verdicts.items() if verdict.outcome is not Outcome.GOOD}
    for backend, verdict in failed.items():
        return replace(verdict, reason=f"on {backend}: {verdict.reason}")
    return next(iter(verdicts.values()))


def after_smoke(smoked: Verdict | None, verdict: Verdict) -> Verdict:
    """A case's verdict, seen together with the smoke case's: a build that cannot add two tensors cannot answer."""
    if smoked is None:
        return Verdict(Outcome.INFRA, "the smoke case was not answered")
    if smoked.outcome is Outcome.GOOD:
        return verdict
    return Verdict(Outcome.SKIP, f"does not run here: the smoke case is {smoked.outcome}: {smoked.reason}")


def may_be_misfit(smoked: Verdict | None) -> bool:
    """Whether a build may fail the smoke case for the parts that it was put together from.

    What the browser lacks, as rules of configs/verdicts.toml say, it lacks for other parts of the revision too.
    """
    return smoked is not None and smoked.outcome is not Outcome.GOOD and _LACKING not in smoked.reason


def parts_do_not_fit(verdict: Verdict, lent: str) -> Verdict:
    """A verdict of a build that does not run, with the WebAssembly of the published build `lent` in it."""
    return Verdict(Outcome.SKIP, f"parts do not fit: with the WebAssembly of {lent} it {verdict.reason}")
