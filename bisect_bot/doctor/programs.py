"""Programs and packages: those that the main job needs, and those of builds from source, which are only reported."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator
from importlib import metadata

from bisect_bot.builds.npm import Npm, kept_versions
from bisect_bot.doctor.items import Item, State
from bisect_bot.errors import NpmError
from bisect_bot.paths import cache_root
from bisect_bot.processes import run

VERSION_S = 20.0
REGISTRY_S = 30.0
_NUMBER = re.compile(r"\d+(?:\.\d+)+")
_NODE = "Install Node.js (nodejs.org) and open a new shell."
# What a build from source needs on the PATH; its emsdk comes with the clone.
_TOOLCHAIN = ("cmake", "ninja", "python3", "emcc")


def programs() -> Iterator[Item]:
    """Programs that other parts start, and those of builds from source together."""
    for key, means, do in (
        ("node", "npm runs on it", _NODE),
        ("git", "reads a clone: --repo, and the place of builds on main", "Install git."),
    ):
        version = version_of((key, "--version"))
        yield Item(
            key=key,
            state=State.OK if version else State.MISSING,
            value=version or "not found",
            means=means,
            do="" if version else do,
            details={"version": version},
        )
    versions = {name: version_of((name, "--version")) for name in _TOOLCHAIN}
    yield Item(
        key="toolchain",
        state=State.OK if all(versions.values()) else State.WARNING,
        value=", ".join(f"{name} {version or 'not found'}" for name, version in versions.items()),
        means="only for builds from source; published builds need none of it",
        details=dict(versions),
    )


def version_of(argv: tuple[str, ...]) -> str | None:
    """The version that a program tells, None when it is not there or tells none within 20 s."""
    executable = shutil.which(argv[0])
    if executable is None:
        return None
    try:
        done = run([executable, *argv[1:]], timeout_s=VERSION_S)
    except OSError:
        return None
    found = _NUMBER.search(done.stdout)
    return found.group() if done.status == 0 and found else None


def npm() -> Iterator[Item]:
    """The npm client, and whether its registry answers; without that, builds in the cache can still be tested."""
    means = "fetches the published builds"
    version = version_of(("npm", "--version"))
    kept = len(kept_versions(cache_root()))
    if version is None:
        yield Item(key="npm", state=State.MISSING, value="not found", means=means, do=_NODE, needed=not kept)
        return
    yield Item(key="npm", state=State.OK, value=version, means=means, needed=True, details={"version": version})
    about = "lists the published builds"
    try:
        versions = Npm.find().versions(REGISTRY_S)
    except NpmError as error:
        told = f"{error} The list of the last time has {kept} builds." if kept else str(error)
        state = State.WARNING if kept else State.MISSING
        means = "builds that are in the cache can still be tested" if kept else about
        yield Item(key="registry", state=state, value=told, means=means, do=error.advice, needed=True)
        return
    yield Item(
        key="registry",
        state=State.OK,
        value=f"{len(versions)} build{'' if len(versions) == 1 else 's'}, the newest {versions[-1]}",
        means=about,
        needed=True,
        details={"builds": len(versions), "newest": versions[-1]},
    )


def packages() -> Iterator[Item]:
    """Python, and the packages that make expected outputs."""
    about = {"onnx": "reads models", "onnxruntime": "makes expected outputs, on the CPU"}
    yield Item(
        key="python",
        state=State.OK,
        value=platform.python_version(),
        means="runs bisect-bot",
        details={"version": platform.python_version()},
    )
    for name, means in about.items():
        try:
            version: str | None = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = None
        yield Item(
            key=name,
            state=State.OK if version else State.MISSING,
            value=version or "not installed",
            means=means,
            do="" if version else "Install bisect-bot again: pip install .",
            needed=True,
            details={"version": version},
        )
