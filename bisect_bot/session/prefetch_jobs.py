"""What is made in the background: one revision's build, told so that another process can make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from bisect_bot.builds import fetch
from bisect_bot.builds.yard import Yard
from bisect_bot.errors import BuildUnusable
from bisect_bot.history.clone import Clone
from bisect_bot.history.git import Git
from bisect_bot.model import Artifact, Commit, Request, Revision
from bisect_bot.session.commit_builds import CommitBuilds
from bisect_bot.session.ground import Ground, Source
from bisect_bot.session.supply import Supply

Doing = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CommitJob:
    """The build of the commit at `revision`: its JavaScript, and the WebAssembly that it gets.

    `repo` is the clone, `lender` the published build that lends the WebAssembly (empty: it is built for `bundle`).
    """

    revision: Revision
    repo: str
    commit: Commit
    lender: str
    bundle: str
    kind: Literal["commit"] = "commit"


@dataclass(frozen=True, slots=True)
class PublishedJob:
    """The published build `revision`."""

    revision: Revision
    kind: Literal["published"] = "published"


Job = CommitJob | PublishedJob
JOB: TypeAdapter[Job] = TypeAdapter(Job)


def job_of(revision: Revision, supply: Supply) -> Job | None:
    """The job that makes the build of `revision`; None where it is left to the foreground.

    Those are the variants of commits, what nobody lends a WebAssembly, and commits of a private clone: reading one may
    fetch from the network and write into it.
    """
    if revision.version:
        return PublishedJob(revision)
    if revision.variant or supply.clone.private is not None:
        return None
    builds = supply.builds_of(revision)
    place = builds.ground.place_of(revision.commit or "")
    try:
        source = builds.source(place)
    except BuildUnusable:
        return None
    lender = source.version if source else ""
    return CommitJob(revision, str(supply.clone.path), builds.ground.commits[place], lender, builds.bundle)


def make(job: Job, cache: Path, doing: Doing) -> bool:
    """Makes the build that `job` tells, in the folder `cache`; whether it was there already.

    `doing` hears what takes long. Raises BuildUnusable, UnknownRevision, NpmError, DiskFull, MachineError.
    """
    if isinstance(job, PublishedJob):
        return _published(job.revision.id, cache, doing)[1]
    path = Path(job.repo)
    sources = (Source(job.lender),) if job.lender else ()
    builds = CommitBuilds(
        ground=Ground((job.commit,), 0, 0, sources, builds_wasm=not job.lender),
        yard=Yard(cache, Clone(Git(path), path, None, _silent), doing=doing),
        published=lambda version: _published(version, cache, doing),
        patch=_no_patch,
        bundle=job.bundle,
    )
    return builds.fetch(job.revision)[1]


def may_prefetch(request: Request) -> bool:
    """Whether `request` lets builds be made ahead.

    Not where builds are counted, as one more may be made than are used, nor where upstream's own test runner wants the
    folders that commits are built in.
    """
    return request.prefetch and not request.max_builds and request.driver != "upstream"


def _published(version: str, cache: Path, doing: Doing) -> tuple[Artifact, bool]:
    return fetch(version, cache=cache, progress=lambda what, _done, _total: doing(f"fetching {what}"))


def _silent(_words: str) -> None:
    """Tells nobody."""


def _no_patch(_kind: str, _commit: str) -> bytes:
    raise BuildUnusable("a changed commit is not built ahead")
