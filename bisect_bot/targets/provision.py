"""Gets a browser on a machine that has none, in the ways that configs/provision.toml lists."""

from __future__ import annotations

import os
import platform
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pydantic

from bisect_bot import bootstrap, paths
from bisect_bot.errors import ConfigError, NoBrowser
from bisect_bot.processes import run
from bisect_bot.targets import browsers

COMMAND_TIMEOUT_S = 1200.0
# The one that the ways bring; whoever asks for another one has it.
BROUGHT = "chrome"

Find = Callable[[], Path | None]
Ask = Callable[[str], bool]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides which ways apply: `sys.platform`, the words of os-release's ID and ID_LIKE, and who we are."""

    system: str
    distributions: tuple[str, ...]
    root: bool


class Fits(pydantic.BaseModel, extra="forbid", frozen=True):
    """Where an entry applies; an empty list stands for everywhere."""

    systems: tuple[str, ...]
    distributions: tuple[str, ...] = ()
    not_distributions: tuple[str, ...] = ()

    def fits(self, machine: Machine) -> bool:
        """Whether the system and distribution of `machine` are among those meant."""
        words = set(machine.distributions)
        wanted = not self.distributions or bool(words & set(self.distributions))
        return machine.system in self.systems and wanted and not words & set(self.not_distributions)


class Way(Fits, frozen=True):
    """Commands that bring a browser. `root` None: whoever runs them; `asks`: they change the system."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    root: bool | None = None
    asks: bool = False
    env: Mapping[str, str] = {}

    def applies(self, machine: Machine) -> bool:
        """Whether this way is open to us on `machine`."""
        return self.fits(machine) and self.root in {None, machine.root}


class ByHand(Fits, frozen=True):
    """What a person types where we cannot."""

    type: str


class ProvisionConfig(pydantic.BaseModel, extra="forbid", frozen=True):
    """configs/provision.toml."""

    ways: tuple[Way, ...]
    by_hand: tuple[ByHand, ...]


def load_config(path: Path | None = None) -> ProvisionConfig:
    """The configuration in `path` (default: the shipped one). Raises ConfigError when it does not fit."""
    path = path or paths.config_file("provision.toml")
    try:
        return ProvisionConfig.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def this_machine() -> Machine:
    """The machine that this runs on."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    words = (release.get("ID", ""), *release.get("ID_LIKE", "").split())
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return Machine(sys.platform, tuple(word for word in words if word), root)


def find_or_get_browser(
    name: str = "chrome",
    *,
    find: Find | None = None,
    config: ProvisionConfig | None = None,
    machine: Machine | None = None,
    ask: Ask | None = None,
    say: Say = bootstrap.say,
    repo: str | None = None,
) -> Path:
    """The executable of the browser `name`; when there is none, gets one, and checks that it starts.

    Ways that change the system are first put to `ask` (default: the person at the terminal, if there is one and
    CI is not `true`; else the answer is yes). `say` is told each step. `find` looks for the browser (default:
    `browsers.find`). Of other browsers than Chrome none is got; `repo` is a checkout that may have an Electron.
    Raises NoBrowser, with what to type, when no way works, or when the
    environment names a browser that is not there.
    """
    if name != BROUGHT:
        return browsers.locate(name, browsers.load_config(), repo).executable
    if find is None:
        _require_named_file(name)
    find = find or (lambda: browsers.find(name))
    found = find()
    if found is not None:
        return found
    config = config or load_config()
    machine = machine or this_machine()
    ask = ask or ask_at_terminal
    problems = []
    for way in config.ways:
        if not way.applies(machine):
            continue
        if way.asks and not ask(f"No browser was found. Install {way.name} ({shown(way.commands[-1])})?"):
            problems.append(f"{way.name}: declined")
            continue
        problem = _follow(way, say)
        found = None if problem else find()
        if found is not None:
            problem = _does_not_start(found)
            if problem is None:
                return found
        problems.append(f"{way.name}: {problem or 'installed, but no browser is found'}")
        say(problems[-1])
    tried = "; ".join(problems) or "no way is known here"
    raise NoBrowser(
        f"no Chrome, Chromium or Edge was found, and none could be installed ({tried})",
        f"Type: {by_hand(config, machine)}",
    )


def _require_named_file(name: str) -> None:
    """Raises NoBrowser when the environment names a browser that is not there: no other one is looked for then."""
    variable = browsers.load_config().browsers[name].env
    named = os.environ.get(variable)
    if named and not Path(named).is_file():
        raise NoBrowser(f"{variable}={named} is no file", f"Correct {variable}, or unset it to let a browser be found.")


def by_hand(config: ProvisionConfig, machine: Machine) -> str:
    """What a person on `machine` types to get a browser."""
    words = next((entry.type for entry in config.by_hand if entry.fits(machine)), "install Chrome, Chromium or Edge")
    words = words.replace("{python}", sys.executable)
    return words.replace("sudo ", "") if machine.root else words


def ask_at_terminal(question: str) -> bool:
    """Asks the person at the terminal, Enter meaning yes. True without asking when CI=true or there is nobody."""
    if os.environ.get("CI") == "true" or not sys.stdin or not sys.stdin.isatty():
        return True
    sys.stderr.write(f"{question} [Y/n] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return bool(answer) and answer.strip().lower() in {"", "y", "yes"}


def shown(command: tuple[str, ...]) -> str:
    """A command as it would be typed."""
    return " ".join(command).replace("{python}", sys.executable)


def _follow(way: Way, say: Say) -> str | None:
    """Runs the commands of `way`; returns what went wrong, or None."""
    for command in way.commands:
        argv = [sys.executable if word == "{python}" else word for word in command]
        say(f"getting {way.name}: {shown(command)}")
        began = time.monotonic()
        try:
            with bootstrap.ticking(argv[0], say):
                done = run(argv, timeout_s=COMMAND_TIMEOUT_S, env={**os.environ, **way.env})
        except OSError as error:
            return f"{argv[0]} does not start: {error}"
        if done.status is None:
            return f"{shown(command)} took more than {COMMAND_TIMEOUT_S / 60:.0f} minutes"
        if done.status != 0:
            return f"{shown(command)} failed (status {done.status}): {_reason(done.stderr + done.stdout)}"
        say(f"done in {time.monotonic() - began:.0f} s")
    return None


def _reason(output: str) -> str:
    """The line that says why: the first that calls itself an error, else the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith(("E: ", "Error: "))), lines[-1] if lines else "no output")


def _does_not_start(executable: Path) -> str | None:
    """Why the browser just installed does not even tell its version (a missing system library, say), or None."""
    try:
        browsers.identify(executable)
    except NoBrowser as error:
        return str(error)
    return None
