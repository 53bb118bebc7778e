"""What every started browser can be asked, whichever way it was started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

PAGE_DIED = "the page's process crashed"
GPU_DIED = "the GPU process died"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the machine as the browser lists it, with its driver's name and version where they are told."""

    name: str
    driver: str = ""

    def __str__(self) -> str:
        return f"{self.name}, driver {self.driver}" if self.driver else self.name


class Running(Protocol):
    """A started browser with one page.

    `ended` is done when the whole browser is gone, `crashed` is set when the page's process (or, where the browser
    tells, its GPU process) died, and `crash` then says which. `left` is set when the page shows something else than
    what was opened last. `pid` is the process that all others of the browser descend from. `versions` are those of
    the browser's parts by name, as far as it tells.
    """

    ended: asyncio.Task[int]
    crashed: asyncio.Event
    left: asyncio.Event
    pid: int
    crash: str
    versions: Mapping[str, str]

    async def open(self, url: str) -> None:
        """Opens `url` in the page. Raises NoBrowser when the browser does not do it."""

    async def evaluate(self, function: str, argument: object) -> Any:
        """What the JavaScript function `function` gives in the page for `argument`, awaited; JSON both.

        Raises NoBrowser when it throws.
        """

    async def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that the browser lists, the one in use first; none when it does not tell."""


Launch = Callable[[Path, tuple[str, ...]], AbstractAsyncContextManager[Running]]
"""Starts an executable with flags and ends its processes on the way out; raises NoBrowser."""


def says(versions: Mapping[str, str]) -> tuple[str, ...]:
    """What a started browser says that it is: a script in its place may start another than it tells the version of."""
    return tuple(f"says {part} {versions[part]}" for part in ("electron", "chrome") if part in versions)


async def driver_version(running: Running) -> str | None:
    """Name and version of the driver of the GPU in use, as the browser tells it; None when it does not."""
    gpus = await running.gpus()
    return (gpus[0].driver or None) if gpus else None
