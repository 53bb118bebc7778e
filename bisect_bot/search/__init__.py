"""Decides what to test next, and when enough is known: `next_action` and, for many cases, `next_together`.

Pure: what was observed goes in, the next test or the conclusion comes out. Nobody outside may depend on
*how* the next index is chosen.
"""

from bisect_bot.search.bisection import best_gap, next_action, suspects
from bisect_bot.search.gains import halvings
from bisect_bot.search.together import Group, groups, next_together
from bisect_bot.search.types import Aim, Conclusion, Evidence, Prices, Purpose, Test, Weights

__all__ = [
    "Aim",
    "Conclusion",
    "Evidence",
    "Group",
    "Prices",
    "Purpose",
    "Test",
    "Weights",
    "best_gap",
    "groups",
    "halvings",
    "next_action",
    "next_together",
    "suspects",
]
