"""Every browser that is found, and what it can do with each set of flags that it may be started with."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, JsonValue

from bisect_bot.doctor.compared import Examined, Keep, apart, nothing_kept
from bisect_bot.doctor.items import Item, State
from bisect_bot.errors import NoBrowser
from bisect_bot.harness.server import HarnessServer
from bisect_bot.model import Adapter, Target
from bisect_bot.probes.adapter import plain_target
from bisect_bot.probes.decode import PostedAdapter
from bisect_bot.probes.probe import ADAPTER_ATTEMPTS
from bisect_bot.scratch import scratch
from bisect_bot.targets import electrons
from bisect_bot.targets.browsers import (
    Browser,
    BrowserConfig,
    check_name,
    command_line,
    identify,
    installed,
    kind_of,
    locate,
)
from bisect_bot.targets.facts import in_the_way
from bisect_bot.targets.launcher import launcher
from bisect_bot.targets.obstacles import Lacks, advice_of, because
from bisect_bot.targets.provision import by_hand, load_config, this_machine
from bisect_bot.targets.running import Gpu, says

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
    by_power: dict[str, PostedAdapter | None]
    limits: dict[str, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a started browser tells: its page, the GPUs that it lists, and the versions of its parts."""

    page: Capabilities
    gpus: tuple[Gpu, ...]
    versions: Mapping[str, str]

    def adapter(self, posted: PostedAdapter, config: BrowserConfig) -> Adapter:
        """The adapter that the page posted, with the driver of the GPU in use."""
        return posted.to_adapter(config, (self.gpus[0].driver or None) if self.gpus else None)


def found(config: BrowserConfig, target: str = TARGET) -> tuple[Path, ...]:
    """The executable of every browser for `target`, each once; first the one that is used unless told otherwise."""
    named = os.environ.get(config.browsers[target].env)
    each: dict[Path, Path] = {}
    for path in (*([Path(named)] if named else []), *installed(target, config)):
        each.setdefault(path.resolve(), path)
    return tuple(each.values())


def browsers(config: BrowserConfig, named: Sequence[str] = (), keep: Keep = nothing_kept) -> Iterator[Item]:
    """For each browser an item, one for what its page can do, and one for its adapter with each set of flags.

    These are the ones that are `named` as targets (`chrome:/path`), or all that are found. What the first one lacks, or
    any that is named, is missing: another is used only where it is named. `keep` hears what each gave. Raises
    UsageError for a name that nobody knows.
    """
    if named:
        yield from _named(config, named, keep)
        return
    told: set[Path] = set()
    for target in sorted(config.browsers, key=lambda name: name != TARGET):
        paths = [path for path in found(config, target) if path.resolve() not in told]
        told |= {path.resolve() for path in paths}
        yield from of_target(target, paths, config, keep)


def _named(config: BrowserConfig, named: Sequence[str], keep: Keep) -> Iterator[Item]:
    """What `browsers` tells of targets that were named, and last what tells them apart."""
    seen: list[Examined] = []

    def note(browser: Browser, gave: Mapping[str, Target]) -> tuple[str, ...]:
        seen.append(Examined(called, browser, gave))
        return keep(browser, gave)

    for target in named:
        check_name(target, config)
    for target in named:
        kind = target.partition(":")[0]
        same = sum(kind_of(each.called) == kind for each in seen)
        called = f"{kind}-{same + 1}" if same else kind
        means = f"what --target {target} is"
        try:
            browser = locate(target, config)
        except NoBrowser as error:
            problem = str(error)
            yield Item(key="browser", state=State.MISSING, value=problem, means=means, do=error.advice, needed=True)
            continue
        details: dict[str, JsonValue] = {"target": browser.name, "name": called, "path": str(browser.executable)}
        details |= {"product": browser.product, "version": browser.version, "default": False}
        told = f"{called}: {browser.product} {browser.version} at {browser.executable}"
        yield Item(key="browser", state=State.OK, value=told, means=means, needed=True, details=details)
        yield from _inside(browser, config, note, needed=True)
    if len(seen) > 1:
        yield apart(seen)


