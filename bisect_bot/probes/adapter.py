"""Finds out with which flags a browser gives the adapter that was wished for."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from bisect_bot.errors import NoAdapter
from bisect_bot.harness.server import HarnessServer
from bisect_bot.model import Adapter, Target
from bisect_bot.probes.decode import PostedAdapter
from bisect_bot.probes.probe import ADAPTER_ATTEMPTS, HELLO_TIMEOUT_S
from bisect_bot.scratch import scratch
from bisect_bot.targets.browsers import Browser, BrowserConfig, command_line
from bisect_bot.targets.launcher import launcher
from bisect_bot.targets.running import driver_version


def choose_target(browser: Browser, wish: str, extra: tuple[str, ...], config: BrowserConfig) -> Target:
    """The target that `browser` gives for an adapter wish, after trying the flag sets for it in order.

    Raises NoAdapter, naming every adapter that was met, when none is of the wish.
    """
    met = []
    for flag_set in config.flag_sets(wish):
        target = plain_target(browser, wish, extra, flag_set)
        adapter, why = asyncio.run(_adapter_with(browser, command_line(config, flag_set, extra, browser.name), config))
        if adapter is not None and config.fits(adapter, wish):
            return replace(target, adapter=adapter)
        met.append(f"with the {flag_set} flags: {adapter or why}")
    problem = f"{browser.executable.name} {browser.version} gives no GPU adapter for --adapter {wish}: {'; '.join(met)}"
    raise NoAdapter(problem, "See which adapters the browser has at chrome://gpu; --adapter software uses the CPU.")


def plain_target(browser: Browser, wish: str, extra: tuple[str, ...], flag_set: str = "") -> Target:
    """The target without a look at its adapter, as for a backend that needs none."""
    return Target(
        name=browser.name,
        executable=str(browser.executable),
        version=browser.version,
        platform=sys.platform,
        flags=flag_set,
        wish=wish,
        extra_args=extra,
        product=browser.product,
    )


async def _adapter_with(browser: Browser, flags: tuple[str, ...], config: BrowserConfig) -> tuple[Adapter | None, str]:
    """The adapter that the browser gives when started with `flags`, or None and why there is none."""
    with scratch() as folder:
        async with (
            HarnessServer(None) as server,
            launcher(browser.name, config, folder) as launch,
            launch(browser.executable, flags) as running,
        ):
            await running.open(server.page_url("adapter"))
            try:
                hello = await asyncio.wait_for(server.receive("adapter"), HELLO_TIMEOUT_S)
                hello.answer({"kind": "adapter", "adapter_attempts": ADAPTER_ATTEMPTS})
                message = await asyncio.wait_for(server.receive("adapter"), HELLO_TIMEOUT_S)
            except TimeoutError:
                return None, "the browser hangs when it is asked for an adapter"
            header = message.frame.header
            if not header.get("supported"):
                return None, "navigator.gpu is missing"
            if not header.get("adapter"):
                return None, "requestAdapter() answers null"
            posted = PostedAdapter.model_validate(header["adapter"])
            return posted.to_adapter(config, await driver_version(running)), ""
