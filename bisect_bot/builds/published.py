"""Makes the artifact of a published build: from the cache, else through npm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bisect_bot.builds import eras
from bisect_bot.builds.disk import disk_errors
from bisect_bot.builds.npm import PACKAGE, Npm, check_version
from bisect_bot.builds.package import unpack
from bisect_bot.builds.store import Record, Store
from bisect_bot.errors import BuildFailed
from bisect_bot.model import Artifact
from bisect_bot.scratch import scratch, sweep

# Counts up when other files of a package are kept, so that older entries are not taken for complete.
RECIPE = 1
# Hears what is fetched, bytes so far, bytes in all (None: not known).
Progress = Callable[[str, int, int | None], None]


def _silent(what: str, done: int, total: int | None) -> None:
    """Shows nothing."""


def key(version: str) -> str:
    """The store's key of the published build `version`. It needs no registry: the integrity is in the record."""
    return f"npm:{PACKAGE}@{version}#{RECIPE}"


def fetch(
    version: str, *, cache: Path, npm: Npm | None = None, progress: Progress = _silent, timeout_s: float = 900.0
) -> tuple[Artifact, bool]:
    """The artifact of the published build `version`, and whether it was in the folder `cache` already.

    npm is asked only when it was not; `npm` None looks for it in the PATH. `progress` hears what is fetched, bytes
    so far and bytes in all (None: not known; npm tells nothing before it has all). Raises UnknownRevision when the
    registry has no such version, BuildFailed when the package lacks the files of its era or is malformed,
    NpmError, DiskFull or MachineError.
    """
    check_version(version)
    store = Store(cache)
    found = store.find(key(version))
    if found is not None:
        return found, True
    needed = eras.needed_files(version)
    npm = npm or Npm.find()
    with disk_errors(cache):
        sweep(store.tmp)
        with scratch(store.tmp) as place:
            what = f"{PACKAGE} {version}"
            progress(what, 0, None)
            tarball = npm.pack(version, place.path, timeout_s)
            size = tarball.path.stat().st_size
            progress(what, size, size)
            files = place.path / "files"
            files.mkdir()
            package = unpack(tarball.path, files, eras.load().drop)
            _check(version, files, needed)
            record = Record(
                key=key(version),
                revision=version,
                commit=package.commit,
                declared_commit=package.declared_commit,
                integrity=tarball.integrity,
                sources=package.sources,
            )
            return store.add(record, files), False


def record(version: str, cache: Path) -> Record | None:
    """What the package of `version` said of itself when it was fetched, or None when it never was."""
    return Store(cache).record(key(version))


def _check(version: str, files: Path, needed: frozenset[str]) -> None:
    lacking = sorted(name for name in needed if not (files / name).is_file())
    if lacking:
        raise BuildFailed(
            f"the package of {version} lacks {', '.join(lacking)}",
            "Either the package is broken or upstream changed its layout: see configs/eras.toml.",
        )
