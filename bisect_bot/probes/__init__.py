"""(artifact, target, cases) -> observations. What came back is not judged here."""

from bisect_bot.probes.adapter import choose_target, plain_target
from bisect_bot.probes.probe import run_probe
from bisect_bot.probes.types import HARNESS_VERSION, Limits, Probe

__all__ = ["HARNESS_VERSION", "Limits", "Probe", "choose_target", "plain_target", "run_probe"]
