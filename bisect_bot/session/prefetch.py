"""While a probe runs, the builds are made that its answers would ask for next.

They are made one at a time by another process (`prefetch_worker`), which yields to the browser and is ended as soon as
the search wants a build that it is not making: two builds never go on at once, and nothing is waited for but what is
wanted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bisect_bot.model import Artifact, Observation, Revision
from bisect_bot.probes import Probe
from bisect_bot.session.loop import Foresight
from bisect_bot.session.prefetch_jobs import Job
from bisect_bot.session.prefetch_process import Background
from bisect_bot.session.tools import Observe
from bisect_bot.session.watcher import Watcher
from bisect_bot.targets.browsers import BrowserConfig

# Builds that are prepared for one test: what both answers ask for, and what theirs would.
MOST = 6
# The browser needs a core of its own, and a disk must not fill up with what may never be used.
CORES = 2
FREE_BYTES = 5 << 30


@dataclass(slots=True)
class Prefetch:
    """Makes builds ahead in the folder `cache`; `supplied` gives a revision's artifact, and whether it was there.

    `job_of` tells how a build is made in the background, None for one that is not.
    """

    supplied: Callable[[Revision], tuple[Artifact, bool]]
    job_of: Callable[[Revision], Job | None]
    cache: Path
    watcher: Watcher
    _foresight: Foresight | None = None
    _off: bool = False
    _fetched: set[str] = field(default_factory=set)
    _used: set[str] = field(default_factory=set)
    _background: Background = field(init=False)

    def __post_init__(self) -> None:
        self._background = Background(self.cache)

    def foresee(self, foresight: Foresight) -> None:
        """Hears, before a test, how to find out what may be wanted after it: asked when a probe really runs."""
        self._foresight = foresight

    def during(self, observe: Observe) -> Observe:
        """`observe`, with builds made ahead while it runs."""

        def observed(
            probe: Probe, browsers: BrowserConfig, on_case: Callable[[int, Observation], None]
        ) -> list[Observation]:
            self._begin()
            return observe(probe, browsers, on_case)

        return observed

    def fetch(self, revision: Revision) -> tuple[Artifact, bool]:
        """The artifact of `revision`, and whether it was in the cache before this session. Raises as `supplied`.

        Waits for it while it is made in the background; ends whatever else is made there before it is built here.
        """
        if revision.id not in self._fetched:
            self._make_way(revision)
        artifact, reused = self.supplied(revision)
        self._fetched.add(revision.id)
        mine = self._is_mine(revision.id)
        if mine:
            self._used.add(revision.id)
        return artifact, reused and not mine

    def took(self, revision: Revision) -> float:
        """The seconds that the build of `revision` took in the background; 0 where it was not made there."""
        told = self._background.told.get(revision.id)
        return told.seconds if told and told.what == "made" and not told.reused else 0.0

    def close(self) -> None:
        """Ends what is being made. Says how many builds were made ahead, and how many of them nobody asked for."""
        if self._background.begun:
            self._background.close()
        made = {name for name, told in self._background.told.items() if told.what == "made" and not told.reused}
        if made:
            unused = len(made - self._used)
            rest = f", {f'{unused} of them ' if len(made) > 1 else ''}for nothing" if unused else ""
            self.watcher.say(f"{len(made)} build{'s' if len(made) > 1 else ''} made ahead while probes ran{rest}")

    def _begin(self) -> None:
        if self._foresight is None or self._background.full or not _is_room(self.cache):
            return
        if self._is_over():
            return
        revisions, self._foresight = self._foresight(), None
        jobs = [job for each in revisions if each.id not in self._fetched and (job := self.job_of(each))]
        try:
            self._background.want(jobs[:MOST])
        except OSError as error:
            self._stop(str(error))

    def _make_way(self, revision: Revision) -> None:
        background = self._background
        if background.making == revision.id:
            self.watcher.doing(f"waiting for the build of {revision.id}, which was begun ahead")
            background.wait_for(revision.id, self.watcher.doing)
        told = background.told.get(revision.id)
        if background.making and (told is None or told.what != "made"):
            background.drop()
        self._is_over()

    def _is_over(self) -> bool:
        """Whether no more builds are made ahead: what ended the process once, may end it at every test."""
        why = self._background.ended_early()
        if why:
            self._stop(why)
        return self._off

    def _stop(self, why: str) -> None:
        self.watcher.say(f"no more builds are made ahead: {why}")
        self._off = True

    def _is_mine(self, name: str) -> bool:
        """Whether the build was made ahead, also when it was ended in the last moment, before it could say so."""
        told = self._background.told.get(name)
        return told.what == "made" and not told.reused if told else name in self._background.begun


def _is_room(cache: Path) -> bool:
    """Whether there are cores and disk for builds that may not be used."""
    return _cores() >= CORES and shutil.disk_usage(cache).free >= FREE_BYTES


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
