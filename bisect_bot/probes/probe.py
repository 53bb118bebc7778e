"""One probe: some cases, in order, with one artifact in one browser, on one backend.

The page asks for a case, runs it and posts what came of it. Here is the policy around that: when the page is
reloaded, how long it may take, and what is done when it crashes or hangs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bisect_bot.harness.frames import Frame
from bisect_bot.harness.server import HarnessServer, Message
from bisect_bot.model import Adapter, Case, CaseKind, Ending, Observation, PageError, Stage
from bisect_bot.probes.decode import Progress, decode_progress, decode_result, reason_of
from bisect_bot.probes.jobs import assets, jobs, size_of
from bisect_bot.probes.memory import OUT_OF_MEMORY, memory_limit, outgrown
from bisect_bot.probes.operations import began, merge_pages, whole
from bisect_bot.probes.types import Probe
from bisect_bot.scratch import scratch
from bisect_bot.targets.browsers import BrowserConfig, command_line
from bisect_bot.targets.launcher import launcher
from bisect_bot.targets.running import Launch, Running

ADAPTER_ATTEMPTS = 12
HELLO_TIMEOUT_S = 60.0
BATCH_CASES = 32
BATCH_BYTES = 8 * 2**20
LEFT = "the page was left or reloaded during the case"
SPOILT = "the script broke its page"

OnCase = Callable[[int, Observation], None]


def run_probe(probe: Probe, config: BrowserConfig, on_case: OnCase = lambda _index, _seen: None) -> list[Observation]:
    """Runs `probe` in a fresh browser; one observation per smoke case and per case, in order.

    `on_case(index, observation)` is called as each is done in all its pages. A case that fails in one is not run in
    further ones. A case that crashes or hangs the browser costs a
    restart and nothing else. Raises NoBrowser when the browser does not start.
    """
    return asyncio.run(_run(probe, config, on_case))


async def _run(probe: Probe, config: BrowserConfig, on_case: OnCase) -> list[Observation]:
    run = _Run(probe, config, on_case, deadline=time.monotonic() + probe.limits.probe_s)
    with scratch() as folder:
        async with (
            HarnessServer(probe.artifact.directory, assets(probe)) as server,
            launcher(probe.target.name, config, folder) as launch,
        ):
            while run.pending:
                await run.one_browser(launch, server)
    return run.answers()


class _BrowserLost(Exception):
    """The page or browser can serve no more cases; the case in flight was recorded."""


@dataclass(slots=True)
class _Run:
    probe: Probe
    config: BrowserConfig
    on_case: OnCase
    deadline: float
    # By index of `probe.in_order`; None for a case that had failed in an earlier page.
    done: list[Observation | None] = field(default_factory=list)
    pages: int = 0
    # The script in whose page something made no sense: that may be chance once.
    suspect: int | None = None
    # How far the case in flight came.
    progress: Progress = field(default_factory=Progress)

    @property
    def pending(self) -> bool:
        return len(self.done) < len(self.probe.in_order)

    def answers(self) -> list[Observation]:
        return [self._answer(first) for first in range(self.probe.smokes + len(self.probe.cases))]

    def _answer(self, first: int) -> Observation:
        """What the case that is first run at `first` did in all the pages that it was run in."""
        turns = [each for each in self.probe.turns(first) if each < len(self.done)]
        return merge_pages([seen for each in turns if (seen := self.done[each]) is not None])

    async def one_browser(self, launch: Launch, server: HarnessServer) -> None:
        """Starts a browser and runs pending cases in it until none is left or the browser is of no more use."""
        target = self.probe.target
        flags = command_line(self.config, target.flags or None, target.extra_args, target.name)
        async with launch(Path(target.executable), flags) as browser:
            self.pages += 1
            page = str(self.pages)
            await browser.open(server.page_url(page))
            try:
                await self._serve(browser, server, page)
            except _BrowserLost:
                return

    async def _serve(self, browser: Running, server: HarnessServer, page: str) -> None:
        """Answers the page's requests for work until nothing is pending."""
        message = await self._hello(browser, server, page)
        while self.pending:
            batch = self._batch()
            script = self.probe.in_order[batch[0]].kind is CaseKind.SCRIPT
            message.answer(*jobs(self.probe, batch, ADAPTER_ATTEMPTS))
            while self.pending and len(self.done) in batch:
                message = await self._next(browser, server, page, self.probe.limits.case_s)
                if message.frame.header.get("kind") == "progress":
                    self._progressed(message.frame)
                    message.answer({"kind": "go on"})
                    continue
                if message.frame.header.get("kind") != "result":
                    self._interrupted(message)
                    break
                if self._take(message.frame) and self.pending:
                    if script:
                        break
                    message.answer({"kind": "reload"})
                    message = await self._hello(browser, server, page)
                    break
                if self.pending and len(self.done) in batch:
                    message.answer({"kind": "go on"})
            if script and self.pending:
                # It may have left anything behind (a timer, a worker, a window): no other case runs beside that.
                raise _BrowserLost
        message.answer({"kind": "done"})

    def _take(self, frame: Frame) -> bool:
        """Records the result in `frame`; returns whether the page is of no more use after it."""
        index = len(self.done)
        observation = self._observed(frame, index)
        script = self.probe.in_order[index].kind is CaseKind.SCRIPT
        if observation.ending is Ending.HARNESS:
            self._makes_no_sense(observation.errors[0].message)
            return True
        if script and observation.ending is Ending.COMPLETED and [len(s.outputs) for s in observation.steps] != [1]:
            self._makes_no_sense("the script came to its end without what it gave")
            return True
        self._record(observation)
        if _hopeless(observation):
            while self.pending:
                self._record(_again(observation, self.probe.in_order[len(self.done)]))
        return self.probe.needs_fresh_page(observation, index, len(self.done))

    def _makes_no_sense(self, why: str) -> None:
        """Records that the page said something that makes no sense, or nothing when the case is worth another try.

        Our page failed; but a script may have replaced what the page is made of, and has when it happens again.
        """
        index = len(self.done)
        if self.probe.in_order[index].kind is not CaseKind.SCRIPT:
            self._record(self._failed(Ending.HARNESS, why))
        elif self.suspect != index:
            self.suspect = index
        else:
            self._record(self._failed(Ending.ERROR, SPOILT, Stage.RUN))

    def _batch(self) -> range:
        """The cases sent to the page in one message: so many small ones that their way there costs nothing."""
        first = len(self.done)
        size = size_of(self.probe.in_order[first])
        for index in range(first + 1, len(self.probe.in_order)):
            size += size_of(self.probe.in_order[index])
            full = size > BATCH_BYTES or index - first == BATCH_CASES
            if full or not self.probe.shares_page(index) or self._is_settled(index):
                return range(first, index)
        return range(first, len(self.probe.in_order))

    def _progressed(self, frame: Frame) -> None:
        """Takes note of how far the case in flight came."""
        try:
            self.progress = decode_progress(frame, len(self.done), self.progress)
        except ValueError as error:
            self._makes_no_sense(f"the page's progress makes no sense: {reason_of(error)}")
            raise _BrowserLost from error

    def _interrupted(self, message: Message) -> None:
        """Records what it means that the page says something else than a result while a case is in flight."""
        header = message.frame.header
        if header.get("kind") == "broken":
            self._makes_no_sense(str(header.get("message")))
            raise _BrowserLost
        # The page began anew: something in the case navigated it.
        self._record(self._failed(Ending.ERROR, LEFT, Stage.RUN))

    async def _hello(self, browser: Running, server: HarnessServer, page: str) -> Message:
        """The greeting of a page that was just loaded. Results of cases that it dropped before are dropped here."""
        while True:
            message = await self._next(browser, server, page, HELLO_TIMEOUT_S, in_case=False)
            if message.frame.header.get("kind") == "hello":
                return message

    async def _next(
        self, browser: Running, server: HarnessServer, page: str, limit_s: float, in_case: bool = True
    ) -> Message:
        """The page's next message; or what happened to the case in flight is recorded and _BrowserLost raised.

        Outside a case (`in_case` False) whatever happens is our page's failure, not the next case's.
        """
        left = self.deadline - time.monotonic()
        stage = Stage.HARNESS
        received = asyncio.create_task(server.receive(page))
        crashed = asyncio.create_task(browser.crashed.wait())
        gone = asyncio.create_task(browser.left.wait())
        full = asyncio.create_task(self._memory_spent(browser, in_case))
        try:
            await asyncio.wait(
                (received, crashed, gone, full, browser.ended),
                timeout=max(0.0, min(limit_s, left)),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if received.done():
                return received.result()
            if browser.ended.done():
                ending, why = Ending.BROWSER_GONE, f"the browser ended (status {browser.ended.result()})"
            elif crashed.done():
                ending, why = Ending.CRASH, browser.crash
            elif full.done():
                ending, why = Ending.CRASH, f"{OUT_OF_MEMORY}: more than {full.result() / 2**30:.3g} GiB"
            elif gone.done():
                ending, why, stage = Ending.ERROR, LEFT, Stage.RUN
            elif left <= limit_s:
                self._give_up()
                raise _BrowserLost
            else:
                ending, why = Ending.HANG, f"no answer within {limit_s:.0f} s"
        finally:
            for task in (received, crashed, gone, full):
                task.cancel()
        self._record(self._failed(ending, why, stage) if in_case else self._failed(Ending.HARNESS, why))
        raise _BrowserLost

    async def _memory_spent(self, browser: Running, in_case: bool) -> int:
        """Ends when a script in flight took more memory than it may: the limit, in bytes."""
        if not in_case or self.probe.in_order[len(self.done)].kind is not CaseKind.SCRIPT:
            await asyncio.Event().wait()
        limit = memory_limit(self.config.common.script_memory_gib)
        await outgrown(browser.pid, limit)
        return limit

    def _give_up(self) -> None:
        """Records that the pending cases were not finished: the probe's time is over, which says nothing of them."""
        limit = f"the probe's limit of {self.probe.limits.probe_s:.0f} s passed (--probe-timeout)"
        while self.pending:
            self._record(self._failed(Ending.HARNESS, f"not finished: {limit}"))

    def _record(self, observation: Observation) -> None:
        """Notes what the case in flight did in this page; the next one is in flight then."""
        first = self.probe.first_of(len(self.done))
        last = len(self.done) == self.probe.turns(first)[-1] or _is_over(observation)
        self.done.append(observation)
        self.progress = Progress()
        while self.pending and self._is_settled(len(self.done)):
            self.done.append(None)
        if last:
            self.on_case(first, self._answer(first))

    def _is_settled(self, index: int) -> bool:
        """Whether the case at `index` failed in an earlier page."""
        before = (each for each in self.probe.turns(self.probe.first_of(index)) if each < len(self.done))
        return any((seen := self.done[each]) is None or _is_over(seen) for each in before)

    def _observed(self, frame: Frame, index: int) -> Observation:
        """The observation in a result's frame; an adapter that was not asked for overrules whatever it says."""
        blank = replace(self._failed(Ending.HARNESS, "the page's answer makes no sense"), errors=())
        observation = decode_result(frame, index, blank, self.config, self.progress)
        observation = whole(observation, self.probe.plan_of(index))
        found, used = self.probe.target.adapter, observation.adapter
        if used is None:
            return observation
        # A driver that went away leaves a software adapter behind, which `any` would take without a word.
        turned = found is not None and self.config.is_software(found) != self.config.is_software(used)
        # Of two GPUs the page may get the one that was not looked at; its verdicts are not those of the other.
        turned = turned or (found is not None and _is_another(found, used))
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
            steps=began(self.progress.steps, self.progress.step) if self.progress.step else (),
            errors=(PageError(stage, why, step=self.progress.step),),
            adapter=self.probe.target.adapter,
        )


def _is_another(found: Adapter, used: Adapter) -> bool:
    """Whether two adapters are of other vendors or architectures; what either does not say tells nothing."""
    pairs = ((found.vendor, used.vendor), (found.architecture, used.architecture))
    return any(one and other and one != other for one, other in pairs)


def _is_over(observation: Observation) -> bool:
    """Whether its case is not to be run in further pages."""
    return observation.ending is not Ending.COMPLETED


def _hopeless(observation: Observation) -> bool:
    """Whether no later case can go better: no adapter, or the bundle does not load."""
    if observation.ending in (Ending.NO_WEBGPU, Ending.NO_ADAPTER):
        return True
    return observation.ending == Ending.ERROR and observation.errors[0].stage == Stage.LOAD


def _again(observation: Observation, case: Case) -> Observation:
    """The same ending for another case."""
    return replace(observation, case=case.name, times_ms=(), console=())
