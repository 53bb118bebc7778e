"""Every browser that is found, and what it can do with each set of flags that it may be started with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from bisect_bot.doctor.items import Item, State
from bisect_bot.errors import NoBrowser
from bisect_bot.harness.server import HarnessServer
from bisect_bot.model import Adapter
from bisect_bot.probes.decode import PostedAdapter
from bisect_bot.probes.probe import ADAPTER_ATTEMPTS
from bisect_bot.scratch import scratch
from bisect_bot.targets.browsers import Browser, BrowserConfig, command_line, identify, installed
from bisect_bot.targets.chrome import driver, launch
from bisect_bot.targets.provision import by_hand, load_config, this_machine

TARGET = "chrome"
START_S = 90.0
_SCRIPT = Path(__file__).parent / "capabilities.js"
# Features of a GPU that kernels of onnxruntime-web use, where there are any.
_FEATURES = ("shader-f16", "subgroups", "timestamp-query")


class Capabilities(BaseModel):
    """What capabilities.js answers."""

    isolated: bool
    threads: bool
    simd: bool
    relaxed_simd: bool
    jspi: bool
    float16_array: bool
    webgl: str | None
    webgpu: bool
    adapter: PostedAdapter | None
    limits: dict[str, int]


def found(config: BrowserConfig) -> tuple[Path, ...]:
    """The executable of every browser on this machine, each once; first the one that is used unless told otherwise."""
    named = os.environ.get(config.browsers[TARGET].env)
    each: dict[Path, Path] = {}
    for path in (*([Path(named)] if named else []), *installed(TARGET, config)):
        each.setdefault(path.resolve(), path)
    return tuple(each.values())


def browsers(config: BrowserConfig) -> Iterator[Item]:
    """For each browser an item, one for what its page can do, and one for its adapter with each set of flags.

    What the first one lacks is missing: another is used only where it is named.
    """
    means = "opens the test page"
    paths = found(config)
    for path in paths:
        used = path == paths[0]
        try:
            product, version = identify(path)
        except (NoBrowser, OSError) as error:
            state = State.MISSING if used else State.WARNING
            do = f"Mend it, or name another one: {config.browsers[TARGET].env}=/path."
            yield Item(key="browser", state=state, value=f"{path}: {error}", means=means, do=do, needed=used)
            continue
        yield Item(
            key="browser",
            state=State.OK,
            value=f"{product} {version} at {path}".strip(),
            means=f"{means}; used unless --target names another" if used else f"used with --target {TARGET}:{path}",
            needed=used,
            details={"path": str(path), "product": product, "version": version, "default": used},
        )
        yield from _inside(Browser(TARGET, path, version, product), config, needed=used)
    if not paths:
        do = f"Type: {by_hand(load_config(), this_machine())}"
        yield Item(key="browser", state=State.MISSING, value="none was found", means=means, do=do, needed=True)


def _inside(browser: Browser, config: BrowserConfig, *, needed: bool) -> Iterator[Item]:
    """What `browser` can do; `needed` for the one that is used unless told otherwise."""
    pages: list[Capabilities] = []
    adapters: list[Adapter] = []
    items: list[Item] = []
    for flag_set in config.flag_sets("any"):
        try:
            seen, driver_name = asyncio.run(asyncio.wait_for(_ask(browser, config, flag_set), START_S))
        except Exception as error:  # whatever it is, the next set of flags is tried
            items.append(_no_adapter(flag_set, str(error) or f"no answer within {START_S:.0f} s"))
            continue
        if seen.adapter is None:
            pages.append(seen)
            why = "requestAdapter() answers null" if seen.webgpu else "navigator.gpu is missing"
            items.append(_no_adapter(flag_set, why))
            continue
        # What is used are the flags that give an adapter.
        pages.insert(len(adapters), seen)
        adapters.append(seen.adapter.to_adapter(config, driver_name))
        items.append(_adapter(flag_set, adapters[-1], seen))
    if pages:
        yield _page(pages[0])
    else:
        told, do = "the test page does not open", "Does the browser start by hand?"
        yield Item(key="page", state=State.MISSING, value=told, means="no test runs", do=do, needed=needed)
    yield from items
    yield _webgpu(adapters, needed=needed)


def _webgpu(adapters: list[Adapter], *, needed: bool) -> Item:
    """What of WebGPU can be tested with `adapters`."""
    if not adapters:
        told, means = "no adapter", "nothing runs with the backend webgpu; wasm and webgl do"
        do = "See chrome://gpu; a GPU needs a driver with Vulkan."
        return Item(key="webgpu", state=State.MISSING, value=told, means=means, do=do, needed=needed)
    if all(adapter.software for adapter in adapters):
        told, means = "software adapters only", "failures that only a real GPU shows cannot be seen here"
        do = "Where there is a GPU: install its driver with Vulkan, and see chrome://gpu."
        return Item(key="webgpu", state=State.WARNING, value=told, means=means, do=do, needed=needed)
    means = "WebGPU runs on it with --adapter any and hardware"
    return Item(key="webgpu", state=State.OK, value="a hardware adapter", means=means, needed=needed)


def _no_adapter(flag_set: str, why: str) -> Item:
    told = f"{flag_set} flags: {why}"
    means = f"--adapter {flag_set} cannot be used"
    return Item(key="adapter", state=State.WARNING, value=told, means=means, details={"flags": flag_set, "why": why})


def _adapter(flag_set: str, adapter: Adapter, seen: Capabilities) -> Item:
    features = seen.adapter.features if seen.adapter else ()
    having = [name for name in _FEATURES if name in features]
    lacking = [name for name in _FEATURES if name not in features]
    told = "; ".join(f"{word} {', '.join(names)}" for word, names in (("has", having), ("lacks", lacking)) if names)
    named = f", driver {adapter.driver}" if adapter.driver else ""
    return Item(
        key="adapter",
        state=State.OK,
        value=f"{flag_set} flags: {adapter}{named}; {told}",
        means=f"what --adapter {'software' if adapter.software else 'hardware'} uses",
        details={
            "flags": flag_set,
            "vendor": adapter.vendor,
            "architecture": adapter.architecture,
            "device": adapter.device,
            "description": adapter.description,
            "software": adapter.software,
            "driver": adapter.driver,
            "features": list(features),
            "limits": dict(seen.limits),
            "webgl": seen.webgl,
        },
    )


def _page(seen: Capabilities) -> Item:
    abilities = {
        "crossOriginIsolated": seen.isolated,
        "wasm threads": seen.threads,
        "SIMD": seen.simd,
        "relaxed SIMD": seen.relaxed_simd,
        "JSPI": seen.jspi,
        "Float16Array": seen.float16_array,
    }
    told = ", ".join(name if there else f"no {name}" for name, there in abilities.items())
    basic = seen.simd and seen.threads and seen.isolated
    return Item(
        key="page",
        state=State.OK if basic else State.WARNING,
        value=f"{told}; WebGL: {seen.webgl or 'none'}",
        means="what builds may use" if basic else "builds from 1.19 on have no WebAssembly without SIMD and threads",
        do="" if basic else "Use a newer browser.",
        details=seen.model_dump(exclude={"adapter", "limits"}),
    )


async def _ask(browser: Browser, config: BrowserConfig, flag_set: str) -> tuple[Capabilities, str | None]:
    """What the browser, started with a set of flags, says of itself, and its GPU driver. Raises NoBrowser."""
    flags = command_line(config, flag_set, ())
    with scratch() as folder:
        async with (
            HarnessServer(None) as server,
            driver(folder) as playwright,
            launch(playwright, browser.executable, flags, folder) as running,
        ):
            await running.open(server.page_url("doctor"))
            hello = await server.receive("doctor")
            answer = await running.page.evaluate(_SCRIPT.read_text(encoding="utf-8"), ADAPTER_ATTEMPTS)
            seen = Capabilities.model_validate(answer)
            driver_name = await running.driver_version()
            hello.answer({"kind": "done"})
            return seen, driver_name
