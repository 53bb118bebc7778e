"""Builds made ahead: by a real process, of real commits of a small upstream, and gone with whoever wanted them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from bisect_bot.builds.housekeeping import UNFINISHED, take_stock
from bisect_bot.builds.yard import Yard
from bisect_bot.errors import BuildUnusable
from bisect_bot.history import commits as history
from bisect_bot.history.clone import open_clone
from bisect_bot.model import Artifact, Request, Revision
from bisect_bot.probes import Probe
from bisect_bot.processes import started_at
from bisect_bot.session import prefetch as bounds
from bisect_bot.session.prefetch import Prefetch
from bisect_bot.session.prefetch_jobs import JOB, CommitJob, Job, PublishedJob, make, may_prefetch
from bisect_bot.session.prefetch_process import Background
from bisect_bot.session.watcher import Silent
from bisect_bot.targets.browsers import BrowserConfig
from tests.upstream import Upstream, stand_in

LONG_S = 60.0


@dataclass
class Site:
    """An upstream with a published build that lends its WebAssembly, and the folder that builds go into."""

    upstream: Upstream
    cache: Path
    lender: str

    def job(self, sha: str) -> CommitJob:
        """What makes the build of a commit."""
        clone = open_clone(str(self.upstream.path), self.cache, say=print, doing=print)
        commit = history.commit(clone.git, sha, Yard(self.cache, clone).recipes.history_inputs())
        return CommitJob(commit.revision, str(self.upstream.path), commit, self.lender, "webgpu")

    def plant(self, word: str, hangs: bool = False) -> CommitJob:
        """A new commit that no other has the build of."""
        return self.job(self.upstream.plant(word, wrong=[word], hangs=hangs))

    def working(self) -> list[str]:
        """The processes that work in the cache."""
        return [f"{p.info['name']} {p.pid}" for p in psutil.process_iter(["cmdline", "cwd", "name"]) if self._works(p)]

    def left(self) -> list[str]:
        """What a killed build leaves behind: processes that work in the cache, and folders in the making."""
        stock = take_stock(self.cache).entries
        return [*self.working(), *(each.path.name for each in stock if each.kind.name == UNFINISHED)]

    def _works(self, process: psutil.Process) -> bool:
        said = [*(process.info["cmdline"] or ()), process.info["cwd"] or ""]
        return started_at(process.pid) is not None and any(str(self.cache) in word for word in said)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site in which one commit was built: packages are installed."""
    folder = tmp_path_factory.mktemp("prefetch")
    upstream = Upstream(folder / "upstream", stand_in(folder / "published"))
    lender = upstream.publish(folder / "cache", upstream.head)
    site = Site(upstream, folder / "cache", lender)
    make(site.job(upstream.head), site.cache, print)
    return site


@pytest.fixture
def background(site: Site) -> Iterator[Background]:
    """A background that is ended with the test."""
    background = Background(site.cache)
    yield background
    background.close()


