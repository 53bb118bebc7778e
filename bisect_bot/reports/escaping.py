r"""Text from outside (messages of browsers, names of cases, titles of commits) made harmless, by medium.

Whatever the medium, a control character never gets through: an error message must not move the reader's
cursor, swap the order of a line or hide a word. It is shown as `\xNN`, `\uNNNN` or `\UNNNNNNNN`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from rich.text import Text

# Cc: C0, DEL, C1. Cf: bidi overrides, zero-width characters, soft hyphen, tags. Cs: halves of characters, which
# UTF-8 cannot encode. Zl, Zp: line ends that only some programs see.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Letters and marks by category, yet drawn as nothing: the joiner and the Hangul fillers.
_HIDDEN_LETTERS = frozenset("\u034f\u115f\u1160\u3164\uffa0")

# Entities rather than backslashes where GitHub looks at the source before Markdown does (tables, math) or where
# a backslash would not be enough (tags).
_MARKDOWN = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "|": "&#124;",
        "`": "&#96;",
        "$": "&#36;",
        "\\": "\\\\",
        "*": "\\*",
        "[": "\\[",
        "]": "\\]",
        "~": "\\~",
    }
)
_EDGE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # inside a word it is no emphasis
_BLOCK_START = re.compile(r"^(?:[-+=:]|#{1,6}(?= |$)|\d{1,9}(?=[.)](?: |$)))")
_URL = re.compile(r"(?<=[A-Za-z])://|(?<=www)\.", re.IGNORECASE)
# GitHub looks for mentions and references in the rendered text, so that no escape helps: only code is left alone.
# Neighbours go into one span, and the `#` after an `&` is that of an entity made here.
_REFERENCE = re.compile(r"(?:@[A-Za-z0-9][\w-]*|(?<!&)#\d+)+")


def visible(text: str, keep: str = "") -> str:
    """`text` with every control or invisible character shown as its escape, except those in `keep`."""
    if text.isascii() and text.isprintable():
        return text  # nearly all text: reports hold a great many short ones
    return "".join(c if c in keep or not _hidden(c) else _escape(c) for c in text)


def line(text: str) -> str:
    """`text` as one line: runs of blanks and line ends become one space, other control characters visible."""
    return visible(re.sub(r"[ \t\r\n]+", " ", text).strip(" "))


def shorten(text: str, limit: int) -> str:
    """`text`, or its first `limit` - 1 characters and an ellipsis. To be applied before any escaping."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def markdown(text: str) -> str:
    """`text` as inline GitHub-flavoured Markdown that renders as itself, also at the start of a block and in a table.

    No tags, emphasis, links, references (`#1`) or mentions come of it.
    """
    escaped = _EDGE_UNDERSCORE.sub(r"\_", line(text).translate(_MARKDOWN))
    escaped = _URL.sub(lambda m: f"&#{ord(m[0][0])};{m[0][1:]}", escaped)
    escaped = _BLOCK_START.sub(lambda m: f"{m[0]}\\" if m[0][0].isdigit() else f"\\{m[0]}", escaped)
    return _REFERENCE.sub(r"`\g<0>`", escaped)


def code_span(text: str) -> str:
    """`text` as a Markdown code span on one line; nothing for an empty text."""
    shown = line(text)
    if not shown:
        return ""
    ticks = "`" * (_longest_run(shown) + 1)
    # Markdown takes one space off both sides, so that a backtick can stand there.
    gap = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}"


def code_block(text: str, info: str = "") -> str:
    """`text` as a fenced Markdown code block with the language `info`; line ends are kept."""
    shown = visible(text.replace("\r\n", "\n"), keep="\n").rstrip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{info}\n{shown}\n{fence}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A GitHub-flavoured Markdown table. Cells are inline Markdown, as `markdown` and `code_span` make it.

    Raises ValueError for a row with another number of cells than the header.
    """
    lines = [_row(header), _row(["---"] * len(header))]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(header)} columns")
        lines.append(_row(row))
    return "\n".join(lines)


def terminal(text: str, style: str = "") -> Text:
    """`text` as one line for a terminal: a value that rich never reads as markup, also in titles and cells."""
    return Text(line(text), style=style)


def _row(cells: Sequence[str]) -> str:
    # Only code spans still hold a pipe here; a table wants a backslash before it even in code.
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _HIDDEN_LETTERS


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
