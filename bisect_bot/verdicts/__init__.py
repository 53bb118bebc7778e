"""Verdicts: what an observation says of its revision. Pure, but for the two functions that load configuration.

`judge` is the entry; `load_tolerances` and `load_rules` read what it needs from `configs/`, `parse_demands` what a
user asks beyond right values.
"""

from bisect_bot.verdicts.compare import compare, difference
from bisect_bot.verdicts.demands import Facts, check_demands, narrowed, parse_demands
from bisect_bot.verdicts.judge import JUDGE_VERSION, judge
from bisect_bot.verdicts.rules import KernelFailure, Provider, Rule, Rules, load_rules
from bisect_bot.verdicts.tolerance import Tolerance, Tolerances, load_tolerances

__all__ = [
    "JUDGE_VERSION",
    "Facts",
    "KernelFailure",
    "Provider",
    "Rule",
    "Rules",
    "Tolerance",
    "Tolerances",
    "check_demands",
    "compare",
    "difference",
    "judge",
    "load_rules",
    "load_tolerances",
    "narrowed",
    "parse_demands",
]
