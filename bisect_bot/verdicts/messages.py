"""Error messages made comparable: the same failure reads the same in every build."""

from __future__ import annotations

import re

MAX_INPUT = 4_000
"""Characters that are looked at; what a message says stands at its beginning."""
MAX_SIGNATURE = 300

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
_STACK_LINE = re.compile(r"^\s*(?:at\s.*[:(]|[\w$.<>/]*@\S+:\d+)")

# What differs between builds though the failure is the same -> what stands for it. Applied in this order.
_CHANGING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # "failed to call OrtRun(). ERROR_CODE: 1, ERROR_MESSAGE: …": a frame around the message since 4f7900b553.
        (r"^.{0,80}?ERROR_CODE: ?\d+, ?ERROR_MESSAGE: ", ""),
        (r"^(?:Uncaught )?(?:\(in promise\) )?Error: ", ""),
        (r"\[ONNXRuntimeError\] : \d+ : ", ""),
        (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?", "<time>"),
        (r"\b(?:blob:)?(?:https?|file|wasm|data)://?[^\s)'\"]+", "<url>"),
        # "/path/graph.cc:1234 common::Status onnxruntime::Graph::Resolve(const T &) const": where it was thrown.
        (
            r"\S+\.(?:cc|cpp|cxx|h|hpp):\d+,? (?:[^()\n]{0,300}[\w>]\([^()]*(?:\([^()]*\)[^()]*)*\)(?: const)? )?",
            "<source> ",
        ),
        # Optimisers rename nodes; the operator's type beside it says enough.
        (r"\b([Nn])(ame|ode):'[^']*'", r"\1\2:<name>"),
        (r'Kernel "\[(\w+)\] [^"]*" failed', r'Kernel "[\1]" failed'),
        (r"(?:[A-Za-z]:)?(?:[\\/][\w.+@~-]+){2,}", "<path>"),
        (r"\b[\w$-]+\.(?:mjs|js|wasm|ts)\b(?::\d+)*", "<file>"),
        (r"\bv?\d+\.\d+\.\d+(?:[-+.]?(?:dev|rc|alpha|beta)[\w.-]*)?\b", "<version>"),
        (r"\b0x[0-9a-fA-F]+\b", "<hex>"),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}(?:-[0-9a-f]{4,})*\b", "<hex>"),
        # Names in a minified bundle are new in every build.
        (r"(?<![\w$.])[\w$]+(?:\.[\w$]+)*\.([\w$]{3,}) is not a function", r"<name>.\1 is not a function"),
        (
            r"(?<![\w$.])[\w$]{1,3}(?:\.[\w$]{1,2})* is not (a function|defined|iterable|a constructor)",
            r"<name> is not \1",
        ),
        (r"\((reading|setting) '[\w$]{1,2}'\)", r"(\1 <name>)"),
        # Numbers that are part of a word (Conv2d, float16, int64) stay.
        (r"(?<![A-Za-z0-9])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?=(?:ms|us|s|ns|[KMG]i?B)?\b)", "<n>"),
        (r"_\d+(?![A-Za-z])", "_<n>"),
    )
)


def one_line(text: str, limit: int = MAX_SIGNATURE) -> str:
    """`text` on one line without what cannot be printed and without the lines of a stack trace, cut to `limit`."""
    visible = _ESCAPE_SEQUENCE.sub("", text[:MAX_INPUT])
    lines = [line for line in visible.splitlines() if not _STACK_LINE.match(line)]
    spaced = "".join(" " if c.isspace() else c for c in " ".join(lines))
    line = " ".join("".join(c for c in spaced if c.isprintable()).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def normalise(text: str) -> str:
    """`text` without what differs between builds: times, addresses, places, paths, URLs, versions, counts.

    The operator's type and the words stay. At most `MAX_SIGNATURE` characters on one line.
    """
    line = one_line(text, limit=MAX_INPUT)
    for pattern, replacement in _CHANGING:
        line = pattern.sub(replacement, line)
    return one_line(line)


def normalise_gpu_error(text: str) -> str:
    """As `normalise`, of the first line only: what follows quotes the generated shader or the call's arguments."""
    lines = (line for line in text[:MAX_INPUT].splitlines() if line.strip())
    return normalise(next(lines, ""))
