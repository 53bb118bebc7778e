"""The process in which builds are made ahead, as the one that tests sees it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pydantic import ValidationError

import bisect_bot
from bisect_bot.builds.in_use import sweep_all
from bisect_bot.processes import kill_tree, start
from bisect_bot.session.prefetch_jobs import JOB, Job
from bisect_bot.session.prefetch_worker import Told

WORKER = "bisect_bot.session.prefetch_worker"
# How long a process that is told to end may tidy up; what it leaves is swept by the next one, or at the end.
_GRACE_S = 0.5
_LOOK_S = 0.2


@dataclass(slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    orders: IO[bytes]
    listener: threading.Thread


@dataclass(slots=True)
class Background:
    """Makes builds in the folder `cache`, one at a time, in a process that is started when there is something to make.

    `told` holds, by the revision's id, what came of those that are done, `begun` the ids of all that were begun, and
    `doing` what is done for the one in the making. `full`: there is no space for more. All methods are for one thread,
    the one that tests.
    """

    cache: Path
    told: dict[str, Told] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    full: bool = False
    doing: str = ""
    _running: _Running | None = None
    _making: Job | None = None
    _last_words: str = ""
    _waiting: deque[Job] = field(default_factory=deque)
    _change: threading.Condition = field(default_factory=threading.Condition)

    @property
    def making(self) -> str:
        """The id of the revision whose build is in the making; empty when there is none."""
        with self._change:
            return self._making.revision.id if self._making else ""

    @property
    def pid(self) -> int | None:
        """The process, None where there is none."""
        return self._running.process.pid if self._running else None

    def want(self, jobs: Sequence[Job]) -> None:
        """Makes `jobs`, the first ones first, instead of what was wanted before; what is done or tried is left out.

        A build in the making that is none of them is dropped. Raises OSError where no process can be started.
        """
        with self._change:
            making = self._making
            left = [job for job in jobs if job != making and job.revision.id not in self.told]
            self._waiting = deque(left)
        if making is not None and making not in jobs:
            self.drop()
        if left and self._running is None:
            self._running = self._start()
        with self._change:
            self._waiting = deque(job for job in left if job != self._making and job.revision.id not in self.told)
            self._give()

    def wait_for(self, revision: str, doing: Callable[[str], None]) -> None:
        """Waits as long as the build of `revision` is in the making; `doing` hears what is done for it meanwhile."""
        said = ""
        while self.making == revision:
            if self.doing and self.doing != said:
                said = self.doing
                doing(said)
            with self._change:
                if self._making is not None and self._making.revision.id == revision:
                    self._change.wait(_LOOK_S)

    def ended_early(self) -> str:
        """How the process ended, where it did so by itself; empty where it did not. Nothing is left of it."""
        if self._running is None or (status := self._running.process.poll()) is None:
            return ""
        self.close()
        return self._last_words or f"the process that made them ended with status {status}"

    def drop(self) -> None:
        """Ends the process with all that it started, whatever it is doing: in a second, as somebody waits for it."""
        running, self._running = self._running, None
        if running is None:
            return
        with self._change:
            self._waiting.clear()
        with contextlib.suppress(OSError):
            running.orders.close()
        try:
            running.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            kill_tree(running.process.pid)
            running.process.wait()
            running.listener.join()
            with self._change:
                self._making = None

    def close(self) -> None:
        """As `drop`; nothing that was not finished is left on the disk, either."""
        self.drop()
        with contextlib.suppress(OSError):
            sweep_all(self.cache)

    def _start(self) -> _Running:
        ordered, orders = os.pipe()
        said, saying = os.pipe()
        argv = [sys.executable, "-m", WORKER, str(self.cache)]
        try:
            with os.fdopen(ordered, "rb") as stdin:
                process = start(argv, env=_environment(), output=saying, stdin=stdin)
        except BaseException:
            os.close(orders)
            os.close(said)
            raise
        finally:
            os.close(saying)
        listener = threading.Thread(target=self._listen, args=(os.fdopen(said, "rb"),), daemon=True)
        running = _Running(process, os.fdopen(orders, "wb", buffering=0), listener)
        listener.start()
        return running

    def _give(self) -> None:
        """Gives the process the next job, when it has none."""
        if self._running is None or self._making is not None or not self._waiting:
            return
        job = self._waiting.popleft()
        with contextlib.suppress(OSError):
            self._running.orders.write(JOB.dump_json(job) + b"\n")
            self._making, self.doing = job, ""
            self.begun.add(job.revision.id)

    def _listen(self, output: IO[bytes]) -> None:
        """Hears what the process says, until it is gone."""
        words: deque[str] = deque(maxlen=1)
        with output:
            for told in _lines(output, words):
                with self._change:
                    self._hear(told)
                    self._change.notify_all()
        with self._change:
            self._last_words = "".join(words)
            self._waiting.clear()
            self._making = None
            self._change.notify_all()

    def _hear(self, told: Told) -> None:
        if told.what == "doing":
            self.doing = told.text
            return
        if self._making is not None:
            self.told[self._making.revision.id] = told
        self._making = None
        if told.full:
            self.full = True
            self._waiting.clear()
        self._give()


def _lines(output: IO[bytes], words: deque[str]) -> Iterator[Told]:
    """What is told; `words` gets the lines that say something else, such as a traceback."""
    for line in output:
        try:
            yield Told.model_validate_json(line)
        except ValidationError:
            words.append(line.decode("utf-8", "replace").strip())


def _environment() -> dict[str, str]:
    """That of this process; the package is found where it was found here."""
    root = str(Path(bisect_bot.__file__).resolve().parents[1])
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *([before] if before else [])])}
