"""Starts Chrome, Chromium or Edge in a process group and folder of its own, and attaches Playwright to it.

The browser is started here rather than by Playwright, because then its process group and its temporary folder
are ours to end, and `scratch.sweep` ends them when we were killed ourselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Frame, Page, Playwright, async_playwright

from bisect_bot import processes
from bisect_bot.errors import NoBrowser
from bisect_bot.scratch import Scratch

START_TIMEOUT_S = 60.0
PLACES = ("TMPDIR", "TMP", "TEMP", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
POLL_S = 0.02


@dataclass(slots=True)
class RunningBrowser:
    """A started browser with one page. `ended` is done when the whole browser is gone, `crashed` when the page is.

    `left` is set when the page shows something else than what was opened last. `pid` is the process
    that all others of the browser descend from.
    """

    page: Page
    ended: asyncio.Task[int]
    crashed: asyncio.Event
    left: asyncio.Event
    pid: int
    _playwright: PlaywrightBrowser
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

    async def driver_version(self) -> str | None:
        """Name and version of the GPU driver in use, as the browser tells it; None when it does not."""
        with contextlib.suppress(PlaywrightError, KeyError, TypeError, IndexError):
            cdp = await self._playwright.new_browser_cdp_session()
            info = await cdp.send("SystemInfo.getInfo")
            device = info["gpu"]["devices"][0]
            words = (device.get("driverVendor"), device.get("driverVersion"))
            return " ".join(str(w) for w in words if w) or None
        return None


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
    # Chromium and the libraries it loads write to these places too, and leave it there when killed: give them ours.
    env = {**os.environ, **dict.fromkeys(PLACES, str(folder.path))}
    with log.open("wb") as sink:
        try:
            process = processes.start(argv, env=env, output=sink.fileno())
        except OSError as error:
            raise NoBrowser(f"{executable} does not start: {error}") from error
    folder.adopt(process.pid)
    ended = asyncio.create_task(_wait(process))
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
        running = RunningBrowser(page, ended, crashed, asyncio.Event(), process.pid, browser)
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


def first_line(text: str) -> str:
    """The first line of `text` that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), text)


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


async def _wait(process: subprocess.Popen[bytes]) -> int:
    while (status := process.poll()) is None:
        await asyncio.sleep(POLL_S)
    return status


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
            raise NoBrowser(f"the browser ended at once (status {ended.result()}): {_last_words(log)}")
        await asyncio.sleep(POLL_S)
    raise NoBrowser(f"the browser was not ready after {START_TIMEOUT_S:.0f} s: {_last_words(log)}")


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
