"""What this machine cannot do, in words that stand in pytest's summary; None where it can."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from bisect_bot.errors import BisectBotError, MachineError
from bisect_bot.probes.adapter import choose_target
from bisect_bot.processes import run
from bisect_bot.targets import browsers, display

CLONE = "BISECT_BOT_TEST_CLONE"
NPM_TIMEOUT_S = 120.0


@functools.cache
def no_browser() -> str | None:
    """Why tests marked `browser` cannot run."""
    return None if browsers.find("chrome") else "no Chrome, Chromium or Edge on this machine"


@functools.cache
def no_electron() -> str | None:
    """Why tests marked `electron` cannot run: it needs a display, for which Xvfb does."""
    try:
        browsers.locate("electron", browsers.load_config())
    except BisectBotError as error:
        return str(error)
    return None if display.possible() else display.NEEDED


@functools.cache
def no_network() -> str | None:
    """Why tests marked `network` cannot run: npm is asked for the newest version of the package they use."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    done = run([npm, "view", "onnxruntime-web", "version"], timeout_s=NPM_TIMEOUT_S)
    if done.status == 0:
        return None
    words = done.stderr.strip().splitlines()[:1] if done.status is not None else [f"no answer in {NPM_TIMEOUT_S:.0f} s"]
    return f"npm cannot reach its registry ({''.join(words) or 'no reason given'})"


@functools.cache
def no_gpu() -> str | None:
    """Why tests marked `gpu` cannot run: the browser is started and asked for a hardware adapter."""
    config = browsers.load_config()
    try:
        choose_target(browsers.locate("chrome", config), "hardware", (), config)
    except MachineError as error:
        return f"no hardware GPU adapter ({error})"
    return None


@functools.cache
def no_clone() -> str | None:
    """Why tests marked `clone` cannot run."""
    named = os.environ.get(CLONE)
    if not named:
        return f"{CLONE} names no clone of onnxruntime"
    git = shutil.which("git")
    if git is None:
        return "git is not installed"
    found = Path(named).is_dir() and run([git, "-C", named, "rev-parse", "--git-dir"], timeout_s=60).status == 0
    return None if found else f"{CLONE}={named} is not a git repository"


LIMITS: Mapping[str, Callable[[], str | None]] = {
    "browser": no_browser,
    "network": no_network,
    "gpu": no_gpu,
    "clone": no_clone,
    "electron": no_electron,
}
# What CI has to bring. There its absence is a failure, or a green run could have tested nothing.
REQUIRED_IN_CI = frozenset({"browser", "network", "electron"})
