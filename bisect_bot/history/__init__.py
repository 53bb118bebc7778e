"""Puts revisions in order: which there are, what a typed name means, what lies between two of them.

Pure but for what reads a clone and is imported where one is given: `clone` (opens it, looks up what was typed),
`commits` (plans a range), `ancestry` (places published builds).
"""

from bisect_bot.history.known import load as load_ancestry
from bisect_bot.history.published import Line, is_older, line, order_revisions, resolve

__all__ = ["Line", "is_older", "line", "load_ancestry", "order_revisions", "resolve"]
