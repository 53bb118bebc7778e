"""Starts Chrome, Chromium or Edge in a process group and folder of its own, and attaches Playwright to it.

The browser is started here rather than by Playwright, because then its process group and its temporary folder
are ours to end, and `scratch.sweep` ends them when we were killed ourselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Frame, Page, Playwright, async_playwright

from bisect_bot import processes
from bisect_bot.errors import NoBrowser
from bisect_bot.scratch import Scratch
from bisect_bot.targets.running import PAGE_DIED, Gpu
from bisect_bot.targets.starting import POLL_S, START_TIMEOUT_S, first_line, last_words, own_folders, wait_for


@dataclass(slots=True)
class RunningBrowser:
    """A started browser with one page, as `running.Running` has it. Of its GPU process it does not tell."""

    page: Page
    ended: asyncio.Task[int]
    crashed: asyncio.Event
    left: asyncio.Event
    pid: int
    _playwright: PlaywrightBrowser
    crash: str = PAGE_DIED
    versions: Mapping[str, str] = field(default_factory=dict)
    _address: str = ""

    async def open(self, url: str) -> None:
        """Opens `url` in the page. Raises NoBrowser when the browser does not do it."""
        self._address = url
        try:
            await self.page.goto(url, wait_until="commit", timeout=START_TIMEOUT_S * 1000)
        except PlaywrightError as error:
            raise NoBrowser(f"the browser opens no page: {first_line(str(error))}") from error
        self.left.clear()  # of what was shown before

    def moved(self, frame: Frame) -> None:
        """Takes note of where `frame` of the page went; to the same address it is no more than a reload."""
        if frame == self.page.main_frame and self._address and not frame.url.startswith(self._address):
            self.left.set()

    async def evaluate(self, function: str, argument: object) -> Any:
        """What the JavaScript function `function` gives in the page for `argument`. Raises NoBrowser."""
        try:
            return await self.page.evaluate(function, argument)
        except PlaywrightError as error:
            raise NoBrowser(f"the page does not answer: {first_line(str(error))}") from error

    async def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that the browser lists over CDP; the first is the one that it uses for its windows."""
        with contextlib.suppress(PlaywrightError, KeyError, TypeError):
            cdp = await self._playwright.new_browser_cdp_session()
            info = await cdp.send("SystemInfo.getInfo")
            return tuple(_gpu(device) for device in info["gpu"]["devices"])
        return ()


@contextlib.asynccontextmanager
async def driver(folder: Scratch) -> AsyncIterator[asyncio.Task[Playwright]]:
    """Playwright, starting in the background: a browser can start meanwhile. Awaiting it raises NoBrowser.

    Its own temporary files go into `folder`.
    """
    starting = asyncio.create_task(_start_driver(folder))
    try:
        yield starting
    finally:
        with contextlib.suppress(NoBrowser, PlaywrightError):
            await (await starting).stop()


@contextlib.asynccontextmanager
async def launch(
    playwright: Awaitable[Playwright], executable: Path, flags: tuple[str, ...], folder: Scratch
) -> AsyncIterator[RunningBrowser]:
    """Starts `executable` with `flags` and a fresh profile in `folder`; ends its whole process group on the way out.

    Raises NoBrowser, with the browser's last words, when it ends at once or is not ready within a minute.
    """
    profile = folder.path / f"profile-{len(list(folder.path.glob('profile-*')))}"
    profile.mkdir()
    log = profile.with_suffix(".log")
    argv = [str(executable), *flags, f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"]
    env = {**os.environ, **own_folders(folder.path)}
    with log.open("wb") as sink:
        try:
            process = processes.start(argv, env=env, output=sink.fileno())
        except OSError as error:
            raise NoBrowser(f"{executable} does not start: {error}") from error
    folder.adopt(process.pid)
    ended = asyncio.create_task(wait_for(process))
    browser: PlaywrightBrowser | None = None
    try:
        endpoint = await _endpoint(profile, log, ended)
        try:
            browser = await (await playwright).chromium.connect_over_cdp(endpoint, timeout=START_TIMEOUT_S * 1000)
            context = browser.contexts[0]
            page = context.pages[0] if context.pages else await context.new_page()
        except (PlaywrightError, IndexError) as error:
            raise NoBrowser(f"the browser does not answer: {first_line(str(error))}") from error
        crashed = asyncio.Event()
        page.on("crash", lambda _: crashed.set())
        # An alert() would stop the page for ever.
        page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.dismiss()))
        versions = {"chrome": browser.version}
        running = RunningBrowser(page, ended, crashed, asyncio.Event(), process.pid, browser, versions=versions)
        # No bound method: Playwright writes to its object, which has slots.
        page.on("framenavigated", lambda frame: running.moved(frame))  # noqa: PLW0108
        yield running
    finally:
        processes.kill_tree(process.pid)
        process.wait()
        ended.cancel()
        if browser is not None:
            with contextlib.suppress(PlaywrightError):
                await browser.close()


async def _start_driver(folder: Scratch) -> Playwright:
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder.path)  # Playwright gives its driver our environment, and no other can be named
    try:
        return await async_playwright().start()
    except Exception as error:  # Playwright raises plain ones here
        advice = "On a bare Debian or Ubuntu: apt-get install libatomic1" if sys.platform == "linux" else ""
        raise NoBrowser(f"Playwright's driver does not start: {first_line(str(error))}", advice) from error
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


async def _endpoint(profile: Path, log: Path, ended: asyncio.Task[int]) -> str:
    """The address of the browser's debugger, which it writes into its profile when it is ready."""
    port_file = profile / "DevToolsActivePort"
    deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
    while asyncio.get_running_loop().time() < deadline:
        with contextlib.suppress(OSError):
            lines = port_file.read_text().splitlines()
            if len(lines) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        if ended.done():
            raise NoBrowser(f"the browser ended at once (status {ended.result()}): {last_words(log)}")
        await asyncio.sleep(POLL_S)
    raise NoBrowser(f"the browser was not ready after {START_TIMEOUT_S:.0f} s: {last_words(log)}")


def _gpu(device: dict[str, Any]) -> Gpu:
    """One entry of `gpu.devices`; the words are empty on some systems, and numbers stand for them."""
    numbers = f"vendor 0x{int(device.get('vendorId') or 0):04x}, device 0x{int(device.get('deviceId') or 0):04x}"
    names = [str(device.get(key) or "") for key in ("vendorString", "deviceString")]
    words = [str(device.get(key) or "") for key in ("driverVendor", "driverVersion")]
    return Gpu(" ".join(filter(None, names)) or numbers, " ".join(filter(None, words)))
