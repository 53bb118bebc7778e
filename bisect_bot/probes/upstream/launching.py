"""How karma is brought to start the browser of a target: by variables of the environment, with a program of ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_bot.model import Target
from bisect_bot.scratch import Scratch
from bisect_bot.targets.browsers import BrowserConfig, command_line, kind_of, merge_lists
from bisect_bot.targets.display import display

CHROME, ELECTRON = "chrome", "electron"
HOOK = Path(__file__).with_name("electron.js")
_RESOLVER = "--host-resolver-rules="
# The runner's own: threads need it, as its server sends no headers for isolation (e74f86059c, 2021-08-10).
_OWN_FEATURES = "--enable-features=SharedArrayBuffer"
# With any folder named here karma-electron loads without Electron's binary; without, it stops karma.
_ANY_DIST = "ELECTRON_OVERRIDE_DIST_PATH"


@dataclass(frozen=True, slots=True)
class Launching:
    """`env` is what the runner calls the browser, `variables` of the environment make karma start the target's."""

    env: str
    variables: Mapping[str, str]


@contextlib.contextmanager
def launching(target: Target, config: BrowserConfig, folder: Scratch) -> Iterator[Launching]:
    """How a run gets the browser of `target`, with a display where it needs one; files go to `folder`.

    Raises NoBrowser where there can be no display.
    """
    flags = _flags(config, target)
    executable = Path(target.executable)
    dist = {_ANY_DIST: os.environ.get(_ANY_DIST) or str(folder.path)}
    if config.browsers[kind_of(target.name)].engine != ELECTRON:
        wrapper = browser_wrapper(folder.path, executable, flags)
        yield Launching(CHROME, {**dist, "CHROME_BIN": str(wrapper)})
        return
    wrapper = browser_wrapper(folder.path, executable, (*flags, "--require", str(HOOK)))
    with _display(folder) as shown:
        own = {"ELECTRON_BIN": str(wrapper), "ELECTRON_DISABLE_SECURITY_WARNINGS": "1"}
        yield Launching(ELECTRON, {**dist, **shown, **own})


def browser_wrapper(folder: Path, executable: Path, flags: Sequence[str]) -> Path:
    """A program that starts `executable` with what it is given and `flags`.

    The runner has an option for flags since 7af2f68ef3 (2023-09-14) only, and passes it through a shell unquoted; to
    Electron it passes none.
    """
    wrapper = folder / "browser"
    # Of switches that are named twice the last one holds.
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(str(executable))} "$@" {shlex.join(flags)}\n', encoding="utf-8")
    wrapper.chmod(0o755)
    return wrapper


def _flags(config: BrowserConfig, target: Target) -> tuple[str, ...]:
    """The target's flags, as they must be beside the runner's own, for a page that comes from `localhost`."""
    flags = command_line(config, target.flags or None, target.extra_args, target.name)
    local = (f"{flag} , EXCLUDE localhost" if flag.startswith(_RESOLVER) else flag for flag in flags)
    return merge_lists((_OWN_FEATURES, *local))


@contextlib.contextmanager
def _display(folder: Scratch) -> Iterator[Mapping[str, str]]:
    """`display`, for code that does not wait for anything meanwhile. Raises NoBrowser."""
    with asyncio.Runner() as loop:
        shown = display(folder)
        variables = loop.run(shown.__aenter__())
        try:
            yield variables
        finally:
            loop.run(shown.__aexit__(None, None, None))
