"""What upstream's test runner prints (karma with karma-mocha-reporter), read back test by test.

The reporter is the same since 4ebc9c3b5e (2021-04-27). What the tests print about wrong outputs has its words since
then too; since e0ba4bd6f6 or so of 2025 a mismatch is a plain `Error` where it was chai's `AssertionError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bisect_bot.model import Ending

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# karma-mocha-reporter's symbols; the second of each is what it writes on Windows.
_PASSED, _FAILED = "✔√", "✖×"
_RESULT = re.compile(
    rf"^\s*(?P<mark>[{_PASSED}{_FAILED}]) (?P<hook>\"(?:before|after) (?:all|each)\" hook)?.*?"
    r"set-(?P<test>\d+)-(?P<set>\d+)\b"
)
_CONSOLE = re.compile(r"^(?:LOG|ERROR|WARN|INFO|DEBUG): '?")
_LOGGER = re.compile(r"^\w* ?\w+ \d{4}-\d\d-\d\dT[\d:.]+Z\|")
_STACK = re.compile(r"^\s+at\s")
# Of wrong values, js/web/test/test-runner.ts prints the first element (not of integers), then the whole output.
_ELEMENT = re.compile(r"^(?:abs/rel check failed|a or b is)")
_OUTPUT = "Tensor mismatch:"
# js/web/lib/wasm/jsep/backend-webgpu.ts, since 14cc02c65c (2023-04-24).
_UNCAUGHT = "An uncaught WebGPU validation error was raised:"
_WRONG = re.compile(r"^(?:Assertion)?Error: tensor data should match\b")
_SUMMARY, _FAILURES = "SUMMARY:", "FAILED TESTS:"
_KARMA = "Running karma"
_NO_START = ": Cannot start "
# Where Electron's script fails, the exception stands below its place.
_EXCEPTION = re.compile(r"^\w*Error: ")
_COMPLAINT_LINES = 12
UNREAD = "Uncaught SyntaxError: "
"""How a problem begins that is a script which the browser cannot read."""
_CONNECTED = "Connected on socket"
# Mocha's words for a thrown value that is no Error: C++ exceptions come as the number of their address.
_THROWN = re.compile(r"^(?:Error: )?the (?:number|string) (?P<what>.+) was thrown, throw an Error :\)$", re.DOTALL)

# Lines of karma 6's own log (lib/browser.js, lib/launchers/*.js; its version is the same since 2023), and how its
# reporter prints what a script threw while it was loaded. The first that is there decides.
_LOG = r":(?:ERROR|WARN) \[[^\]]+\]: "
_PROBLEMS = (
    (re.compile(rf"{_LOG}Disconnected \(\d+ times\).*no message in \d+ ms"), Ending.HANG),
    (re.compile(rf"{_LOG}Disconnected \(\d+ times\)"), Ending.CRASH),
    (
        re.compile(rf"{_LOG}(?:Cannot start \w+|\w+ crashed\.|\w+ failed \d+ times|\w+ has not captured in \d+ ms)"),
        Ending.BROWSER_GONE,
    ),
    (re.compile(r"^  Uncaught \S"), Ending.ERROR),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the runner: data set `data_set` of test `test` passed, failed, or its `hook` (before, after) did.

    `message` and `stack` are the exception's, `said` what the page printed since the result before, as far as the
    order of both is right: karma holds results back until its WebSocket is there. `wrong` are the messages about wrong
    values, which belong to this result whatever was held back.
    """

    test: int
    data_set: int
    passed: bool
    hook: str = ""
    message: str = ""
    stack: str = ""
    said: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """All that a run of the runner said.

    `started` tells whether it came to start a browser, `connected` whether that answered. `problem` is how the run
    as a whole went wrong, with the line that says so; `gpu_errors` are those that the page told of, in whatever test.
    `lines` is the whole text, without colours.
    """

    results: tuple[Result, ...]
    started: bool
    connected: bool
    problem: tuple[Ending, str] | None
    gpu_errors: tuple[str, ...]
    lines: tuple[str, ...]

    def of(self, test: int) -> tuple[Result, ...]:
        """The results of one test, in order."""
        return tuple(result for result in self.results if result.test == test)

    def last(self, count: int) -> tuple[str, ...]:
        """The last lines that say something."""
        return tuple(line.rstrip() for line in self.lines if line.strip() and line.strip() != "undefined")[-count:]


