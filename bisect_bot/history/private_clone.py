"""Private clones below the cache: of a URL, bare, all of its history and none of its file contents until asked for.

    clones/<sha256 of the URL, 16 digits>/   a bare repository, complete when it is there

The only place where git writes. Hooks and templates of the user are left out, and nothing asks for a password.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bisect_bot.errors import DiskFull, MachineError
from bisect_bot.processes import kill_tree, start
from bisect_bot.scratch import scratch, sweep

CLONES = "clones"
_CLONE_LIMIT_S = 3 * 3600.0
_FETCH_LIMIT_S = 1800.0
_TRIES = 3
_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_FILTER = "--filter=blob:none"
_SAFE = (
    "-c", f"core.hooksPath={os.devnull}",
    # Helpers that run a command line, and clean-ups that go on in the background.
    "-c", "protocol.ext.allow=never",
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
    # A server that says nothing for a minute is gone.
    "-c", "http.lowSpeedLimit=1",
    "-c", "http.lowSpeedTime=60",
)  # fmt: skip
# What would make git write to another repository: whoever starts us from a hook has them.
_ELSEWHERE = frozenset({
    "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE",
    "GIT_PREFIX", "GIT_TEMPLATE_DIR", "GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_SHALLOW_FILE",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_GRAFT_FILE", "GIT_NO_LAZY_FETCH",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class PrivateClone:
    """The private clone of `url` at `path`; `doing` hears how far git has come."""

    url: str
    path: Path
    doing: Callable[[str], None]

    def fetch(self) -> None:
        """Gets what is new on all branches and tags. Raises MachineError."""
        self._fetch(_REFS, "--prune", "--force")

    def fetch_commit(self, commit: str) -> None:
        """Gets a commit (full id) that is on none of the branches. Raises MachineError where the server denies it."""
        self._fetch([commit])

    def fetch_objects(self, oids: Sequence[str]) -> None:
        """Gets the objects `oids` (full ids) in one go. Raises MachineError."""
        with tempfile.TemporaryFile() as wanted:
            wanted.write("".join(f"{oid}\n" for oid in oids).encode())
            wanted.seek(0)
            # As git itself gets what a partial clone lacks: without telling the server what is there already.
            self._fetch(["--stdin"], "--recurse-submodules=no", noop=True, stdin=wanted)

    def _fetch(self, what: Sequence[str], *options: str, noop: bool = False, stdin: IO[bytes] | None = None) -> None:
        where = [f"--git-dir={self.path}", *(["-c", "fetch.negotiationAlgorithm=noop"] if noop else [])]
        words = ["fetch", "--progress", "--no-write-fetch-head", "--no-tags", _FILTER, *options, "origin", *what]
        for left in range(_TRIES - 1, -1, -1):
            status, said = transfer(
                [*where, *words], _FETCH_LIMIT_S, self.doing, f"fetching from {shown(self.url)}", stdin
            )
            if status == 0:
                return
            # Another process of ours can be at the same refs.
            if not left or "lock" not in said:
                raise _failure(f"{shown(self.url)} cannot be fetched from", status, said)
            time.sleep(1)


def private_clone(url: str, cache: Path, say: Callable[[str], None], doing: Callable[[str], None]) -> PrivateClone:
    """The private clone of `url` below the folder `cache`, made when there is none yet.

    Processes that make the same one at the same time do not disturb each other. Raises MachineError (no network, no
    such repository, no git), DiskFull.
    """
    clones = cache / CLONES
    path = clones / hashlib.sha256(url.encode()).hexdigest()[:16]
    clone = PrivateClone(url, path, doing)
    if (path / "HEAD").is_file():
        # Reads leave no trace: what is used daily would look idle to `cache gc`.
        with contextlib.suppress(OSError):
            os.utime(path)
        return clone
    try:
        clones.mkdir(parents=True, exist_ok=True)
        sweep(clones)
        say(f"cloning the history of {shown(url)}, once: this takes minutes and some hundred MB below {clones}")
        with scratch(clones) as place:
            made = place.path / "clone"
            words = ["clone", "--bare", "--progress", "--template=", _FILTER, "--", url, str(made)]
            status, said = transfer(words, _CLONE_LIMIT_S, doing, f"cloning {shown(url)}", adopt=place.adopt)
            if status != 0:
                raise _failure(f"{shown(url)} cannot be cloned", status, said)
            # Whoever was faster made the same.
            with contextlib.suppress(OSError):
                made.rename(path)
    except OSError as error:
        raise MachineError(
            f"{clones} cannot be written: {error.strerror or error}", "BISECT_BOT_CACHE moves the cache."
        ) from error
    return clone


def transfer(
    arguments: Sequence[str],
    limit_s: float,
    doing: Callable[[str], None],
    what: str,
    stdin: IO[bytes] | None = None,
    adopt: Callable[[int], None] = lambda _pid: None,
) -> tuple[int | None, str]:
    """Runs `git <arguments>`; `doing` hears `what` and its progress. Its status (None: out of time) and last words.

    `adopt` hears the process id. Killed with all that it started on time-out and Ctrl-C. Raises MachineError where
    there is no git.
    """
    program = shutil.which("git")
    if program is None:
        raise MachineError("git was not found.", "Install git.")
    doing(what)
    reading, writing = os.pipe()
    try:
        process = start([program, *_SAFE, *arguments], env=_environment(os.environ), output=writing, stdin=stdin)
    finally:
        os.close(writing)
    watchdog = threading.Timer(limit_s, kill_tree, (process.pid,))
    said: deque[str] = deque(maxlen=10)
    try:
        adopt(process.pid)
        watchdog.start()
        with os.fdopen(reading, "rb", buffering=0) as output:
            for line in _lines(output):
                if "%" in line:
                    doing(f"{what}: {line}")
                else:
                    said.append(line)
        status = process.wait()
    except BaseException:
        kill_tree(process.pid)
        process.wait()
        raise
    finally:
        timed_out = not watchdog.is_alive()
        watchdog.cancel()
    return (None if timed_out else status), "\n".join(said)


def shown(url: str) -> str:
    """`url` as it may be printed: without a user's name and password."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def _lines(output: IO[bytes]) -> Iterator[str]:
    """What git says, line by line; lines of progress end in a carriage return."""
    rest = b""
    while piece := output.read(4096):
        *whole, rest = re.split(rb"[\r\n]", rest + piece)
        yield from filter(None, map(_printable, whole))
    yield from filter(None, [_printable(rest)])


def _printable(line: bytes) -> str:
    return "".join(c for c in line.decode("utf-8", "replace") if c.isprintable()).strip()


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in given.items() if name not in _ELSEWHERE}
    ssh = {"GIT_SSH_COMMAND": given.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")}
    return {**kept, **ssh, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": given.get("GIT_ASKPASS", ""), "LC_ALL": "C"}


def _failure(what: str, status: int | None, said: str) -> MachineError:
    if "No space left on device" in said:
        return DiskFull(f"{what}: no space is left.", "Free some, or move the cache with BISECT_BOT_CACHE.")
    telling = [line for line in said.splitlines() if line.startswith(("fatal:", "error:", "remote:", "ssh:"))]
    words = "it took too long" if status is None else next(iter(telling), f"git ended with status {status}")
    return MachineError(
        f"{what}: {re.sub(r'(?<=://)[^/@ ]*@', '', words)}",
        "Check the address and the network, or name a clone on this machine with --repo PATH.",
    )
