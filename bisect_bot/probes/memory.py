"""How much memory the processes of a browser hold, for what allocates without end."""

from __future__ import annotations

import asyncio
import contextlib

import psutil

POLL_S = 0.25
SHARE = 0.75
"""Of the machine's memory: beyond that, other programs would have to give way."""
OUT_OF_MEMORY = "out of memory"


def memory_limit(gib: float) -> int:
    """`gib` in bytes, and less on a machine that has not much more."""
    return min(int(gib * 2**30), int(psutil.virtual_memory().total * SHARE))


async def outgrown(pid: int, limit: int) -> None:
    """Returns when one of the processes that descend from `pid` holds more than `limit` bytes of memory."""
    while True:
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if process.memory_info().rss > limit:
                        return
        await asyncio.sleep(POLL_S)
