"""Other people's programs: started in a group of their own, limited in time, and gone afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended. `status` is None when it ran into its time limit and was killed."""

    argv: tuple[str, ...]
    status: int | None
    stdout: str
    stderr: str


def start(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    output: int | None = None,
    stdin: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts `argv` as the leader of a process group of its own, without a terminal to read from.

    `output` is where stdout and stderr go (`subprocess.PIPE`, a file descriptor, None: nowhere). `stdin` is an open
    file to read from instead of nothing. Raises OSError when the program cannot be started.
    """
    sink = subprocess.DEVNULL if output is None else output
    flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    return subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(env) if env is not None else None,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=sink,
        stderr=sink if output != subprocess.PIPE else subprocess.PIPE,
        start_new_session=os.name != "nt",
        creationflags=flags,
    )


def run(
    argv: Sequence[str], *, timeout_s: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Completed:
    """Runs `argv` to its end, or kills its whole group after `timeout_s` seconds (or on Ctrl-C).

    Output is decoded as UTF-8, what does not decode is replaced. Raises OSError when it cannot be started.
    """
    process = start(argv, cwd=cwd, env=env, output=subprocess.PIPE)
    status: int | None = None
    try:
        out, err = process.communicate(timeout=timeout_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        out, err = process.communicate()
    except BaseException:
        kill_tree(process.pid)
        process.communicate()
        raise
    return Completed(tuple(argv), status, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def started_at(pid: int) -> float | None:
    """When the process `pid` was started, or None when there is none (a dead one that nobody waited for is none).

    Together with the pid it names one process for good, which a reused pid alone does not. The unit is the
    system's own: on Linux clock ticks since boot, which setting the clock does not change (proc(5), field 22).
    """
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else float(fields[19])
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def kill_tree(pid: int, *, wait_s: float = 5.0) -> None:
    """Kills the process `pid`, the group it leads and all its descendants, and waits until they are gone."""
    doomed: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(pid)
        doomed = [leader, *leader.children(recursive=True)]
    kill_group(pid)
    for process in doomed:
        with contextlib.suppress(psutil.Error):
            process.kill()
    # Not psutil.wait_procs: it waits for dead ones until their parent (for orphans: init) has read their status.
    deadline = time.monotonic() + wait_s
    while any(process.is_running() and started_at(process.pid) for process in doomed) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def kill_group(pgid: int) -> None:
    """Kills the process group that `pgid` led, also after its leader has ended. Does nothing on Windows."""
    if os.name != "nt" and pgid > 1 and pgid != os.getpgrp():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pgid, signal.SIGKILL)
