"""Where browsers are on this machine, which version they have, and with which flags they start."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pydantic

from bisect_bot import paths
from bisect_bot.errors import ConfigError, NoBrowser, UsageError
from bisect_bot.model import Adapter
from bisect_bot.processes import run
from bisect_bot.targets import electrons
from bisect_bot.targets.folders import expanded

VERSION_TIMEOUT_S = 30.0
SMALL_SHM_BYTES = 512 * 2**20
VERSION = re.compile(r"\d+(?:\.\d+){2,3}")
LIST_SWITCHES = ("--enable-features", "--disable-features")


class Common(pydantic.BaseModel, extra="forbid", frozen=True):
    """Flags that every start has."""

    args: tuple[str, ...]
    root_args: tuple[str, ...]
    small_shm_args: tuple[str, ...]
    script_memory_gib: float


class AdapterRules(pydantic.BaseModel, extra="forbid", frozen=True):
    """How software adapters are recognised."""

    software: str


class Places(pydantic.BaseModel, extra="forbid", frozen=True):
    """One kind of browser: what it is called, how it is started, and where it may be."""

    says: str
    engine: Literal["chromium", "electron"]
    env: str
    args: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    places: Mapping[str, tuple[str, ...]] = {}
    channels: Mapping[str, Mapping[str, tuple[str, ...]]] = {}


class BrowserConfig(pydantic.BaseModel, extra="forbid", frozen=True):
    """configs/browsers.toml."""

    common: Common
    wishes: Mapping[str, tuple[str, ...]]
    adapters: AdapterRules
    flags: Mapping[str, Mapping[str, tuple[str, ...]]]
    browsers: Mapping[str, Places]
    electron: electrons.ElectronPlaces

    def args_of(self, target: str) -> tuple[str, ...]:
        """The flags that every start of the target of that name has."""
        return (*self.common.args, *self.browsers[kind_of(target)].args)

    def flag_sets(self, wish: str) -> tuple[str, ...]:
        """The names of the flag sets to try for an adapter wish, in order; a regex is any other text."""
        return self.wishes[wish if wish in self.wishes else "regex"]

    def flags_of(self, flag_set: str, platform: str = sys.platform) -> tuple[str, ...]:
        """The command-line flags of a flag set on `platform`."""
        return self.flags.get(platform, self.flags["linux"])[flag_set]

    def is_software(self, adapter: Adapter) -> bool:
        """Whether `adapter` computes on the CPU, by its own word or by its name."""
        return adapter.fallback or re.search(self.adapters.software, words_of(adapter), re.IGNORECASE) is not None

    def fits(self, adapter: Adapter, wish: str) -> bool:
        """Whether `adapter` is what was wished for: `any`, `hardware`, `software`, or a regex over its words."""
        if wish == "any":
            return True
        if wish in ("hardware", "software"):
            return self.is_software(adapter) == (wish == "software")
        return re.search(wish, words_of(adapter), re.IGNORECASE) is not None


def kind_of(target: str) -> str:
    """The kind of browser (a key of the configuration) that a target's name begins with: the second is `chrome-2`."""
    return target.partition("-")[0]


def words_of(adapter: Adapter) -> str:
    """What an adapter says of itself, as one text."""
    return f"{adapter.vendor} {adapter.architecture} {adapter.device} {adapter.description}"


def load_config(path: Path | None = None) -> BrowserConfig:
    """The configuration in `path` (default: the shipped one). Raises ConfigError when it does not fit."""
    path = path or paths.config_file("browsers.toml")
    try:
        return BrowserConfig.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class Browser:
    """An installed browser: the name of the target it serves, its executable and its version."""

    name: str
    executable: Path
    version: str
    product: str = ""


def find(name: str, config: BrowserConfig | None = None) -> Path | None:
    """The executable of the installed browser `name` (a key of the configuration), or None.

    A variable of the environment that names one overrides what is installed.
    """
    config = config or load_config()
    kind = config.browsers[name]
    if kind.engine == "electron":
        try:
            return electrons.locate("", config.electron, kind.env, sys.platform)
        except NoBrowser:
            return None
    named = os.environ.get(kind.env)
    if named:
        return Path(named) if Path(named).is_file() else None
    return next(installed(name, config), None)


def installed(name: str, config: BrowserConfig) -> Iterator[Path]:
    """Every executable of the browser `name` that is found, best first, whatever the environment names.

    After the places of the configuration, Playwright's own download of Chromium is looked for.
    """
    kind = config.browsers[name]
    if kind.engine == "electron":
        yield from electrons.installed(config.electron, kind.env, sys.platform)
        return
    yield from _present((*kind.names, *kind.places.get(sys.platform, ())))
    download = _playwright_download() if name == "chrome" else None
    if download is not None:
        yield download


def _present(places: tuple[str, ...]) -> Iterator[Path]:
    """Those of `places` (names to be looked up on PATH, or paths) that are there."""
    for place in places:
        if re.search(r"[/\\]", place):
            yield from (path for path in expanded((place,)) if path.is_file())
        elif found := shutil.which(place):
            yield Path(found)


