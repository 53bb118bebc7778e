"""The source beside an error: what a browser does not read is named by its own text, not by a line's number."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from bisect_bot.model import Ending
from bisect_bot.probes.upstream.output import UNREAD, Output

# karma names scripts as its configuration does: relative to js/web.
_PLACE = re.compile(r"^\s+at (?P<file>(?:dist|test)/[\w.-]+):(?P<line>\d+):(?P<column>\d+)\s*$")
_WIDE = 80


def with_source(output: Output, web: Path) -> Output:
    """`output` with the text that a SyntaxError is about in its problem, if it is one of a script below `web`."""
    if output.problem is None or not output.problem[1].startswith(UNREAD):
        return output
    line = output.problem[1]
    pairs = zip(output.lines, output.lines[1:], strict=False)
    place = next((_PLACE.match(after) for before, after in pairs if before.strip() == line), None)
    if place is None:
        return output
    text = _text(web / place["file"], int(place["line"]), int(place["column"]))
    return replace(output, problem=(Ending.ERROR, f"{line} in {place['file']}: {text}")) if text else output


def _text(script: Path, number: int, column: int) -> str:
    """What stands around `column` of the line `number` (both from 1) of `script`; empty where it cannot be read."""
    try:
        with script.open(encoding="utf-8", errors="replace") as lines:
            line = next((each for n, each in enumerate(lines, 1) if n == number), "")
    except OSError:
        return ""
    begin = max(0, column - _WIDE // 2)
    return line[begin : begin + _WIDE].strip()
