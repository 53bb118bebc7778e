"""Verdicts: what an observation says of its revision. Pure, but for the two functions that load configuration.

`judge` is the entry; `load_tolerances` and `load_rules` read what it needs from `configs/`.
"""

from bisect_bot.verdicts.judge import JUDGE_VERSION, judge
from bisect_bot.verdicts.rules import Rule, Rules, load_rules
from bisect_bot.verdicts.tolerance import Tolerance, Tolerances, load_tolerances

__all__ = ["JUDGE_VERSION", "Rule", "Rules", "Tolerance", "Tolerances", "judge", "load_rules", "load_tolerances"]
