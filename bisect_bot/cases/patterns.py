"""Patterns that the shell did not expand: quoted ones, and all of them on Windows."""

from __future__ import annotations

import glob
import itertools
import os
from pathlib import Path

from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError

MAX_MATCHES = 10_000


def expand(text: str) -> tuple[str, ...]:
    """What the pattern `text` (`*`, `?`, `[…]`, `**`) matches, sorted; any other text itself.

    What follows a `#` belongs to each match. A text that names something that exists is no pattern, nor is `REV:path`.
    Raises CaseError when nothing matches, or too much.
    """
    pattern, sign, rest = text.partition("#")
    if not glob.has_magic(pattern):
        return (text,)
    try:
        if os.path.lexists(text):
            return (text,)
        # Not Path.glob, which finds hidden files and refuses absolute patterns.
        matches = glob.iglob(str(Path(pattern).expanduser()), recursive=True)  # noqa: PTH207
        found = sorted(itertools.islice(matches, MAX_MATCHES + 1))
    except (OSError, ValueError, RuntimeError) as error:
        raise CaseError(f"{one_line(text)} is no pattern: {one_line(error)}") from error
    if not found and ":" in pattern:
        return (text,)
    if not found:
        raise CaseError(f"nothing matches the pattern {one_line(text)}", "it is relative to the folder you are in")
    if len(found) > MAX_MATCHES:
        raise CaseError(f"the pattern {one_line(text)} matches more than {MAX_MATCHES} files", "narrow it")
    return tuple(f"{match}{sign}{rest}" for match in found)
