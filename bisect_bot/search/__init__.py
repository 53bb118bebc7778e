"""Decides what to test next, and when enough is known: `next_action` is the interface.

Pure: what was observed goes in, the next test or the conclusion comes out. Nobody outside may depend on
*how* the next index is chosen.
"""

from bisect_bot.search.bisection import best_gap, next_action
from bisect_bot.search.types import Conclusion, Evidence, Purpose, Test

__all__ = ["Conclusion", "Evidence", "Purpose", "Test", "best_gap", "next_action"]
