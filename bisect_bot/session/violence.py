"""Endings that may be the machine's fault as well as the case's: believed when they repeat."""

from __future__ import annotations

from bisect_bot.model import Case, Ending, Failure, Observation, Outcome, Signature, Verdict

# How often a violent ending must come before it is the case's own.
REPEATS = 2
VIOLENT = (Ending.CRASH, Ending.HANG, Ending.BROWSER_GONE)
# How web/gpu.js begins its line about a device that was lost for another reason than its own destroy().
DEVICE_LOST = "device lost"


def violence_of(observation: Observation) -> str | None:
    """The kind of an ending that may be the machine's fault as well as the case's; None for any other."""
    if observation.ending in VIOLENT:
        return observation.ending.value
    return DEVICE_LOST if any(text.startswith(DEVICE_LOST) for text in observation.gpu_errors) else None


def if_repeated(verdict: Verdict, case: Case, times: int) -> Verdict:
    """What a crash, a hang, a lost device or the end of the browser means when it happened in `times` of the tries.

    Once, it may be the machine's fault (a busy GPU, another program's memory); when it repeats with the case, it
    is how the case fails.
    """
    if times < REPEATS:
        return Verdict(Outcome.INFRA, f"{verdict.reason} (once)")
    if verdict.outcome is not Outcome.INFRA:
        return verdict
    signature = Signature(Failure.CRASH, case.name, "the browser ended")
    return Verdict(Outcome.BAD, f"the browser ended {times} times: {verdict.reason}", signature)
