"""The second way to run a probe: upstream's own test runner, in a checkout of the revision."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from bisect_bot.errors import NoBrowser
from bisect_bot.model import Ending, Observation
from bisect_bot.probes.probe import OnCase
from bisect_bot.probes.types import Probe
from bisect_bot.probes.upstream.observing import Run, observed, spoils
from bisect_bot.probes.upstream.output import parse_output
from bisect_bot.probes.upstream.runner import WEB, run_cli
from bisect_bot.probes.upstream.sources import with_source
from bisect_bot.probes.upstream.transplant import Turn, transplanted, turns_of
from bisect_bot.scratch import Scratch, scratch
from bisect_bot.targets.browsers import BrowserConfig

Place = Callable[[Probe], AbstractContextManager[Path]]
WASM = ("ort-wasm*", "ort-training-wasm*")
"""Files of an artifact that the wasm part consists of, in all eras."""


def upstream_driver(
    place: Place, logs: Path, *, node: str = "node"
) -> Callable[[Probe, BrowserConfig, OnCase], list[Observation]]:
    """A function with the meaning of `run_probe`, that runs probes with upstream's own test runner.

    `place` gives the root of a checkout of the revision that the probe's artifact was made of, ready to run it:
    modules installed, `js/common` and the runner's scripts compiled. The artifact's WebAssembly goes to `js/web/dist`
    there; what was in the way is gone afterwards. What the runner prints is kept below `logs`.
    """

    def observe(probe: Probe, config: BrowserConfig, on_case: OnCase = lambda _index, _seen: None) -> list[Observation]:
        logs.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + probe.limits.probe_s
        with place(probe) as root, scratch() as folder, _served(probe, root):
            session = _Session(probe, config, root, folder, logs, node, deadline)
            return session.run(on_case)

    return observe


@dataclass(slots=True)
class _Session:
    """The runs that one probe takes: one a page, and further ones for what an error in a page leaves unanswered."""

    probe: Probe
    config: BrowserConfig
    root: Path
    folder: Scratch
    logs: Path
    node: str
    deadline: float

    def run(self, on_case: OnCase) -> list[Observation]:
        """The observations of `Probe.in_order`; `on_case` is called as each is there. Raises NoBrowser."""
        seen: dict[int, Observation] = {}
        last: Observation | None = None
        for page in turns_of(self.probe):
            if (last := self._page(page, seen, on_case)) is not None:
                break
        for index, case in enumerate(self.probe.in_order):
            if index not in seen:
                assert last is not None, "a page answers all of its cases, or none can be answered"
                seen[index] = replace(last, case=case.name, backend=self.probe.backend_of(index))
                on_case(index, seen[index])
        return [seen[index] for index in range(len(self.probe.in_order))]

    def _page(self, page: tuple[Turn, ...], seen: dict[int, Observation], on_case: OnCase) -> Observation | None:
        """Adds the observations of `page` to `seen`; gives one that holds for whatever else is run, where there is."""
        batch = page
        while left := tuple(turn for turn in page if turn.index not in seen):
            run = self._once(batch)
            answers = observed(run, batch, self.probe, seen)
            for index, observation in answers.items():
                if index not in seen:
                    seen[index] = observation
                    on_case(index, observation)
            final = next((each for each in answers.values() if run.is_hopeless or _hopeless(each)), None)
            if final is not None:
                return final
            left = tuple(turn for turn in page if turn.index not in seen)
            if any(spoils(each) for each in answers.values()):
                page = batch = left
            elif left:
                # Something in the page ended it. One case more at a time tells which, with what ran before it.
                batch = page[: page.index(left[0]) + 1]
        return None

    def _once(self, turns: Sequence[Turn]) -> Run:
        """One run of the runner with `turns`."""
        if time.monotonic() >= self.deadline:
            return Run(parse_output(""), None, Ending.HARNESS, None)
        prefix = f"upstream-{self.probe.artifact.digest[-12:]}-"
        handle, log = tempfile.mkstemp(prefix=prefix, suffix=".log", dir=self.logs)
        os.close(handle)
        backends = ",".join(dict.fromkeys(turn.backend for turn in turns))
        with transplanted(turns, self.root) as words:
            ended = run_cli(
                [*words, "--backend", backends],
                self.root,
                self.probe.target,
                self.config,
                self.folder,
                Path(log),
                node=self.node,
                case_s=self.probe.limits.case_s,
                deadline=self.deadline,
            )
        output = with_source(parse_output(ended.text), self.root / WEB)
        run = Run(output, ended.status, ended.why, ended.log)
        if ended.why is None and run.output.started and not run.output.connected:
            raise NoBrowser(f"upstream's test runner started no browser: {run.complaint}", f"See {ended.log}")
        return run


def _hopeless(observation: Observation) -> bool:
    """Whether no later case can go better."""
    return observation.ending in (Ending.NO_WEBGPU, Ending.NO_ADAPTER)


@contextlib.contextmanager
def _served(probe: Probe, root: Path) -> Iterator[None]:
    """The artifact's WebAssembly in the folder that the runner's page loads it from, while it runs.

    It is copied: the runner builds its bundles into that folder, and nobody knows what else an era writes there.
    """
    dist = root / WEB / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    try:
        for path in (path for pattern in WASM for path in probe.artifact.directory.glob(pattern)):
            shutil.copyfile(path, dist / path.name)
        yield
    finally:
        shutil.rmtree(dist, ignore_errors=True)
