"""One probe: some cases, in order, with one artifact in one browser, on one backend.

The page asks for a case, runs it and posts what came of it. Here is the policy around that: when the page is
reloaded, how long it may take, and what is done when it crashes or hangs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from playwright.async_api import Playwright

from bisect_bot.harness.frames import Frame
from bisect_bot.harness.server import HarnessServer, Message
from bisect_bot.model import Case, Ending, Observation, PageError, Stage
from bisect_bot.probes.decode import decode_result, results_in
from bisect_bot.probes.jobs import jobs, size_of
from bisect_bot.probes.types import Probe
from bisect_bot.scratch import Scratch, scratch
from bisect_bot.targets.browsers import BrowserConfig, command_line
from bisect_bot.targets.chrome import RunningBrowser, driver, launch

ADAPTER_ATTEMPTS = 12
HELLO_TIMEOUT_S = 60.0
BATCH_CASES = 32
BATCH_BYTES = 8 * 2**20

OnCase = Callable[[int, Observation], None]


def run_probe(probe: Probe, config: BrowserConfig, on_case: OnCase = lambda _index, _seen: None) -> list[Observation]:
    """Runs `probe` in a fresh browser; one observation per case of `probe.in_order`.

    `on_case(index, observation)` is called as each is done. A case that crashes or hangs the browser costs a
    restart and nothing else. Raises NoBrowser when the browser does not start.
    """
    return asyncio.run(_run(probe, config, on_case))


async def _run(probe: Probe, config: BrowserConfig, on_case: OnCase) -> list[Observation]:
    run = _Run(probe, config, on_case, deadline=time.monotonic() + probe.limits.probe_s)
    with scratch() as folder:
        async with HarnessServer(probe.artifact.directory) as server, driver(folder) as playwright:
            while run.pending:
                await run.one_browser(playwright, server, folder)
    return run.done


class _BrowserLost(Exception):
    """The page or browser can serve no more cases; the case in flight was recorded."""


@dataclass(slots=True)
class _Run:
    probe: Probe
    config: BrowserConfig
    on_case: OnCase
    deadline: float
    done: list[Observation] = field(default_factory=list)
    pages: int = 0

    @property
    def pending(self) -> bool:
        return len(self.done) < len(self.probe.in_order)

    async def one_browser(self, playwright: Awaitable[Playwright], server: HarnessServer, folder: Scratch) -> None:
        """Starts a browser and runs pending cases in it until none is left or the browser is of no more use."""
        target = self.probe.target
        flags = command_line(self.config, target.flags or None, target.extra_args)
        async with launch(playwright, Path(target.executable), flags, folder) as browser:
            self.pages += 1
            page = str(self.pages)
            await browser.open(server.page_url(page))
            try:
                await self._serve(browser, server, page)
            except _BrowserLost:
                return

    async def _serve(self, browser: RunningBrowser, server: HarnessServer, page: str) -> None:
        """Answers the page's requests for work until nothing is pending."""
        message = await self._hello(browser, server, page)
        while self.pending:
            batch = self._batch()
            message.answer(*jobs(self.probe, batch, ADAPTER_ATTEMPTS))
            while self.pending and len(self.done) in batch:
                message = await self._next(browser, server, page, self.probe.limits.case_s)
                if message.frame.header.get("kind") != "results":
                    self._interrupted(message)
                    break
                if self._take(message.frame) and self.pending:
                    message.answer({"kind": "reload"})
                    message = await self._hello(browser, server, page)
                    break
                if self.pending and len(self.done) in batch:
                    message.answer({"kind": "go on"})
        message.answer({"kind": "done"})

    def _take(self, frame: Frame) -> bool:
        """Records the results in `frame`, up to one after which the page is of no more use: then returns True."""
        for result in results_in(frame):
            if not self.pending:
                return False
            index = len(self.done)
            observation = self._observed(result, index)
            self._record(observation)
            if _hopeless(observation):
                while self.pending:
                    self._record(_again(observation, self.probe.in_order[len(self.done)]))
            if self.probe.needs_fresh_page(observation, index):
                return True
        return False

    def _batch(self) -> range:
        """The cases sent to the page in one message: so many small ones that their way there costs nothing."""
        first = len(self.done)
        size = size_of(self.probe.in_order[first])
        for index in range(first + 1, len(self.probe.in_order)):
            size += size_of(self.probe.in_order[index])
            if size > BATCH_BYTES or index - first == BATCH_CASES or not self.probe.shares_page(index):
                return range(first, index)
        return range(first, len(self.probe.in_order))

    def _interrupted(self, message: Message) -> None:
        """Records what it means that the page says something else than a result while a case is in flight."""
        header = message.frame.header
        if header.get("kind") == "broken":
            self._record(self._failed(Ending.HARNESS, str(header.get("message"))))
            raise _BrowserLost
        # The page began anew: something in the case navigated it.
        self._record(self._failed(Ending.ERROR, "the page was left or reloaded during the case", Stage.RUN))

    async def _hello(self, browser: RunningBrowser, server: HarnessServer, page: str) -> Message:
        """The greeting of a page that was just loaded. Results of cases that it dropped before are dropped here."""
        while True:
            message = await self._next(browser, server, page, HELLO_TIMEOUT_S, in_case=False)
            if message.frame.header.get("kind") == "hello":
                return message

    async def _next(
        self, browser: RunningBrowser, server: HarnessServer, page: str, limit_s: float, in_case: bool = True
    ) -> Message:
        """The page's next message; or what happened to the case in flight is recorded and _BrowserLost raised.

        Outside a case (`in_case` False) whatever happens is our page's failure, not the next case's.
        """
        left = self.deadline - time.monotonic()
        received = asyncio.create_task(server.receive(page))
        crashed = asyncio.create_task(browser.crashed.wait())
        try:
            await asyncio.wait(
                (received, crashed, browser.ended),
                timeout=max(0.0, min(limit_s, left)),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if received.done():
                return received.result()
            if browser.ended.done():
                ending, why = Ending.BROWSER_GONE, f"the browser ended (status {browser.ended.result()})"
            elif crashed.done():
                ending, why = Ending.CRASH, "the page's process crashed"
            elif left <= limit_s:
                self._give_up()
                raise _BrowserLost
            else:
                ending, why = Ending.HANG, f"no answer within {limit_s:.0f} s"
        finally:
            received.cancel()
            crashed.cancel()
        self._record(self._failed(ending if in_case else Ending.HARNESS, why))
        raise _BrowserLost

    def _give_up(self) -> None:
        """Records that the pending cases were not finished: the probe's time is over, which says nothing of them."""
        limit = f"the probe's limit of {self.probe.limits.probe_s:.0f} s passed (--probe-timeout)"
        while self.pending:
            self._record(self._failed(Ending.HARNESS, f"not finished: {limit}"))

    def _record(self, observation: Observation) -> None:
        self.done.append(observation)
        self.on_case(len(self.done) - 1, observation)

    def _observed(self, frame: Frame, index: int) -> Observation:
        """The observation in a result's frame; an adapter that was not asked for overrules whatever it says."""
        blank = replace(self._failed(Ending.HARNESS, "the page's answer makes no sense"), errors=())
        observation = decode_result(frame, index, blank, self.config)
        found, used = self.probe.target.adapter, observation.adapter
        if used is None:
            return observation
        # A driver that went away leaves a software adapter behind, which `any` would take without a word.
        turned = found is not None and self.config.is_software(found) != self.config.is_software(used)
        if turned or not self.config.fits(used, self.probe.target.wish):
            return replace(observation, ending=Ending.WRONG_ADAPTER)
        return observation

    def _failed(self, ending: Ending, why: str, stage: Stage = Stage.HARNESS) -> Observation:
        """The observation of the case in flight when nothing came back from it."""
        case = self.probe.in_order[len(self.done)]
        return Observation(
            case=case.name,
            artifact=self.probe.artifact.digest,
            bundle=self.probe.bundle.file,
            backend=self.probe.backend_of(len(self.done)),
            ending=ending,
            errors=(PageError(stage, why),),
            adapter=self.probe.target.adapter,
        )


def _hopeless(observation: Observation) -> bool:
    """Whether no later case can go better: no adapter, or the bundle does not load."""
    if observation.ending in (Ending.NO_WEBGPU, Ending.NO_ADAPTER):
        return True
    return observation.ending == Ending.ERROR and observation.errors[0].stage == Stage.LOAD


def _again(observation: Observation, case: Case) -> Observation:
    """The same ending for another case."""
    return replace(observation, case=case.name, times_ms=(), console=())