def parse_output(text: str) -> Output:
    """What `text`, all that the runner printed so far, says. Takes any text."""
    lines = tuple(_ANSI.sub("", text).splitlines())
    end = next((n for n, line in enumerate(lines) if line.strip() == _SUMMARY), len(lines))
    failures = next((n for n, line in enumerate(lines) if line.strip() == _FAILURES), len(lines))
    thrown = dict(_thrown(lines[failures + 1 :]))
    said = tuple(_console([line for line in lines[:end] if not _RESULT.match(line)]))
    results = _with_values([_with(result, thrown) for result in _results(lines[:end])], said)
    started = any(_KARMA in line for line in lines)
    connected = any(_CONNECTED in line for line in lines)
    uncaught = (message.removeprefix(_UNCAUGHT).strip() for message in said if message.startswith(_UNCAUGHT))
    # As our own page calls them.
    gpu_errors = tuple(f"GPUValidationError: {message}" for message in uncaught)
    return Output(results, started, connected, _problem(lines[:end]), gpu_errors, lines)


_Key = tuple[int, int, str]


def _results(lines: Sequence[str]) -> Iterator[Result]:
    said: list[str] = []
    for line in lines:
        found = _RESULT.match(line)
        if found is None:
            said.append(line)
            continue
        passed = found["mark"] in _PASSED
        yield Result(int(found["test"]), int(found["set"]), passed, _hook(found["hook"]), said=tuple(_console(said)))
        said = []


def _hook(text: str | None) -> str:
    return text.split()[0].strip('"') if text else ""


def _console(lines: Sequence[str]) -> Iterator[str]:
    """The messages among `lines` that the page's console gave; one may have several lines."""
    message: list[str] = []
    for line in lines:
        begins = _CONSOLE.match(line)
        if begins is None and not message:
            continue
        message.append(line[begins.end() :] if begins else line)
        if line.endswith("'"):
            yield _LOGGER.sub("", "\n".join(message).removesuffix("'"))
            message = []
    if message:
        yield "\n".join(message)


def _thrown(lines: Sequence[str]) -> Iterator[tuple[_Key, tuple[str, str]]]:
    """The exceptions of the list of failed tests: message and stack of each."""
    starts = [(n, found) for n, line in enumerate(lines) if (found := _RESULT.match(line))]
    for (begin, found), after in zip(starts, [n for n, _ in starts[1:]] + [len(lines)], strict=False):
        body = lines[begin + 2 : after]  # the line between names the browser
        stack = next((n for n, line in enumerate(body) if _STACK.match(line)), None)
        blank = next((n for n, line in enumerate(body) if not line.strip()), len(body))
        ends = blank if stack is None else stack
        message = "\n".join(line.strip() for line in body[:ends]).strip()
        frames = "\n".join(line.strip() for line in body[ends:] if _STACK.match(line))
        plain = _THROWN.match(message)
        yield (
            (int(found["test"]), int(found["set"]), _hook(found["hook"])),
            (plain["what"] if plain else message, frames),
        )


def _with(result: Result, thrown: dict[_Key, tuple[str, str]]) -> Result:
    message, stack = thrown.get((result.test, result.data_set, result.hook), ("", ""))
    return replace(result, message=message, stack=stack)


def _with_values(results: Sequence[Result], said: Sequence[str]) -> tuple[Result, ...]:
    """`results` with what of `said` is about wrong values: each that failed for that has printed one output."""
    groups: list[tuple[str, ...]] = []
    begun: list[str] = []
    for message in said:
        if _ELEMENT.match(message):
            begun = [message]
        elif message.startswith(_OUTPUT):
            groups.append((*begun, message))
            begun = []
    wrong = [n for n, result in enumerate(results) if not result.passed and _WRONG.match(result.message)]
    if len(wrong) != len(groups):
        return tuple(results)
    printed = dict(zip(wrong, groups, strict=True))
    return tuple(replace(result, wrong=printed.get(n, ())) for n, result in enumerate(results))


def _problem(lines: Sequence[str]) -> tuple[Ending, str] | None:
    for number, line in enumerate(lines):
        for pattern, ending in _PROBLEMS:
            if not _RESULT.match(line) and pattern.search(line):
                return ending, f"{line.strip()} {_complaint(lines, number)}".strip()
    return None


def _complaint(lines: Sequence[str], number: int) -> str:
    """The browser's own words, which karma prints below the line that it does not start; empty elsewhere."""
    if _NO_START not in lines[number]:
        return ""
    below = lines[number + 1 : number + 1 + _COMPLAINT_LINES]
    first = (line.strip() for line in below[:1] if line.startswith("\t"))
    return next((line for line in below if _EXCEPTION.match(line)), next(first, ""))
