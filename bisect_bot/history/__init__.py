"""Puts revisions in order: which there are, what a typed name means, what lies between two of them.

Pure but for `ancestry`, which reads a clone and is imported where one is given.
"""

from bisect_bot.history.known import load as load_ancestry
from bisect_bot.history.published import Line, is_older, line, order_revisions, resolve

__all__ = ["Line", "is_older", "line", "load_ancestry", "order_revisions", "resolve"]