def locate(text: str, config: BrowserConfig, repo: str | None = None) -> Browser:
    """The browser that a `--target` means: `chrome`, `chrome:canary`, `chrome:/path/to/executable`, `electron:28`.

    `repo` is a checkout of onnxruntime, which may have an Electron of its own. Raises UsageError for an unknown name,
    NoBrowser when there is none or it does not tell its version.
    """
    name, wish = check_name(text, config)
    kind = config.browsers[name]
    if kind.engine == "electron":
        executable: Path | None = electrons.locate(wish, config.electron, kind.env, sys.platform, repo)
    elif wish in kind.channels:
        executable = next(_present(kind.channels[wish].get(sys.platform, ())), None)
    else:
        executable = Path(os.path.expanduser(wish)).absolute() if wish else find(name, config)  # noqa: PTH111
    if executable is None or not executable.is_file():
        problem = f"no browser at {wish}" if wish else f"no {kind.says} was found"
        problem = f"{name} is not installed here as {wish}" if wish in kind.channels else problem
        raise NoBrowser(problem, f"Install one, or name its executable: --target {name}:/path, or {kind.env}=/path.")
    product, version = identify(executable)
    return Browser(name, executable, version, product)


def check_name(text: str, config: BrowserConfig) -> tuple[str, str]:
    """The two parts of `chrome` or `chrome:/path/to/executable`. Raises UsageError for an unknown name."""
    name, _, path = text.partition(":")
    if name not in config.browsers:
        known = ", ".join(sorted(config.browsers))
        forms = "chrome:/path/to/executable, chrome:canary, electron:28"
        raise UsageError(f"unknown target {text!r}", f"Known targets: {known}; also as {forms}.")
    return name, path


def identify(executable: Path) -> tuple[str, str]:
    """What a browser calls itself, and its version: `Chromium`, `156.0.8078.114`. Raises NoBrowser if it is silent.

    Electron tells its own version, not that of its Chromium.
    """
    if electron := electrons.version_of(executable):
        return "Electron", electron
    if sys.platform == "win32":
        # There --version opens a window; the version is the name of a folder beside the executable.
        versions = [p.name for p in executable.parent.iterdir() if p.is_dir() and VERSION.fullmatch(p.name)]
        if versions:
            return "", max(versions, key=lambda v: [int(n) for n in v.split(".")])
        raise NoBrowser(f"{executable} does not tell its version", "Name another browser with --target chrome:PATH.")
    try:
        completed = run([str(executable), "--version"], timeout_s=VERSION_TIMEOUT_S)
    except OSError as error:
        raise NoBrowser(f"{executable} does not start: {error}", "Name another browser.") from error
    match = VERSION.search(completed.stdout)
    if completed.status != 0 or match is None:
        last = (completed.stderr or completed.stdout).strip().splitlines()[-1:]
        raise NoBrowser(f"{executable} --version failed: {''.join(last)}", "Does it start by hand?")
    product = completed.stdout[: match.start()].strip()
    # One with an app of somebody else's around it has no file with its version.
    return "Electron" if product == "v" else product, match.group()


def command_line(
    config: BrowserConfig, flag_set: str | None, extra: tuple[str, ...], target: str = "chrome"
) -> tuple[str, ...]:
    """All flags for one start of `target`: its own, the flag set's, the user's; list switches merged into one."""
    flags = [*config.args_of(target)]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        flags += config.common.root_args
    if _shm_is_small():
        flags += config.common.small_shm_args
    if flag_set is not None:
        flags += config.flags_of(flag_set)
    return merge_lists((*flags, *extra))


def merge_lists(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Joins repeated list switches (`--enable-features=A --enable-features=B`) into one; others stay as they are."""
    merged: dict[str, list[str]] = {}
    rest = []
    for flag in flags:
        switch, _, value = flag.partition("=")
        if switch in LIST_SWITCHES and value:
            merged.setdefault(switch, []).append(value)
        else:
            rest.append(flag)
    return (*rest, *(f"{switch}={','.join(values)}" for switch, values in merged.items()))


def _shm_is_small() -> bool:
    shm = Path("/dev/shm")
    return sys.platform == "linux" and (not shm.is_dir() or shutil.disk_usage(shm).total < SMALL_SHM_BYTES)


def _playwright_download() -> Path | None:
    """Playwright's own Chromium, where `playwright install chromium` put it."""
    roots = {
        "linux": Path.home() / ".cache" / "ms-playwright",
        "darwin": Path.home() / "Library" / "Caches" / "ms-playwright",
        "win32": Path.home() / "AppData" / "Local" / "ms-playwright",
    }
    root = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or roots.get(sys.platform, roots["linux"]))
    names = ("chrome", "chrome.exe", "Chromium", "Google Chrome for Testing")
    folders = sorted(root.glob("chromium-*"), key=lambda p: int(p.name.rpartition("-")[2] or 0), reverse=True)
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.name in names and path.is_file() and os.access(path, os.X_OK):
                return path
    return None
