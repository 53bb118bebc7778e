"""What is said of a case that this machine could not answer."""

from __future__ import annotations

from bisect_bot.errors import MachineError, NoAdapter
from bisect_bot.model import Adapter, Ending, Observation, Verdict
from bisect_bot.targets.facts import in_the_way
from bisect_bot.targets.obstacles import NEWER_BROWSER, Lacks, advice_of, because

_NO_ADAPTER = (Ending.NO_ADAPTER, Ending.WRONG_ADAPTER)


def unanswered(
    asked: str, observation: Observation, verdict: Verdict, adapter: Adapter | None, tries: int
) -> MachineError:
    """The error for what was `asked` (a revision and a case) after the last of `tries`.

    NoAdapter where the GPU was not to be had; then it tells what is in the way of a hardware `adapter`.
    """
    problem = f"{asked} could not be answered here ({tries} tries): {verdict.reason}"
    if observation.ending is Ending.NO_WEBGPU:
        return NoAdapter(problem, NEWER_BROWSER)
    if observation.ending in _NO_ADAPTER:
        found = in_the_way(Lacks.GPU) if adapter is not None and not adapter.software else ()
        advice = f"{advice_of(found)} Does the browser still have the adapter? See chrome://gpu.".lstrip()
        return NoAdapter(problem + because(found), advice)
    return MachineError(
        problem, "See what else keeps this machine busy (or raise --probe-timeout), then: bisect-bot resume"
    )
