"""The other process: makes one build at a time, of what it is told line by line, until it is ended or left alone.

    python -m bisect_bot.session.prefetch_worker CACHE

A line of its input is a job; a line of its output is a `Told`. When its input ends, whoever started it is done or dead:
it takes back what it is making, and ends.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel

from bisect_bot.builds.in_use import sweep_all, using
from bisect_bot.errors import BisectBotError, DiskFull
from bisect_bot.processes import kill_tree
from bisect_bot.session.prefetch_jobs import JOB, Job, make

# How long what is being made may take to be taken back.
_GRACE_S = 10.0
# How long this process takes to end when it makes nothing.
_IDLE_S = 0.05
# Leaves the processor to the browser: what is measured there decides.
_NICE = 19


class Told(BaseModel):
    """What is told of the build that is being made: what is `doing`, that it is `made`, or that it `failed`.

    `text` are words for a reader, `seconds` how long it took. `reused` says that it was there before, `full` that
    there is no more space for others.
    """

    what: Literal["doing", "made", "failed"]
    text: str = ""
    seconds: float = 0.0
    reused: bool = False
    full: bool = False


def main(cache: Path) -> None:
    """Makes what is asked for on the standard input, in the folder `cache`."""
    # Whoever starts programs in the background of a shell has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(_NICE)
    jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt), using(cache):
        # What another one was making when it was ended, which had no time for it.
        sweep_all(cache)
        while (job := jobs.get()) is not None:
            _tell(_done(job, cache))


def _done(job: Job, cache: Path) -> Told:
    began = time.monotonic()
    try:
        reused = make(job, cache, lambda text: _tell(Told(what="doing", text=text)))
    except BisectBotError as error:
        return Told(what="failed", text=str(error), full=isinstance(error, DiskFull))
    return Told(what="made", seconds=time.monotonic() - began, reused=reused)


def _tell(told: Told) -> None:
    # Where nobody reads any more, the input ends as well.
    with contextlib.suppress(OSError):
        sys.stdout.write(told.model_dump_json() + "\n")
        sys.stdout.flush()


def _listen(jobs: queue.SimpleQueue[Job | None]) -> None:
    """Passes on what is asked for; ends this process when nobody is left to ask."""
    with contextlib.suppress(OSError):
        for line in sys.stdin.buffer:
            jobs.put(JOB.validate_json(line))
    jobs.put(None)
    threading.main_thread().join(_IDLE_S)
    # Wakes the main thread out of whatever it waits for; Windows has nothing but a flag.
    if sys.platform != "win32":
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()
    threading.main_thread().join(_GRACE_S)
    for child in psutil.Process().children():
        kill_tree(child.pid)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
