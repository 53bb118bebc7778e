"""JSON with comments, as upstream writes its op manifests and test lists.

Read in the two steps of upstream's own reader (js/web/script/test-runner-cli.ts): comments become blanks of the same
length, then an ordinary JSON parser does the rest. So errors name the line that the user sees, and what JSON5 allows
beyond JSON (and upstream would refuse) is an error here too. Trailing commas, which editors let through, are blanked
as well.
"""

from __future__ import annotations

import json
import re

from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError

MAX_BYTES = 8 * 2**20
"""Upstream's largest manifest is 2.3 MB. What is parsed takes up to 25 times this much memory."""
MAX_DEPTH = 64
"""Manifests nest 8 deep."""

# Possessive, and with the end of the text as an end of its own: each character is looked at once, whatever is missing.
_STRING = r'"(?:[^"\\\n]++|\\(?:.|\Z))*+(?:"|(?=\n)|\Z)'
_COMMENTS = re.compile(rf"({_STRING})|//[^\n]*+|/\*(?s:.*?(?:\*/|\Z))", re.DOTALL)
_COMMAS = re.compile(rf"({_STRING})|,(?=[ \t\r\n]*+[\]}}])", re.DOTALL)
_BRACKETS = re.compile(rf"{_STRING}|([\[{{])|([\]}}])", re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\n]")


def parse_jsonc(content: bytes, where: str) -> object:
    """What the UTF-8 text `content` means: dicts, lists, strings, numbers, booleans and None.

    `where` names it in errors. `NaN` and `Infinity` are read as numbers. Raises CaseError with the line for anything
    else that is not JSON with comments, for more than `MAX_BYTES` and for nesting deeper than `MAX_DEPTH`; nothing
    else.
    """
    label = one_line(where)
    if len(content) > MAX_BYTES:
        raise CaseError(f"{label} is larger than {MAX_BYTES // 2**20} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CaseError(f"{label}, line {line}: it is not UTF-8 text", "is it a JSON file?") from error
    plain = _COMMAS.sub(lambda found: found[1] or " ", _COMMENTS.sub(_blanked, text))
    _check_depth(plain, label)
    try:
        return json.loads(plain)
    except json.JSONDecodeError as error:
        raise CaseError(f"{label}, line {error.lineno}, column {error.colno}: {one_line(error.msg)}") from error
    # A number of more digits than Python reads.
    except ValueError as error:
        raise CaseError(f"{label}: {one_line(error)}") from error


def _blanked(found: re.Match[str]) -> str:
    return found[1] or _NOT_NEWLINE.sub(" ", found[0])


def _check_depth(text: str, label: str) -> None:
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += bool(found[1]) - bool(found[2])
        if depth > MAX_DEPTH:
            line = text.count("\n", 0, found.start()) + 1
            raise CaseError(f"{label}, line {line}: it nests deeper than {MAX_DEPTH}")