def of_target(target: str, paths: list[Path], config: BrowserConfig, keep: Keep = nothing_kept) -> Iterator[Item]:
    """What `browsers` tells of the ones at `paths`, which serve `target`."""
    means = "opens the test page"
    for path in paths:
        used = target == TARGET and path == paths[0]
        try:
            product, version = identify(path)
        except (NoBrowser, OSError) as error:
            state = State.MISSING if used else State.WARNING
            do = f"Mend it, or name another one: {config.browsers[target].env}=/path."
            yield Item(key="browser", state=state, value=f"{path}: {error}", means=means, do=do, needed=used)
            continue
        yield Item(
            key="browser",
            state=State.OK,
            value=f"{product} {version} at {path}".strip(),
            means=f"{means}; used unless --target names another" if used else f"used with --target {target}:{path}",
            needed=used,
            details={"target": target, "path": str(path), "product": product, "version": version, "default": used},
        )
        yield from _inside(Browser(target, path, version, product), config, keep, needed=used)
    if config.browsers[target].engine == "electron":
        yield from _electrons(config, any_there=bool(paths))
    elif target == TARGET and not paths:
        do = f"Type: {by_hand(load_config(), this_machine())}"
        yield Item(key="browser", state=State.MISSING, value="none was found", means=means, do=do, needed=True)


def _electrons(config: BrowserConfig, *, any_there: bool) -> Iterator[Item]:
    """The Electrons that were downloaded and not unpacked yet; or that there is none at all."""
    kept = electrons.downloads(config.electron, sys.platform)
    for version, archive in kept:
        yield Item(
            key="browser",
            state=State.OK,
            value=f"Electron {version}, packed, at {archive}",
            means=f"used with --target electron:{version}",
            details={"target": "electron", "path": str(archive), "product": "Electron", "version": version},
        )
    if not kept and not any_there:
        means = "nothing runs with --target electron"
        yield Item(key="browser", state=State.WARNING, value="no Electron was found", means=means, do=electrons.ADVICE)


def _inside(browser: Browser, config: BrowserConfig, keep: Keep, *, needed: bool) -> Iterator[Item]:
    """What `browser` can do; `needed` for the one that is used unless told otherwise."""
    pages: list[Seen] = []
    adapters: list[Adapter] = []
    items: list[Item] = []
    gave: dict[str, Target] = {}
    failed: NoBrowser | None = None
    for flag_set in config.flag_sets("any"):
        gave[flag_set] = plain_target(browser, "any", (), flag_set)
        try:
            seen = asyncio.run(asyncio.wait_for(_ask(browser, config, flag_set), START_S))
        except Exception as error:  # whatever it is, the next set of flags is tried
            failed = error if isinstance(error, NoBrowser) else failed
            items.append(_no_adapter(flag_set, str(error) or f"no answer within {START_S:.0f} s"))
            continue
        if seen.page.adapter is None:
            pages.append(seen)
            why = "requestAdapter() answers null" if seen.page.webgpu else "navigator.gpu is missing"
            items.append(_no_adapter(flag_set, why))
            continue
        # What is used are the flags that give an adapter.
        pages.insert(len(adapters), seen)
        adapters.append(seen.adapter(seen.page.adapter, config))
        items.append(_adapter(flag_set, adapters[-1], seen, config))
        gave[flag_set] = replace(gave[flag_set], adapter=adapters[-1], chosen_by=says(seen.versions))
    if pages:
        yield _page(pages[0].page, pages[0].versions)
        yield from _gpus(max(pages, key=lambda each: len(each.gpus)).gpus)
    else:
        told = f"the test page does not open{f': {failed}' if failed else ''}"
        do = (failed.advice if failed else "") or "Does the browser start by hand?"
        yield Item(key="page", state=State.MISSING, value=told, means="no test runs", do=do, needed=needed)
    yield from _another_version(browser, pages)
    yield from items
    remembered = keep(browser, gave)
    yield _webgpu(adapters, remembered, needed=needed, too_old=bool(pages) and not any(p.page.webgpu for p in pages))


def _gpus(gpus: tuple[Gpu, ...]) -> Iterator[Item]:
    """The GPUs that a browser lists, whether or not WebGPU runs on them."""
    for number, gpu in enumerate(gpus):
        means = "the GPU that the browser uses" if number == 0 else "another GPU of this machine"
        details: dict[str, object] = {"name": gpu.name, "driver": gpu.driver or None, "in_use": number == 0}
        yield Item.model_validate(
            {"key": "gpu", "state": State.OK, "value": str(gpu), "means": means, "details": details}
        )


