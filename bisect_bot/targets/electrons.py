"""Where Electrons are: projects' node_modules, npm's global folder, @electron/get's downloads, Python's packages."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pydantic

from bisect_bot import paths
from bisect_bot.errors import NoBrowser, UsageError
from bisect_bot.processes import run
from bisect_bot.targets.folders import expanded

NPM_TIMEOUT_S = 900.0
NPM_ROOT_TIMEOUT_S = 20.0
FETCH = "npm@"
VERSION = re.compile(r"\d+(?:\.\d+){0,2}(?:-[\w.]+)?")
ADVICE = (
    "Name one: --target electron:/path/to/electron, or ELECTRON_PATH=/path; --target electron:npm@VERSION fetches one."
)
_KEPT = "electron"
_PACKAGE = Path("node_modules", "electron", "dist")
_INSTALLER = "install.js"
_ZIP = re.compile(r"electron-v(?P<version>[^-]+(?:-(?:alpha|beta|nightly)[\w.]*)?)-(?P<platform>\w+)-(?P<machine>\w+)")
_PLATFORMS = {"linux": "linux", "darwin": "darwin", "win32": "win32"}
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64", "i686": "ia32"}


class ElectronPlaces(pydantic.BaseModel, extra="forbid", frozen=True):
    """Where Electrons are and what an unpacked one looks like; by platform, where that differs."""

    executable: Mapping[str, str]
    caches: Mapping[str, tuple[str, ...]]
    npm_roots: Mapping[str, tuple[str, ...]]
    python_packages: tuple[str, ...]


def locate(wish: str, places: ElectronPlaces, env: str, platform: str, repo: str | None = None) -> Path:
    """The executable of the Electron that `wish` means.

    That is a path (of an executable, or of a folder with an unpacked one), a version or the beginning of one (`28`),
    `npm@28` for one that npm fetches unless it did before, or nothing: the first that is found. `env` is the variable
    that names one, `repo` a checkout whose js/web may have one. Raises NoBrowser, UsageError.
    """
    if wish.startswith(FETCH):
        return fetched(wish.removeprefix(FETCH), places, platform)
    if VERSION.fullmatch(wish):
        return _of_version(wish, places, env, platform, repo)
    if wish:
        path = Path(os.path.expanduser(wish)).absolute()  # noqa: PTH111
        found = _executable(path, places, platform)
        if found is None:
            raise NoBrowser(f"no Electron at {wish}", ADVICE)
        return found
    named = os.environ.get(env)
    if named:
        found = _executable(Path(named), places, platform)
        if found is None:
            raise NoBrowser(f"{env}={named} is no Electron", f"Correct {env}, or unset it to let one be found.")
        return found
    for found in installed(places, env, platform, repo):
        return found
    for version, archive in downloads(places, platform):
        return unpacked(version, archive, places, platform)
    raise NoBrowser("no Electron was found", ADVICE)


def installed(places: ElectronPlaces, env: str, platform: str, repo: str | None = None) -> Iterator[Path]:
    """Every executable of an unpacked Electron, best first, each once."""
    seen: set[Path] = set()
    for folder in _folders(places, env, platform, repo):
        found = _executable(folder, places, platform)
        if found is not None and found.resolve() not in seen:
            seen.add(found.resolve())
            yield found


def downloads(places: ElectronPlaces, platform: str) -> tuple[tuple[str, Path], ...]:
    """The archives that @electron/get keeps for this machine, as (version, file), newest version first."""
    machine = _MACHINES.get(os.uname().machine.lower() if hasattr(os, "uname") else "amd64", "")
    found: dict[str, Path] = {}
    for cache in expanded(places.caches.get(platform, ())):
        for archive in sorted((*cache.glob("electron-v*.zip"), *cache.glob("*/electron-v*.zip"))):
            match = _ZIP.fullmatch(archive.stem)
            if match and (match["platform"], match["machine"]) == (_PLATFORMS.get(platform), machine):
                found.setdefault(match["version"], archive)
    return tuple(sorted(found.items(), key=lambda pair: _order(pair[0]), reverse=True))


def version_of(executable: Path) -> str:
    """The version in the file that every Electron is shipped with; empty for anything else."""
    if executable.stem.lower() != "electron":
        return ""
    for folder in executable.resolve().parents[:4]:  # on macOS the executable lies deep in a bundle
        with contextlib.suppress(OSError):
            return (folder / "version").read_text(encoding="utf-8").strip().removeprefix("v")
    return ""


def unpacked(version: str, archive: Path, places: ElectronPlaces, platform: str) -> Path:
    """The executable of a downloaded Electron, unpacked into our cache unless it was. Raises NoBrowser."""
    folder = paths.cache_root() / _KEPT / version
    found = _executable(folder, places, platform)
    if found is not None:
        return found
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"{version}.", dir=folder.parent))
    try:
        _unzip(archive, fresh)
        # Another of us may have been faster: then that one is used.
        with contextlib.suppress(OSError):
            fresh.rename(folder)
    except (OSError, zipfile.BadZipFile) as error:
        raise NoBrowser(f"{archive} cannot be unpacked: {error}", f"Remove it, or: {ADVICE}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    found = _executable(folder, places, platform)
    if found is None:
        raise NoBrowser(f"{archive} holds no Electron", f"Remove it, or: {ADVICE}")
    return found


def fetched(version: str, places: ElectronPlaces, platform: str) -> Path:
    """The executable of an Electron that npm installs into our cache, unless it did before.

    Raises UsageError for what is no version, NoBrowser when npm brings none.
    """
    if not VERSION.fullmatch(version):
        raise UsageError(f"{version!r} is no version of Electron", "For example: --target electron:npm@28")
    folder = paths.cache_root() / _KEPT / f"npm-{version}"
    found = _executable(folder / _PACKAGE, places, platform)
    if found is not None:
        return found
    npm = shutil.which("npm")
    if npm is None:
        raise NoBrowser("npm, which would fetch Electron, is not installed", "Install Node.js (nodejs.org).")
    folder.mkdir(parents=True, exist_ok=True)
    argv = [npm, "install", "--prefix", str(folder), "--no-save", "--no-audit", "--no-fund", f"electron@{version}"]
    done = run(argv, timeout_s=NPM_TIMEOUT_S, cwd=folder)
    found = _executable(folder / _PACKAGE, places, platform)
    installer, node = (folder / _PACKAGE).parent / _INSTALLER, shutil.which("node")
    if found is None and done.status == 0 and installer.is_file() and node is not None:
        # Since 42.0 the package has no script that npm runs: it brings the program when that is first started.
        done = run([node, str(installer)], timeout_s=NPM_TIMEOUT_S, cwd=folder)
        found = _executable(folder / _PACKAGE, places, platform)
    if found is None:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line for line in said if re.search(r"error", line, re.IGNORECASE)]
        raise NoBrowser(
            f"npm brings no Electron {version}: {(errors or said or ['it said nothing'])[0]}",
            "Its package downloads the program from GitHub. Where that is not reachable, set ELECTRON_MIRROR, or: "
            + ADVICE,
        )
    return found


def _of_version(wish: str, places: ElectronPlaces, env: str, platform: str, repo: str | None) -> Path:
    """The Electron of the version that `wish` is or begins: the newest, and among equal ones the first found."""
    there = [(version_of(each), each) for each in installed(places, env, platform, repo)]
    kept = downloads(places, platform)
    fitting = [version for version, _ in (*there, *kept) if _fits(version, wish)]
    if not fitting:
        others = ", ".join(dict.fromkeys(version for version, _ in (*there, *kept) if version)) or "none"
        raise NoBrowser(
            f"no Electron {wish} was found (found: {others})", f"Fetch it: --target electron:npm@{wish}. {ADVICE}"
        )
    newest = max(fitting, key=_order)
    for version, executable in there:
        if version == newest:
            return executable
    return unpacked(newest, dict(kept)[newest], places, platform)


def _fits(version: str, wish: str) -> bool:
    return version == wish or version.startswith((f"{wish}.", f"{wish}-"))


def _order(version: str) -> tuple[list[int], bool, list[int]]:
    """By number; a pre-release comes before its release."""
    release, _, pre = version.partition("-")
    return [int(n) for n in re.findall(r"\d+", release)], not pre, [int(n) for n in re.findall(r"\d+", pre)]


def _folders(places: ElectronPlaces, env: str, platform: str, repo: str | None) -> Iterator[Path]:
    """Where an executable, or a folder with an unpacked Electron, may be."""
    if named := os.environ.get(env):
        yield Path(named)
    yield Path.cwd() / _PACKAGE
    if repo and Path(repo).is_dir():
        yield Path(repo) / "js" / "web" / _PACKAGE
    if on_path := shutil.which("electron"):
        yield from _behind(Path(on_path))
    for root in (*expanded(places.npm_roots.get(platform, ())), *_npm_root()):
        yield root / "electron" / "dist"
    kept = paths.cache_root() / _KEPT
    for folder in sorted(kept.glob("*"), key=lambda each: _order(each.name.removeprefix("npm-")), reverse=True):
        yield from (folder, folder / _PACKAGE)
    for package in places.python_packages:
        name, _, below = package.partition("/")
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place, *below.split("/"))


def _behind(command: Path) -> Iterable[Path]:
    """What a command on the PATH starts: npm's is a script of the package, beside the real thing."""
    real = command.resolve()
    with contextlib.suppress(OSError), real.open("rb") as file:
        if file.read(2) != b"#!" and real.suffix.lower() not in (".cmd", ".ps1"):
            return (real,)
    return (real.parent / "dist",)


