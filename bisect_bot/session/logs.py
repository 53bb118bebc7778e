"""What of an observation's messages goes into a report."""

from __future__ import annotations

from bisect_bot.model import Observation, Outcome, Verdict

LINES = 20
CHARACTERS = 500


def last_lines(observation: Observation, verdict: Verdict) -> tuple[str, ...]:
    """The last messages of the page, the GPU and the console, each cut; none of a good run, which they would bury.

    The text is as hostile as it came.
    """
    if verdict.outcome is Outcome.GOOD:
        return ()
    errors = [f"{error.stage.value}: {error.message}" for error in observation.errors]
    stacks = [error.stack for error in observation.errors if error.stack]
    gpu = [f"GPU: {text}" for text in observation.gpu_errors]
    said = [*observation.console, *stacks, *gpu, *errors]
    return tuple(text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…" for text in said[-LINES:])
