"""The way in which each kind of browser is started."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from bisect_bot.scratch import Scratch
from bisect_bot.targets import chrome, electron
from bisect_bot.targets.browsers import BrowserConfig, kind_of
from bisect_bot.targets.running import Launch, Running


@contextlib.asynccontextmanager
async def launcher(target: str, config: BrowserConfig, folder: Scratch) -> AsyncIterator[Launch]:
    """What starts browsers for the target of the name `target`; all that they write goes into `folder`."""
    if config.browsers[kind_of(target)].engine == "electron":
        yield partial(electron.launch, folder=folder)
        return
    async with chrome.driver(folder) as playwright:

        def launch(executable: Path, flags: tuple[str, ...]) -> contextlib.AbstractAsyncContextManager[Running]:
            return chrome.launch(playwright, executable, flags, folder)

        yield launch
