"""The display that Electron needs on Linux: the user's, or one of our own that nobody sees."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from bisect_bot import processes
from bisect_bot.errors import NoBrowser
from bisect_bot.scratch import Scratch
from bisect_bot.targets.facts import in_the_way
from bisect_bot.targets.obstacles import Lacks, advice_of

START_S = 30.0
END_S = 3.0
POLL_S = 0.02
_SCREEN = "1280x1024x24"
_COOKIE = b"MIT-MAGIC-COOKIE-1"
_ANY_HOST = 0xFFFF
NEEDED = "Electron needs a display"


def is_there() -> bool:
    """Whether the user has a display that Electron can use; systems other than Linux always do."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY"))


def possible() -> bool:
    """Whether there is a display, or one can be made."""
    return is_there() or shutil.which("Xvfb") is not None


@contextlib.asynccontextmanager
async def display(folder: Scratch) -> AsyncIterator[Mapping[str, str]]:
    """The environment variables by which a program finds a display, which is there until the end.

    Where there is none on Linux, Xvfb is started: only programs with the key in `folder` may use it, and it ends with
    the last of them, also when nobody ends it. Raises NoBrowser when it is not installed or does not start.
    """
    if is_there():
        yield {}
        return
    program = shutil.which("Xvfb")
    if program is None:
        found = in_the_way(Lacks.WINDOW)
        raise NoBrowser(f"{NEEDED}: {', '.join(each.problem for each in found)}", advice_of(found))
    number = len(list(folder.path.glob("xvfb-*.key")))
    key, log = folder.path / f"xvfb-{number}.key", folder.path / f"xvfb-{number}.log"
    key.write_bytes(_authority(secrets.token_bytes(16)))
    argv = [program, "-displayfd", "1", "-screen", "0", _SCREEN, "-nolisten", "tcp", "-auth", str(key), "-terminate"]
    with log.open("wb") as sink:
        server = processes.start(argv, output=sink.fileno())
    folder.adopt(server.pid)
    try:
        name = f":{await _number(server, log)}"
        # A new Electron on a Wayland desktop would look for that first.
        yield {"DISPLAY": name, "XAUTHORITY": str(key), "XDG_SESSION_TYPE": "x11", "WAYLAND_DISPLAY": ""}
    finally:
        await _end(server)


def _authority(cookie: bytes) -> bytes:
    """An X authority file with one key, for every display of every host (Xau(3))."""
    head = struct.pack(">HHHH", _ANY_HOST, 0, 0, len(_COOKIE))
    return head + _COOKIE + struct.pack(">H", len(cookie)) + cookie


async def _number(server: subprocess.Popen[bytes], log: Path) -> str:
    """The number of the display, which the server writes when it is ready, among its other words."""
    deadline = asyncio.get_running_loop().time() + START_S
    while asyncio.get_running_loop().time() < deadline:
        words = log.read_text(errors="replace")
        if found := re.search(r"^(\d+)\n", words, re.MULTILINE):
            return found.group(1)
        if server.poll() is not None:
            break
        await asyncio.sleep(POLL_S)
    last = "".join(log.read_text(errors="replace").strip().splitlines()[-1:])
    raise NoBrowser(f"Xvfb does not start: {last or 'it said nothing'}", "Does it start by hand?")


async def _end(server: subprocess.Popen[bytes]) -> None:
    """Ends the server; asked to, it removes its lock and socket."""
    deadline = asyncio.get_running_loop().time() + END_S
    server.terminate()
    with contextlib.suppress(asyncio.CancelledError):
        while server.poll() is None and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(POLL_S)
    processes.kill_tree(server.pid)
    server.wait()
