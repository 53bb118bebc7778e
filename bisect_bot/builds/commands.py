"""Runs upstream's own commands: logged whole, limited in time, and gone afterwards with all that they started."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisect_bot.builds.disk import disk_errors, disk_full
from bisect_bot.errors import BuildFailed
from bisect_bot.processes import kill_tree, start
from bisect_bot.scratch import scratch

MINUTE_S = 60.0
STEP_S = 15 * MINUTE_S
_TAIL = 256 << 10
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Lines that say that something failed, not what.
_NOISE = re.compile(
    r"^(> .*|npm (error|ERR!|warn|notice)\b.*|Node\.js v[\d.]+|\s*at .*|[\s~^│╵|]*|throw .*|node:[\w/]+:\d+"
    r"|Lifecycle script .*|\w*Error: (Command failed|Process exited).*|subprocess\.CalledProcessError.*)$"
)
_CAUSE = re.compile(r"\berror\b|\bfatal:|cannot find|not found|no such|failed", re.IGNORECASE)
# A shell's status for a program that a signal ended is this and the signal's number.
_BY_A_SIGNAL = 128
_NO_MEMORY = ("heap out of memory", "Cannot allocate memory", "ENOMEM")
_NO_SPACE = ("ENOSPC", "No space left on device", "EDQUOT", "Disk quota exceeded")


class _NotStarted(Exception):
    """A program that is not there, or cannot be run."""


class Failed(Exception):
    """A command that did not end well. `reason` is one line, `output` its last words, `log` where all of them are."""

    def __init__(self, step: str, reason: str, output: str, log: Path, status: int | None = None) -> None:
        super().__init__(f"{step} failed: {reason}")
        self.step, self.reason, self.output, self.log, self.status = step, reason, output, log, status

    @property
    def is_of_the_machine(self) -> bool:
        """Whether the command was not there, was ended from outside (a time limit, a signal), or lacked memory."""
        ended_itself = self.status is not None and 0 < self.status < _BY_A_SIGNAL
        return not ended_itself or any(word in self.output for word in _NO_MEMORY)

    def unusable(self) -> BuildFailed:
        """The same as a verdict on the revision."""
        return BuildFailed(str(self), f"The log is at {self.log}", lasting=not self.is_of_the_machine)


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs commands with `environment` on top of the user's own (None: without that variable).

    Logs go to the folder `logs`, temporary files below `tmp`. `words` are what the placeholders of a recipe's command
    stand for (`{node}`); a word that stands for nothing is left out.
    """

    logs: Path
    tmp: Path
    words: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    limit_s: float = STEP_S

    def run(
        self, step: str, command: Sequence[str], *, cwd: Path, subject: str, timeout_s: float | None = None
    ) -> Path:
        """Runs `command` in the folder `cwd` and returns its log. `step` and `subject` say what is done, and with what.

        Nothing that it started is left, however it ends. Raises Failed when it cannot be started, ends with another
        status than 0 or takes longer than `timeout_s` (None: `limit_s`), DiskFull, and MachineError when the log
        cannot be written.
        """
        argv = self.expand(command)
        timeout_s = self.limit_s if timeout_s is None else timeout_s
        with disk_errors(self.logs), self._log(step, subject) as (log, file):
            began = time.monotonic()
            file.write(_header(argv, cwd, subject).encode())
            try:
                status = self._wait(argv, cwd, file.fileno(), timeout_s)
            except _NotStarted as error:
                file.write(f"\n{error}\n".encode())
                raise Failed(step, str(error), "", log) from error
            seconds = time.monotonic() - began
            ended = f"stopped after {timeout_s:g} s" if status is None else f"status {status}"
            file.write(f"\n--- {ended}, {seconds:.1f} s\n".encode())
        if status == 0:
            return log
        output = _tail(log)
        if any(word in output for word in _NO_SPACE):
            raise disk_full(cwd)
        reason = f"no end within {timeout_s:g} s" if status is None else last_words(output) or f"status {status}"
        raise Failed(step, reason, output, log, status)

    def expand(self, command: Sequence[str]) -> tuple[str, ...]:
        """`command` with what its placeholders stand for."""
        words = (self.words.get(word[1:-1], word) if re.fullmatch(r"\{\w+\}", word) else word for word in command)
        return tuple(word for word in words if word)

    def _wait(self, argv: tuple[str, ...], cwd: Path, output: int, timeout_s: float) -> int | None:
        """The exit status, or None when the time was over. Raises _NotStarted, OSError."""
        with scratch(self.tmp) as place:
            try:
                process = start(argv, cwd=cwd, env=self._env(place.path), output=output)
            except OSError as error:
                raise _NotStarted(f"{argv[0]} cannot be started: {error.strerror or error}") from error
            try:
                # For the next session to end it, should this one be killed.
                place.adopt(process.pid)
                return process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                # What it left in the background is ended with the scratch folder.
                if process.poll() is None:
                    kill_tree(process.pid)
                    process.wait()

    def _env(self, temporary: Path) -> dict[str, str]:
        env: dict[str, str | None] = {**os.environ, **self.environment}
        env |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
        return {name: value for name, value in env.items() if value is not None}

    @contextlib.contextmanager
    def _log(self, step: str, subject: str) -> Iterator[tuple[Path, tempfile._TemporaryFileWrapper[bytes]]]:
        """A new log file that stays, and its path."""
        self.logs.mkdir(parents=True, exist_ok=True)
        moment = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
        name = re.sub(r"[^\w.-]+", "-", f"{moment}-{subject}-{step}")[:100]
        with tempfile.NamedTemporaryFile(
            prefix=f"{name}-", suffix=".log", dir=self.logs, delete=False, buffering=0
        ) as file:
            yield Path(file.name), file


def last_words(output: str) -> str:
    """The line of a failed command's output that says most: the first that names an error, else the last with words."""
    lines = [line.strip() for line in _ESCAPES.sub("", output).splitlines()]
    spoken = ["".join(c for c in line if c.isprintable()) for line in lines if not _NOISE.match(line)]
    said = next((line for line in spoken if _CAUSE.search(line)), None) or (spoken[-1] if spoken else "")
    if not said:
        npm = [
            m[1] for line in lines if (m := re.match(r"npm (?:error|ERR!) (?!code |errno |A complete log)(.+)", line))
        ]
        said = npm[0] if npm else ""
    return said[:300]


def _header(argv: Sequence[str], cwd: Path, subject: str) -> str:
    moment = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return f"--- {moment} {subject}\n--- in {cwd}\n--- {shlex.join(argv)}\n\n"


def _tail(log: Path) -> str:
    """The last of what the command printed, without our own lines."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _TAIL))
        text = file.read().decode("utf-8", "replace")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--- "))
