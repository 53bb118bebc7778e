"""Where things are written, how much room is left there, and what else of the system matters."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.filesize import decimal

from bisect_bot.builds.housekeeping import size_within
from bisect_bot.doctor.items import Item, State
from bisect_bot.errors import UsageError
from bisect_bot.history.git import Git
from bisect_bot.history.mainline import SOURCES
from bisect_bot.paths import cache_root
from bisect_bot.targets.facts import gather
from bisect_bot.targets.obstacles import Facts, Lacks, obstacles

WALK_S = 10.0
# A published build takes up to 140 MB unpacked, and a search a handful; a profile of a browser takes some tens.
ENOUGH = {"cache": 2 * 2**30, "temporary": 2**29}
LEAST = {"cache": 300 * 2**20, "temporary": 100 * 2**20}
SHM_BYTES = 512 * 2**20


def system() -> Iterator[Item]:
    """The system, its processor cores, the display that some browsers need, and what hides the GPU of this session."""
    cores = os.cpu_count() or 1
    words = f"{platform.system()} {platform.release()} {platform.machine()}, {cores} cores"
    yield Item(key="system", state=State.OK, value=words, means="what the browsers run on", details={"cores": cores})
    yield from desktop(gather())


def desktop(facts: Facts) -> Iterator[Item]:
    """The display, and one item for each thing that is in the way of a window or the GPU."""
    found = obstacles(facts)
    if facts.platform == "linux":
        there = f"a display is there ({os.environ.get('DISPLAY', '')})" if facts.display else "no display"
        wayland = ", Wayland" if facts.wayland else ""
        told = there + wayland + ("" if facts.display else ", Xvfb is installed" if facts.xvfb else ", no Xvfb")
        yield Item(
            key="display",
            state=State.OK if facts.display or facts.xvfb else State.WARNING,
            value=told,
            means="Chrome runs without one; Electron needs one",
            details={"display": facts.display, "wayland": facts.wayland, "xvfb": facts.xvfb},
        )
    for each in found:
        means = "a browser may get no GPU" if each.lacks is Lacks.GPU else "Electron does not start"
        yield Item(
            key="session",
            state=State.WARNING,
            value=each.problem,
            means=f"{means} as long as that is so",
            do=each.advice,
            details={"obstacle": each.key, "lacks": each.lacks.value},
        )


def disks() -> Iterator[Item]:
    """The folders that are written to, and the room that is left there."""
    for key, folder, means in (
        ("cache", cache_root(), "builds, pinned cases and the journal go here"),
        ("temporary", Path(tempfile.gettempdir()), "the browsers' profiles go here"),
    ):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free
        writable = there.is_dir() and os.access(there, os.W_OK)
        state = State.OK if writable and free >= ENOUGH[key] else State.WARNING
        state = State.MISSING if not writable or free < LEAST[key] else state
        told = f"{folder}, {free / 1e9:.1f} GB free" if writable else f"{folder} cannot be written"
        details: dict[str, object] = {"path": str(folder), "free_bytes": free, "writable": writable}
        if key == "cache":
            size, builds, whole = cache_size(folder)
            told += f", {'' if whole else 'more than '}{decimal(size)} in {builds} builds"
            details |= {"bytes": size, "builds": builds, "complete": whole}
        variable = "BISECT_BOT_CACHE" if key == "cache" else "TMPDIR"
        yield Item.model_validate(
            {
                "key": key,
                "state": state,
                "value": told,
                "means": means,
                "do": "" if state is State.OK else f"Free some room, or name another folder with {variable}.",
                "needed": True,
                "details": details,
            }
        )


def cache_size(folder: Path, limit_s: float = WALK_S) -> tuple[int, int, bool]:
    """The bytes on disk of the cache, how many builds lie there, and whether all was seen within `limit_s`.

    They are those of `cache ls`: a file with several names counts once.
    """
    artifacts = folder / "artifacts"
    builds = sum(1 for _ in artifacts.glob("*/*/stamp.json")) if artifacts.is_dir() else 0
    size, whole = size_within(folder, limit_s)
    return size, builds, whole


def shared_memory() -> Iterator[Item]:
    """/dev/shm, which containers often make too small for Chromium; it is told to do without then."""
    shm = Path("/dev/shm")
    if sys.platform != "linux":
        return
    total = shutil.disk_usage(shm).total if shm.is_dir() else 0
    small = total < SHM_BYTES
    yield Item(
        key="shared-memory",
        state=State.OK,
        value=f"{total / 1e6:.0f} MB in /dev/shm",
        means="small: browsers are started with --disable-dev-shm-usage" if small else "browsers pass data through it",
        details={"bytes": total},
    )


def clone(repo: Path) -> Iterator[Item]:
    """The clone of onnxruntime that was named."""
    means = "cases of upstream, and the place of builds on main"
    try:
        git = Git(repo)
        head = git.read("log", "-1", "--format=%H %cs").split()
        ours = bool(git.read("rev-parse", "--verify", "--quiet", f"HEAD:{SOURCES}", may_fail=True))
        shallow = git.read("rev-parse", "--is-shallow-repository").strip() == "true"
        partial = bool(git.read("config", "--get-regexp", r"^remote\..*\.promisor$", may_fail=True))
    except UsageError as error:
        yield Item(key="repo", state=State.MISSING, value=str(error), means=means, do=error.advice)
        return
    kinds = [word for word, there in (("shallow", shallow), ("some blobs are missing", partial)) if there]
    known = "" if ours else ", no onnxruntime (it has no js/web/lib)"
    yield Item(
        key="repo",
        state=State.OK if ours and not shallow else State.WARNING if ours else State.MISSING,
        value=f"{repo}, at {head[0][:10]} of {head[1]}{known}{''.join(f', {kind}' for kind in kinds)}",
        means=means,
        do="Fetch all of it: git fetch --unshallow" if shallow else "" if ours else "Name a clone with --repo.",
        details={"head": head[0], "date": head[1], "shallow": shallow, "partial": partial},
    )