def until(holds: Callable[[], bool], limit_s: float = LONG_S) -> None:
    """Waits until `holds`; fails the test after `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


# --- the process --------------------------------------------------------------------------------


def test_what_is_made_ahead_is_whole_and_the_foregrounds_own(site: Site, background: Background) -> None:
    one, two = site.plant("One"), site.plant("Two")
    background.want([one, two])
    until(lambda: len(background.told) == 2)
    assert [told.what for told in background.told.values()] == ["made", "made"]
    assert list(background.told) == [one.revision.id, two.revision.id], "the best is made first"
    assert all(told.seconds > 0 and not told.reused for told in background.told.values())
    assert make(one, site.cache, print) and make(two, site.cache, print), "nothing is left to be built"


def test_a_job_is_the_same_after_it_was_told(site: Site) -> None:
    jobs: list[Job] = [site.job(site.upstream.head), PublishedJob(Revision("1.20.1", version="1.20.1"))]
    assert [JOB.validate_json(JOB.dump_json(job)) for job in jobs] == jobs


def test_what_was_there_before_is_not_counted_as_made(site: Site, background: Background) -> None:
    job = site.plant("There")
    make(job, site.cache, print)
    background.want([job])
    until(lambda: bool(background.told))
    assert background.told[job.revision.id].reused


def test_a_build_that_fails_is_told_and_the_next_is_made(site: Site, background: Background) -> None:
    bad = site.job(site.upstream.plant("Fails", fails="no such thing"))
    good = site.plant("Fails no more")
    background.want([bad, good])
    until(lambda: len(background.told) == 2)
    assert background.told[bad.revision.id].what == "failed"
    assert "no such thing" in background.told[bad.revision.id].text
    assert background.told[good.revision.id].what == "made"


def test_what_is_useless_is_dropped_at_once_and_leaves_nothing(site: Site, background: Background) -> None:
    hangs = site.plant("Hangs", hangs=True)
    wanted = site.plant("Wanted", hangs=False)
    background.want([hangs])
    until(lambda: "building" in background.doing)
    began = time.monotonic()
    background.want([wanted])
    assert time.monotonic() - began < 5
    until(lambda: wanted.revision.id in background.told)
    assert hangs.revision.id not in background.told
    background.close()
    assert site.left() == []


def test_what_is_still_wanted_goes_on(site: Site, background: Background) -> None:
    hangs = site.plant("Goes on", hangs=True)
    other = site.plant("Other", hangs=False)
    background.want([hangs])
    until(lambda: background.making == hangs.revision.id)
    worker = background.pid
    background.want([other, hangs])
    assert background.making == hangs.revision.id
    assert background.pid == worker is not None


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.6, 0.9, 1.2])
def test_a_kill_at_any_moment_leaves_the_cache_whole(site: Site, background: Background, moment: float) -> None:
    job = site.plant(f"Killed after {moment}")
    background.want([job])
    until(lambda: background.making == job.revision.id)
    time.sleep(moment)
    assert background.pid is not None
    psutil.Process(background.pid).kill()
    until(lambda: not background.making)
    background.close()
    assert site.left() == []
    make(job, site.cache, print)
    assert make(job, site.cache, print)


def test_it_ends_when_whoever_wants_it_is_killed(site: Site) -> None:
    job = site.plant("Orphaned", hangs=True)
    script = (
        "import sys, time; from pathlib import Path; from bisect_bot.session.prefetch_jobs import JOB\n"
        "from bisect_bot.session.prefetch_process import Background\n"
        "background = Background(Path(sys.argv[1])); background.want([JOB.validate_json(sys.argv[2])])\n"
        "while 'building' not in background.doing: time.sleep(0.02)\n"
        "print(background.pid, flush=True); time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", script, str(site.cache), JOB.dump_json(job).decode()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        worker = int(owner.stdout.readline())
        assert started_at(worker) is not None and site.left()
        os.kill(owner.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    until(lambda: not site.left() and started_at(worker) is None)


def test_it_yields_to_the_browser(site: Site, background: Background) -> None:
    background.want([site.plant("Nice", hangs=True)])
    until(lambda: "building" in background.doing)
    worker = psutil.Process(background.pid)
    if os.name != "nt":
        assert {each.nice() for each in [worker, *worker.children(recursive=True)]} == {19}


# --- what is made, and when ---------------------------------------------------------------------


class Heard(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@dataclass
class Search:
    """A search that wants builds of `site`; `begun` are those that the foreground made itself."""

    site: Site
    jobs: dict[str, Job] = field(default_factory=dict)
    heard: Heard = field(default_factory=Heard)
    foreground: list[str] = field(default_factory=list)
    prefetch: Prefetch = field(init=False)

    def __post_init__(self) -> None:
        self.prefetch = Prefetch(self._supplied, lambda each: self.jobs.get(each.id), self.site.cache, self.heard)

    def _supplied(self, revision: Revision) -> tuple[Artifact, bool]:
        reused = make(self.jobs[revision.id], self.site.cache, print)
        self.foreground += [] if reused else [revision.id]
        return Artifact(revision.id, "key", f"sha256:{'0' * 64}", self.site.cache), reused

    def know(self, *jobs: Job) -> None:
        """Lets `jobs` be what makes the builds of their revisions."""
        self.jobs |= {job.revision.id: job for job in jobs}

    def probe(self, *ahead: Job, over: Callable[[], bool] = lambda: True) -> None:
        """A probe, before which `ahead` is foreseen; it takes until it is `over`."""
        self.prefetch.foresee(lambda: [job.revision for job in ahead])

        def observe(_probe: Probe, _browsers: BrowserConfig, _on_case: object) -> list[object]:
            until(over)
            return []

        self.prefetch.during(observe)(None, None, lambda _i, _seen: None)  # type: ignore[arg-type]


@pytest.fixture
def search(site: Site) -> Iterator[Search]:
    """A search that is closed with the test."""
    search = Search(site)
    yield search
    search.prefetch.close()


def test_what_was_made_during_the_probe_is_there_and_counts_as_built(search: Search) -> None:
    job = search.site.plant("During")
    search.know(job)
    search.probe(job, over=lambda: search.prefetch.took(job.revision) > 0)
    assert search.prefetch.fetch(job.revision)[1] is False, "this session made it"
    assert search.foreground == []
    search.prefetch.close()
    assert search.heard.said == ["1 build made ahead while probes ran"]


def test_what_is_in_the_making_is_waited_for(search: Search) -> None:
    job = search.site.plant("Waited for")
    search.know(job)
    search.probe(job)
    assert search.prefetch.fetch(job.revision)[1] is False
    assert search.foreground == [] and search.prefetch.took(job.revision) > 0


def test_whatever_else_is_made_is_ended_before_a_build_begins(search: Search) -> None:
    hangs, wanted = search.site.plant("Useless", hangs=True), search.site.plant("Asked for", hangs=False)
    search.know(hangs, wanted)
    search.probe(hangs, wanted)
    assert search.prefetch.fetch(wanted.revision) and search.foreground == [wanted.revision.id]
    assert search.site.working() == [], "ended before the build, which has nothing of its own left"
    search.prefetch.close()
    assert search.site.left() == []


def test_what_this_session_has_does_not_end_it(search: Search) -> None:
    first, hangs = search.site.plant("First"), search.site.plant("Long", hangs=True)
    search.know(first, hangs)
    search.prefetch.fetch(first.revision)
    search.probe(hangs)
    before = search.site.left()
    search.prefetch.fetch(first.revision)
    assert before and search.site.left()
    search.site.plant("Long no more", hangs=False)


def test_one_that_nobody_asked_for_is_told_apart(search: Search) -> None:
    one, two = search.site.plant("Used"), search.site.plant("Unused")
    search.know(one, two)
    search.probe(one, two, over=lambda: search.prefetch.took(two.revision) > 0)
    search.prefetch.fetch(one.revision)
    search.prefetch.close()
    assert search.heard.said == ["2 builds made ahead while probes ran, 1 of them for nothing"]


def test_a_single_one_that_nobody_asked_for_is_told_without_a_count_of_itself(search: Search) -> None:
    one = search.site.plant("Alone and unused")
    search.know(one)
    search.probe(one, over=lambda: search.prefetch.took(one.revision) > 0)
    search.prefetch.close()
    assert search.heard.said == ["1 build made ahead while probes ran, for nothing"]


def test_one_that_failed_ahead_is_the_foregrounds_to_judge(search: Search) -> None:
    bad = search.site.job(search.site.upstream.plant("Cannot be built", fails="no such thing"))
    search.know(bad)
    search.probe(bad)
    with pytest.raises(BuildUnusable, match="no such thing"):
        search.prefetch.fetch(bad.revision)
    search.site.upstream.plant("Can be built", wrong=[])


def test_a_process_that_dies_by_itself_is_not_started_again(search: Search) -> None:
    hangs, wanted = search.site.plant("Dies", hangs=True), search.site.plant("Lives", hangs=False)
    search.know(hangs, wanted)
    search.probe(hangs, over=lambda: bool(search.site.left()))
    worker = next(p for p in psutil.Process().children() if "prefetch_worker" in " ".join(p.cmdline()))
    worker.kill()
    until(lambda: started_at(worker.pid) is None)
    for _ in range(2):
        search.probe(wanted)
        search.prefetch.fetch(wanted.revision)
    assert search.foreground == [wanted.revision.id] and search.site.left() == []
    assert search.heard.said == ["no more builds are made ahead: the process that made them ended with status -9"]


def test_closing_in_the_middle_of_a_build_leaves_nothing(search: Search) -> None:
    hangs = search.site.plant("Closed", hangs=True)
    search.know(hangs)
    search.probe(hangs, over=lambda: bool(search.site.left()))
    search.prefetch.close()
    assert search.site.left() == [] and search.heard.said == []


@pytest.mark.parametrize(("bound", "value"), [("FREE_BYTES", 1 << 62), ("CORES", 1 << 20)])
def test_without_room_nothing_is_made_ahead(
    search: Search, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    job = search.site.plant(f"No room: {bound}")
    search.know(job)
    monkeypatch.setattr(bounds, bound, value)
    search.probe(job)
    search.prefetch.fetch(job.revision)
    assert search.foreground == [job.revision.id]


@pytest.mark.parametrize(
    ("request_", "may"),
    [
        (Request("a", "b", ("c",)), True),
        (Request("a", "b", ("c",), prefetch=False), False),
        (Request("a", "b", ("c",), max_builds=5), False),
        (Request("a", "b", ("c",), driver="upstream"), False),
    ],
)
def test_it_is_left_where_it_would_do_harm(request_: Request, may: bool) -> None:
    assert may_prefetch(request_) is may