def _npm_root() -> Iterator[Path]:
    npm = shutil.which("npm")
    if npm is not None:
        with contextlib.suppress(OSError):
            done = run([npm, "root", "--global"], timeout_s=NPM_ROOT_TIMEOUT_S)
            if done.status == 0 and done.stdout.strip():
                yield Path(done.stdout.strip())


def _executable(place: Path, places: ElectronPlaces, platform: str) -> Path | None:
    """The executable that `place` is, or that is in the unpacked Electron in it (or in its dist folder)."""
    if place.is_file():
        return place
    name = places.executable.get(platform, places.executable["linux"])
    for folder in (place, place / "dist"):
        if (folder / name).is_file():
            return folder / name
    return None


def _unzip(archive: Path, folder: Path) -> None:
    """Unpacks with permissions and symbolic links, which macOS's bundles are full of. Raises OSError, BadZipFile."""
    with zipfile.ZipFile(archive) as zipped:
        for entry in zipped.infolist():
            mode = entry.external_attr >> 16
            target = folder / entry.filename
            if not target.resolve().is_relative_to(folder.resolve()):
                raise zipfile.BadZipFile(f"an entry that escapes: {entry.filename}")
            if stat.S_ISLNK(mode):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(zipped.read(entry).decode())
                continue
            zipped.extract(entry, folder)
            if mode & 0o777 and not entry.is_dir():
                target.chmod(mode & 0o777 | 0o200)
