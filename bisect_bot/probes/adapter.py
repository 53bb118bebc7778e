"""Finds out with which flags a browser gives the adapter that was wished for."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace

from bisect_bot.errors import NoAdapter, NoBrowser
from bisect_bot.harness.server import HarnessServer
from bisect_bot.model import Adapter, Target
from bisect_bot.probes.decode import PostedAdapter
from bisect_bot.probes.probe import ADAPTER_ATTEMPTS, HELLO_TIMEOUT_S
from bisect_bot.scratch import scratch
from bisect_bot.targets.browsers import Browser, BrowserConfig, command_line
from bisect_bot.targets.facts import in_the_way
from bisect_bot.targets.launcher import launcher
from bisect_bot.targets.obstacles import NEWER_BROWSER, Lacks, advice_of, because
from bisect_bot.targets.running import driver_version, says

_NO_WEBGPU = "navigator.gpu is missing"


def choose_target(browser: Browser, wish: str, extra: tuple[str, ...], config: BrowserConfig) -> Target:
    """The target that `browser` gives for an adapter wish, after trying the flag sets for it in order.

    Raises NoAdapter, naming every adapter that was met and what of this machine is in the way of its GPU, when none is
    of the wish; NoBrowser when the browser starts with none of the flags.
    """
    met: list[str] = []
    whys: set[str] = set()
    failed: list[NoBrowser] = []
    sets = config.flag_sets(wish)
    for flag_set in sets:
        flags = command_line(config, flag_set, extra, browser.name)
        try:
            answer = asyncio.run(_adapter_with(browser, flags, config))
        except NoBrowser as error:  # a driver may take the browser with it, and other flags do without that driver
            failed.append(error)
            met.append(f"with the {flag_set} flags: {error}")
            continue
        if answer.adapter is not None and config.fits(answer.adapter, wish):
            target = plain_target(browser, wish, extra, flag_set)
            return replace(target, adapter=answer.adapter, chosen_by=answer.versions)
        whys.add(answer.why)
        met.append(f"with the {flag_set} flags: {answer.adapter or answer.why}")
    if len(failed) == len(sets):
        raise failed[0]
    problem = f"{browser.executable.name} {browser.version} gives no GPU adapter for --adapter {wish}: {'; '.join(met)}"
    if whys == {_NO_WEBGPU}:
        raise NoAdapter(
            f"{browser.executable.name} {browser.version} has no WebGPU: {_NO_WEBGPU} with all flags",
            NEWER_BROWSER,
        )
    found = () if wish == "software" else in_the_way(Lacks.GPU)
    advice = "See which adapters the browser has at chrome://gpu; --adapter software uses the CPU."
    raise NoAdapter(problem + because(found), f"{advice_of(found)} {advice}".lstrip())


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


@dataclass(frozen=True, slots=True)
class _Answer:
    """The adapter that a started browser gave, or why it gave none, and what it says its parts are."""

    adapter: Adapter | None
    why: str = ""
    versions: tuple[str, ...] = ()


async def _adapter_with(browser: Browser, flags: tuple[str, ...], config: BrowserConfig) -> _Answer:
    """What the browser answers when it is started with `flags` and asked for its adapter. Raises NoBrowser."""
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
                return _Answer(None, "the browser hangs when it is asked for an adapter")
            header = message.frame.header
            if not header.get("supported"):
                return _Answer(None, _NO_WEBGPU)
            if not header.get("adapter"):
                return _Answer(None, "requestAdapter() answers null")
            posted = PostedAdapter.model_validate(header["adapter"])
            adapter = posted.to_adapter(config, await driver_version(running))
            return _Answer(adapter, versions=says(running.versions))
