"""What starting any browser takes: its folders, its end, its last words."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from pathlib import Path

START_TIMEOUT_S = 60.0
POLL_S = 0.02
_PLACES = ("TMPDIR", "TMP", "TEMP", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")


def own_folders(folder: Path) -> Mapping[str, str]:
    """The environment by which a browser writes into `folder` and nowhere else.

    Chromium and the libraries it loads leave files in the usual places when they are killed.
    """
    return dict.fromkeys(_PLACES, str(folder))


async def wait_for(process: subprocess.Popen[bytes]) -> int:
    """The exit status of `process`, when it has ended."""
    while (status := process.poll()) is None:
        await asyncio.sleep(POLL_S)
    return status


def last_words(log: Path) -> str:
    """The last line that a browser wrote into `log`."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def first_line(text: str) -> str:
    """The first line of `text` that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), text)
