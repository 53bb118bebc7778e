"""Runs upstream's test runner in a checkout: watched, limited in time, with all that it prints kept in a file."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bisect_bot.errors import MachineError
from bisect_bot.model import Ending, Target
from bisect_bot.probes.upstream.launching import launching
from bisect_bot.processes import kill_group, kill_tree, start
from bisect_bot.scratch import Scratch
from bisect_bot.targets.browsers import BrowserConfig
from bisect_bot.targets.starting import own_folders

CLI = "./script/test-runner-cli"
WEB = Path("js/web")
POLL_S = 0.2
START_S = 180.0
"""How long the bundles and the browser's start may take: karma itself gives the browser 120 s."""
GRACE_S = 5.0
"""How much longer than a case may take the runner may say nothing, and how long it may after its page died."""
_BUSY_S = 0.3
# What a user's own shell may set for other work; with the last one Electron is no browser.
_NOT_INHERITED = ("NODE_OPTIONS", "NODE_ENV", "ELECTRON_RUN_AS_NODE")
_CONNECTED = b"Connected on socket"
# karma/lib/launchers/process.js; it then starts another one, in which no test is run.
_CRASHED = re.compile(rb"\[launcher\]: (?:\x1b\[\d+m)?\w+ crashed\.")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of the runner ended: `status` by itself, else with `why` it was ended. `text` is all that it said."""

    status: int | None
    why: Ending | None
    text: str
    log: Path


def run_cli(
    words: Sequence[str],
    root: Path,
    target: Target,
    config: BrowserConfig,
    folder: Scratch,
    log: Path,
    *,
    node: str,
    case_s: float,
    deadline: float,
) -> Ended:
    """Runs the runner of the checkout `root` with `words`, in the browser of `target`, until it ends or is ended.

    It is ended when the page's process died (CRASH) or the browser's (BROWSER_GONE), when it said nothing for longer
    than a case may take (HANG) or is not ready to run any (HARNESS), and at `deadline` (of time.monotonic(); HARNESS).
    Its files go to `folder`, its output to `log`. Raises MachineError when it cannot be started, NoBrowser where there
    is no display for its browser.
    """
    with launching(target, config, folder) as how, log.open("wb") as sink:
        argv = [node, CLI, *words, "--env", how.env]
        set_here = (f"{name}={value}" for name, value in how.variables.items())
        sink.write(f"$ {shlex.join([*set_here, *argv])}\n".encode())
        sink.flush()
        try:
            process = start(argv, cwd=root / WEB, env=_environment(how.variables, folder), output=sink.fileno())
        except OSError as error:
            raise MachineError(
                f"{node} does not start: {error}", "Install Node.js, or use --driver harness."
            ) from error
        folder.adopt(process.pid)
        try:
            watch = _Watch(process.pid, log, case_s, deadline)
            while (status := process.poll()) is None and (why := watch.verdict()) is None:
                time.sleep(POLL_S)
        finally:
            if process.poll() is None:
                kill_tree(process.pid)
            kill_group(process.pid)
            process.wait()
    return Ended(status, None if status is not None else why, log.read_text("utf-8", "replace"), log)


def _environment(variables: Mapping[str, str], folder: Scratch) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**mine, **own_folders(folder.path), **variables}


@dataclass(slots=True)
class _Watch:
    """Tells when a run is of no more use."""

    pid: int
    log: Path
    case_s: float
    deadline: float
    began: float = field(default_factory=time.monotonic)
    size: int = 0
    spoke: float = field(default_factory=time.monotonic)
    connected: bool = False
    gone: bool = False
    page: psutil.Process | None = None
    busy: float = _BUSY_S

    def verdict(self) -> Ending | None:
        """Why the run has to be ended now, or None."""
        now = time.monotonic()
        size = self.log.stat().st_size
        if size != self.size:
            self.size, self.spoke = size, now
            text = self.log.read_bytes()
            self.connected = self.connected or _CONNECTED in text
            self.gone = self.connected and _CRASHED.search(text, text.index(_CONNECTED)) is not None
        silent = now - self.spoke
        if now > self.deadline:
            return Ending.HARNESS
        if not self.connected:
            return Ending.HARNESS if now - self.began > START_S else None
        if self.gone:
            return Ending.BROWSER_GONE
        if silent > GRACE_S and self._page_died():
            return Ending.CRASH
        if silent <= GRACE_S:
            self._look()
        return Ending.HANG if silent > self.case_s + GRACE_S else None

    def _look(self) -> None:
        """Finds the page's process: of the browser's renderers the one that computed most."""
        for process in _descendants(self.pid):
            with contextlib.suppress(psutil.Error):
                if any(word.startswith("--type=renderer") for word in process.cmdline()):
                    times = process.cpu_times()
                    if times.user + times.system > self.busy:
                        self.page, self.busy = process, times.user + times.system

    def _page_died(self) -> bool:
        """karma does not notice: it waits ten minutes for the page to connect again."""
        if self.page is None:
            return False
        with contextlib.suppress(psutil.Error):
            return not self.page.is_running() or self.page.status() == psutil.STATUS_ZOMBIE
        return True


def _descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []
