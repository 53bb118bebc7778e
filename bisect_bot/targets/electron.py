"""Starts Electron with our own small app (harness/electron), in a process group and folder of its own.

Playwright cannot attach to old Electrons. So the app's main process connects to us: it opens pages when told to, and
tells what dies. When the connection closes, whoever closed it, Electron ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic

from bisect_bot import processes
from bisect_bot.errors import NoBrowser
from bisect_bot.scratch import Scratch
from bisect_bot.targets.display import display
from bisect_bot.targets.facts import in_the_way
from bisect_bot.targets.obstacles import Lacks, advice_of, because
from bisect_bot.targets.running import GPU_DIED, PAGE_DIED, Gpu
from bisect_bot.targets.starting import START_TIMEOUT_S, last_words, own_folders, wait_for

APP = Path(__file__).resolve().parent.parent / "harness" / "electron"
MAX_LINE = 2**26
# Electron cannot make its sandbox where users may not have namespaces and its helper is not root's.
_NO_SANDBOX = "If its sandbox is not allowed here, start it without: --browser-arg=--no-sandbox"
# Set in the terminals of programs that are Electrons themselves: ours would be no browser, or another one.
_NOT_INHERITED = ("ELECTRON_RUN_AS_NODE", "ELECTRON_OVERRIDE_DIST_PATH", "NODE_OPTIONS", "NODE_REPL_EXTERNAL_MODULE")
# Electron keeps to itself what a script throws.
_SETTLED = (
    """Promise.resolve().then(() => (%s)(%s)).then((value) => ({ value }), (error) => ({ error: String(error) }))"""
)
_VENDORS = {0x10DE: "NVIDIA", 0x1002: "AMD", 0x8086: "Intel", 0x106B: "Apple", 0x13B5: "ARM", 0x5143: "Qualcomm"}


class GpuDevice(pydantic.BaseModel):
    """One entry of `gpuDevice` in what `app.getGPUInfo` gives."""

    active: bool = False
    vendor_id: int = pydantic.Field(0, alias="vendorId")
    device_id: int = pydantic.Field(0, alias="deviceId")
    driver_vendor: str = pydantic.Field("", alias="driverVendor")
    driver_version: str = pydantic.Field("", alias="driverVersion")

    def gpu(self) -> Gpu:
        """The same in words."""
        vendor = _VENDORS.get(self.vendor_id, f"vendor 0x{self.vendor_id:04x}")
        return Gpu(f"{vendor} 0x{self.device_id:04x}", f"{self.driver_vendor} {self.driver_version}".strip())


@dataclass(slots=True)
class RunningElectron:
    """A started Electron with one window, as `running.Running` has it. `versions` are those of its parts, by name."""

    ended: asyncio.Task[int]
    pid: int
    _channel: _Channel
    crashed: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    crash: str = PAGE_DIED
    versions: Mapping[str, str] = field(default_factory=dict)
    _gpu: Mapping[str, Any] = field(default_factory=dict)
    _address: str = ""

    async def open(self, url: str) -> None:
        """Opens `url` in the window. Raises NoBrowser when Electron does not do it."""
        self._address = url
        await self._ask(do="open", url=url)
        self.left.clear()  # of what was shown before
        self.crashed.clear()

    async def evaluate(self, function: str, argument: object) -> Any:
        """What the JavaScript function `function` gives in the page for `argument`. Raises NoBrowser."""
        outcome = await self._ask(do="evaluate", script=_SETTLED % (function, json.dumps(argument)))
        if "error" in outcome:
            raise NoBrowser(f"the page does not answer: {outcome['error']}")
        return outcome.get("value")

    async def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that Electron lists, the active one first; it lists one without a name where there is none."""
        devices = [GpuDevice.model_validate(each) for each in self._gpu.get("gpuDevice") or ()]
        known = [each for each in devices if each.vendor_id or each.driver_version]
        return tuple(each.gpu() for each in sorted(known, key=lambda each: not each.active))

    def heard(self, message: Mapping[str, Any]) -> None:
        """Takes note of what Electron's main process tells."""
        if message["event"] == "ready":
            self.versions, self._gpu = message["versions"], message["gpu"] or {}
        elif message["event"] == "navigated":
            if self._address and not str(message["url"]).startswith(self._address):
                self.left.set()
        elif message["event"] == "died" and message["what"] in ("page", "gpu"):
            who = PAGE_DIED if message["what"] == "page" else GPU_DIED
            code = "" if message.get("code") is None else f", status {message['code']}"
            self.crash = f"{who} ({message['reason']}{code})"
            self.crashed.set()

    async def _ask(self, **command: object) -> Any:
        try:
            answer = await asyncio.wait_for(self._channel.ask(command), START_TIMEOUT_S)
        except (TimeoutError, ConnectionError) as error:
            raise NoBrowser(f"Electron does not answer: {error or type(error).__name__}") from error
        if "error" in answer:
            raise NoBrowser(f"Electron cannot {command['do']} in its page: {answer['error']}")
        return answer["value"]


@dataclass(slots=True)
class _Channel:
    """The connection to Electron's main process: lines of JSON. Only who knows `token` is listened to."""

    token: str
    ready: asyncio.Future[Mapping[str, Any]]
    hear: Callable[[Mapping[str, Any]], None] | None = None
    _writer: asyncio.StreamWriter | None = None
    _waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Listens to one connection to its end."""
        with contextlib.suppress(ConnectionError, ValueError, KeyError, TypeError, asyncio.CancelledError):
            while line := await reader.readline():
                self._take(json.loads(line), writer)
        writer.close()

    def _take(self, message: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        if message["event"] == "ready" and not self.ready.done():
            if not secrets.compare_digest(str(message["token"]).encode(), self.token.encode()):
                raise ValueError("not the token of this Electron")
            self._writer = writer
            self.ready.set_result(message)
        elif message["event"] == "broken" and not self.ready.done():
            self.ready.set_exception(NoBrowser(f"Electron's main process failed: {message['message']}"))
        elif writer is not self._writer:
            return  # what came before it was ready is over, and nobody else is to speak
        elif message["event"] == "done":
            waiting = self._waiting.pop(message["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif self.hear is not None:
            self.hear(message)

    async def ask(self, command: Mapping[str, object]) -> Mapping[str, Any]:
        """The answer to `command`. Raises ConnectionError when the connection closes."""
        if self._writer is None or self._writer.is_closing():
            raise ConnectionError("it is gone")
        number = next(self._numbers)
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._writer.write(json.dumps({**command, "id": number}).encode() + b"\n")
        await self._writer.drain()
        return await answer


@contextlib.asynccontextmanager
async def launch(executable: Path, flags: tuple[str, ...], folder: Scratch) -> AsyncIterator[RunningElectron]:
    """Starts `executable` with `flags` and a fresh profile in `folder`; ends its whole process group on the way out.

    Raises NoBrowser, with Electron's last words, when it ends at once or is not ready within a minute.
    """
    profile = folder.path / f"electron-{len(list(folder.path.glob('electron-*.log')))}"
    profile.mkdir()
    log = profile.with_suffix(".log")
    channel = _Channel(secrets.token_urlsafe(16), asyncio.get_running_loop().create_future())
    server = await asyncio.start_server(channel.serve, "127.0.0.1", 0, limit=MAX_LINE)
    try:
        async with display(folder) as shown:
            port = server.sockets[0].getsockname()[1]
            told = json.dumps({"port": port, "token": channel.token, "profile": str(profile)})
            env = {**os.environ, **own_folders(folder.path), **shown, "BISECT_BOT_ELECTRON": told}
            env["ELECTRON_DISABLE_SECURITY_WARNINGS"] = "1"
            env = {name: value for name, value in env.items() if name not in _NOT_INHERITED}
            process = _start([str(executable), *flags, str(APP)], env, log)
            folder.adopt(process.pid)
            ended = asyncio.create_task(wait_for(process))
            try:
                ready = await _ready(channel, ended, log)
                running = RunningElectron(ended, process.pid, channel)
                running.heard(ready)
                channel.hear = running.heard
                yield running
            finally:
                processes.kill_tree(process.pid)
                process.wait()
                ended.cancel()
    finally:
        server.close()


def _start(argv: list[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as sink:
        try:
            return processes.start(argv, env=env, output=sink.fileno())
        except OSError as error:
            raise NoBrowser(f"{argv[0]} does not start: {error}") from error


async def _ready(channel: _Channel, ended: asyncio.Task[int], log: Path) -> Mapping[str, Any]:
    """What Electron says when it is ready."""
    await asyncio.wait((channel.ready, ended), timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    if channel.ready.done():
        return channel.ready.result()
    channel.ready.cancel()
    if ended.done():
        found = in_the_way(Lacks.WINDOW)
        advice = _NO_SANDBOX if "sandbox" in log.read_text(errors="replace") else advice_of(found)
        problem = f"Electron ended at once (status {ended.result()}): {last_words(log)}"
        raise NoBrowser(problem + because(found), advice)
    found = in_the_way(Lacks.WINDOW)
    problem = f"Electron was not ready after {START_TIMEOUT_S:.0f} s: {last_words(log)}"
    raise NoBrowser(problem + because(found), advice_of(found))