def _another_version(browser: Browser, pages: Sequence[Seen]) -> Iterator[Item]:
    """That the started browser is of another version than the file told: a script in its place starts another one."""
    said = pages[0].versions.get("electron" if "electron" in pages[0].versions else "chrome") if pages else None
    if said and said != browser.version:
        told = f"{browser.executable} tells the version {browser.version}, and starts {said}"
        means = "reports name the version that is told; verdicts are kept apart by both"
        yield Item(key="version", state=State.WARNING, value=told, means=means, details={"started": said})


def _webgpu(adapters: list[Adapter], remembered: tuple[str, ...], *, needed: bool, too_old: bool) -> Item:
    """What of WebGPU can be tested with `adapters`; the wishes for which that is `remembered`."""
    wishes = " and ".join(f"--adapter {wish}" for wish in remembered)
    kept = f"; the flags for {wishes} are remembered" if remembered else ""
    details: dict[str, JsonValue] = {"remembered": list[JsonValue](remembered)}
    if any(not adapter.software for adapter in adapters):
        means = f"WebGPU runs on it with --adapter any and hardware{kept}"
        return Item(
            key="webgpu", state=State.OK, value="a hardware adapter", means=means, needed=needed, details=details
        )
    found = () if too_old else in_the_way(Lacks.GPU)
    if too_old:
        told, means = "this browser has no navigator.gpu", "nothing runs with the backend webgpu; wasm and webgl do"
        do, state = "Use a newer browser.", State.MISSING
    elif not adapters:
        told, means = "no adapter", "nothing runs with the backend webgpu; wasm and webgl do"
        do = advice_of(found) or "See chrome://gpu; a GPU needs a driver with Vulkan."
        state = State.MISSING
    else:
        told, means = "software adapters only", f"failures that only a real GPU shows cannot be seen here{kept}"
        do = advice_of(found) or "Where there is a GPU: install its driver with Vulkan, and see chrome://gpu."
        state = State.WARNING
    return Item.model_validate(
        {
            "key": "webgpu",
            "state": state,
            "value": told + because(found),
            "means": means,
            "do": do,
            "needed": needed,
            "details": details,
        }
    )


def _no_adapter(flag_set: str, why: str) -> Item:
    told = f"{flag_set} flags: {why}"
    means = f"--adapter {flag_set} cannot be used"
    return Item(key="adapter", state=State.WARNING, value=told, means=means, details={"flags": flag_set, "why": why})


def _adapter(flag_set: str, adapter: Adapter, seen: Seen, config: BrowserConfig) -> Item:
    features = seen.page.adapter.features if seen.page.adapter else ()
    having = [name for name in _FEATURES if name in features]
    lacking = [name for name in _FEATURES if name not in features]
    told = "; ".join(f"{word} {', '.join(names)}" for word, names in (("has", having), ("lacks", lacking)) if names)
    named = f", driver {adapter.driver}" if adapter.driver else ""
    powers = {power: str(posted.to_adapter(config)) if posted else None for power, posted in seen.page.by_power.items()}
    return Item(
        key="adapter",
        state=State.OK,
        value=f"{flag_set} flags: {adapter}{named}; {told}{_other_powers(powers, str(adapter))}",
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
            "limits": dict(seen.page.limits),
            "webgl": seen.page.webgl,
            "by_power": dict(powers),
        },
    )


def _other_powers(powers: Mapping[str, str | None], usual: str) -> str:
    """Which other adapters a page gets that asks for low power or high performance; tests ask for neither."""
    others = [f"{power}: {adapter or 'none'}" for power, adapter in powers.items() if adapter != usual]
    return f"; {'; '.join(others)}" if others else ""


def _page(seen: Capabilities, versions: Mapping[str, str]) -> Item:
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
        details={**seen.model_dump(exclude={"adapter", "by_power", "limits"}), "versions": dict(versions)},
    )


async def _ask(browser: Browser, config: BrowserConfig, flag_set: str) -> Seen:
    """What the browser, started with a set of flags, says of itself. Raises NoBrowser."""
    flags = command_line(config, flag_set, (), browser.name)
    with scratch() as folder:
        async with (
            HarnessServer(None) as server,
            launcher(browser.name, config, folder) as launch,
            launch(browser.executable, flags) as running,
        ):
            await running.open(server.page_url("doctor"))
            hello = await server.receive("doctor")
            answer = await running.evaluate(_SCRIPT.read_text(encoding="utf-8"), ADAPTER_ATTEMPTS)
            seen = Capabilities.model_validate(answer)
            gpus = await running.gpus()
            hello.answer({"kind": "done"})
            return Seen(seen, gpus, running.versions)
