"""Text that comes from a user's files, made fit for one line of a terminal, a report and a file name."""

from __future__ import annotations

import re
import unicodedata

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def one_line(text: object, limit: int = 300) -> str:
    """`str(text)` on one line without control characters, cut to `limit` characters."""
    visible = _ESCAPE_SEQUENCE.sub("", str(text))
    spaced = "".join(" " if c.isspace() else c for c in visible)
    words = "".join(c for c in spaced if unicodedata.category(c) not in _UNPRINTABLE).split()
    line = " ".join(words)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
