"""Lets a checkout run with nothing installed: prepares `.venv` once and continues in it.

    python3 -m bisect_bot …   ->   ensure("bisect_bot")   ->   .venv/bin/python -m bisect_bot …

An environment in which the requirements are met is used as it is, and an installed package does nothing here.
This file runs before anything is installed and on any Python: standard library only, and syntax that Python 3.8
can read, so that an old Python gets a sentence instead of a SyntaxError.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bisect_bot.errors import CheckExit, Exit

if TYPE_CHECKING:  # Python 3.8 cannot evaluate these
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Say = Callable[[str], None]

MINIMUM = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
# Counts the restarts into `.venv`, so that an environment that stays incomplete ends in an error, not in a loop.
ATTEMPT = "BISECT_BOT_BOOTSTRAP_ATTEMPT"
INSTALL_LIMIT_S = 3600.0
TICK_S = 15.0


class Failure(Exception):
    """The environment cannot be prepared; the text says why and what to type."""


def ensure(module: str, group: str | None = None) -> None:
    """Returns when this interpreter can run `module`; else prepares `.venv`, restarts in it and does not return.

    `group` names a dependency group of pyproject.toml that is needed as well. Exits with the status of an
    unusable machine (14; for `check` 130, which stops `git bisect run`) when that fails.
    """
    try:
        require_python(sys.version_info[:3])
        _ensure(module, group)
    except Failure as failure:
        say(str(failure))
        sys.exit(CheckExit.UNUSABLE if is_check(sys.argv[1:]) else Exit.UNUSABLE)
    except KeyboardInterrupt:
        say("interrupted; the next start goes on from here")
        sys.exit(CheckExit.INTERRUPTED if is_check(sys.argv[1:]) else Exit.STOPPED)


def is_check(argv: Sequence[str]) -> bool:
    """Whether the command is `check`, whose statuses 0, 1 and 125 are verdicts."""
    return next((word for word in argv if not word.startswith("-")), "") == "check"


def say(line: str) -> None:
    """One line of progress on stderr; stdout belongs to the command."""
    print(f"bisect-bot: {line}", file=sys.stderr, flush=True)


# --- what is needed, and what is here -----------------------------------------------------------


def require_python(version: tuple[int, ...]) -> None:
    """Raises Failure (one line) when `version` is older than the project supports."""
    if version >= MINIMUM:
        return
    found = ".".join(map(str, version))
    wanted = ".".join(map(str, MINIMUM))
    how = {
        "win32": "winget install Python.Python.3.12",
        "darwin": "brew install python@3.12",
    }.get(sys.platform, "your package manager's python3.11 or later")
    raise Failure(f"needs Python {wanted} or newer, this is {found} ({sys.executable}). Get one: {how}.")


def requirements(root: Path, groups: Iterable[str] = ()) -> list[str]:
    """The project's direct requirements and those of the dependency `groups`, as pyproject.toml has them.

    With a group goes the one for this platform alone, where there is one: `dev-linux-x86_64` with `dev`.
    """
    import tomllib  # noqa: PLC0415 - not in Python 3.8, which must get as far as `require_python`

    with (root / "pyproject.toml").open("rb") as file:
        data = tomllib.load(file)
    wanted: list[str] = list(data["project"]["dependencies"])
    here = f"{sys.platform}-{os.uname().machine}" if hasattr(os, "uname") else sys.platform
    for group in groups:
        wanted += data["dependency-groups"][group]
        wanted += data["dependency-groups"].get(f"{group}-{here}", ())
    return wanted


def missing(wanted: Iterable[str], search_path: Iterable[str]) -> list[str]:
    """Those of the requirements `wanted` that no distribution in `search_path` meets by name and lowest version.

    Reads only folder names (`numpy-2.1.0.dist-info`): importlib.metadata alone would take longer than the
    whole check may.
    """
    found: dict[str, tuple[int, ...]] = {}
    for folder in search_path:
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder or "."):  # noqa: PTH208 - names only, at every start
                match = re.match(r"(.+?)-(\d[^-]*)(?:-.*)?\.(?:dist|egg)-info$", entry)
                if match:
                    found.setdefault(_canonical(match[1]), _version(match[2]))
    return [text for text in wanted if not _met(text, found)]


def _met(text: str, found: Mapping[str, tuple[int, ...]]) -> bool:
    name, lowest = parse_requirement(text)
    version = found.get(name)
    return version is not None and version >= lowest


def parse_requirement(text: str) -> tuple[str, tuple[int, ...]]:
    """The canonical name and the lowest version (`()`: any) of a requirement like `numpy>=1.26`.

    Raises ValueError for the forms that this project does not use (markers, extras, upper bounds).
    """
    match = re.fullmatch(r"([A-Za-z0-9._-]+?)(?:>=([0-9.]+))?", text.replace(" ", ""))
    if match is None:
        raise ValueError(f"requirement {text!r} is not of the form name or name>=version")
    return _canonical(match[1]), _version(match[2] or "")


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(text: str) -> tuple[int, ...]:
    numbers = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()


# --- the environment ----------------------------------------------------------------------------


def _ensure(module: str, group: str | None) -> None:
    attempt = int(os.environ.pop(ATTEMPT, "0"))
    if not (ROOT / "pyproject.toml").is_file() or not (ROOT / "configs").is_dir():
        return  # installed: whoever installed it brought the requirements
    groups = (group,) if group else ()
    lacking = missing(requirements(ROOT, groups), sys.path)
    if not lacking:
        return
    if attempt > 1:
        raise Failure(
            f"{ROOT / '.venv'} was prepared but lacks {', '.join(lacking)}: remove that folder and try again."
        )
    inside = Path(sys.prefix).resolve() == (ROOT / ".venv").resolve()
    try:
        python = prepare(ROOT, groups, anew=inside)
    except OSError as error:
        raise Failure(
            f"cannot prepare {ROOT / '.venv'}: {error}. Make room or move the checkout to a folder that you can "
            f"write, or install it elsewhere: pip install {ROOT}"
        ) from error
    continue_in(python, module, attempt + 1)


def prepare(root: Path, groups: Sequence[str] = (), *, anew: bool = False, say: Say = say) -> Path:
    """The interpreter of `root`/.venv, with the project (editable) and `groups` installed.

    Costs nothing when the stamp in `.venv` says that this was done for this pyproject.toml; `anew` distrusts
    it. Two callers at once are one after the other. Raises Failure, and OSError when `.venv` cannot be written.
    """
    venv = root / ".venv"
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    fingerprint = hashlib.sha256((root / "pyproject.toml").read_bytes()).hexdigest()
    if not anew and python.exists() and _read_stamp(venv).covers(fingerprint, groups):
        return python
    venv.mkdir(exist_ok=True)
    with locked(venv / "bootstrap.lock", say) as lock:
        stamp = _read_stamp(venv)
        if not anew and python.exists() and stamp.covers(fingerprint, groups):
            return python
        if anew or not python.exists() or not stamp.made:
            (venv / "stamp.json").unlink(missing_ok=True)
            _create(venv, python, lock, say)
        both = sorted({*groups, *stamp.groups})
        _write_stamp(venv, Stamp(True, "", tuple(both)))
        _install(root, python, both, lock, say)
        _write_stamp(venv, Stamp(True, fingerprint, tuple(both)))
    return python


def _create(venv: Path, python: Path, lock: int, say: Say) -> None:
    if not python.exists():  # new, or made by a Python that is gone: links that lead nowhere are not renewed
        for path in venv.iterdir():
            if path.name != "bootstrap.lock":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    _require_ensurepip(say)
    say(f"preparing {venv} (once)")
    _run([sys.executable, "-m", "venv", str(venv)], lock, "making the environment", say)


def _install(root: Path, python: Path, groups: Sequence[str], lock: int, say: Say) -> None:
    extra = [text for text in requirements(root, groups) if text not in requirements(root)]
    argv = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--no-user", "--disable-pip-version-check"]
    say("installing the requirements into .venv (about 150 MB to download; a minute or two)")
    began = time.monotonic()
    _run([*argv, "--editable", str(root), *extra], lock, "installing", say)
    say(f"installed in {time.monotonic() - began:.0f} s")


def _require_ensurepip(say: Say) -> None:
    """Raises Failure when venvs come without pip here (Debian ships that part apart) and we may not change it."""
    import importlib.util  # noqa: PLC0415 - only the first start pays for it

    if importlib.util.find_spec("ensurepip"):
        return
    if not shutil.which("apt-get"):
        raise Failure(f"{sys.executable} has no `ensurepip`, so it cannot make a venv. Use a complete Python 3.11+.")
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or (os.environ.get("CI") != "true" and sys.stdin.isatty()):
        raise Failure(f"this Python cannot make a venv. Type: sudo apt-get install {package}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    say(f"installing {package}")
    for argv in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
        _run(argv, None, " ".join(argv[:2]), say, env)


def _run(argv: Sequence[str], lock: int | None, what: str, say: Say, env: Mapping[str, str] | None = None) -> None:
    """Runs `argv` silently; raises Failure with its output when it fails or takes an hour.

    The child keeps the lock open too: should we be killed, the next start waits for it to end.
    """
    held = (lock,) if lock is not None and os.name == "posix" else ()
    try:
        with ticking(what, say):
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(env) if env else None,
                timeout=INSTALL_LIMIT_S,
                pass_fds=held,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise Failure(f"{what} took more than {INSTALL_LIMIT_S / 60:.0f} minutes: {' '.join(argv)}") from None
    if done.returncode != 0:
        output = done.stdout.decode("utf-8", "replace").strip()
        raise Failure(f"{what} failed (status {done.returncode}): {' '.join(argv)}\n{output}")


@contextlib.contextmanager
def ticking(what: str, say: Say = say, every_s: float = TICK_S) -> Iterator[None]:
    """Says every `every_s` seconds that `what` still goes on."""
    over = threading.Event()
    began = time.monotonic()

    def tick() -> None:
        while not over.wait(every_s):
            say(f"{what} … {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# --- the stamp and the lock ---------------------------------------------------------------------


class Stamp(NamedTuple):
    """How far `.venv` has come: made; and filled for the pyproject.toml with this hash and these groups."""

    made: bool = False
    pyproject: str = ""
    groups: tuple[str, ...] = ()

    def covers(self, fingerprint: str, groups: Iterable[str]) -> bool:
        """Whether nothing is left to do."""
        return self.pyproject == fingerprint and set(groups) <= set(self.groups)


def _read_stamp(venv: Path) -> Stamp:
    try:
        data = json.loads((venv / "stamp.json").read_text(encoding="utf-8"))
        return Stamp(True, str(data["pyproject"]), tuple(data["groups"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Stamp()


def _write_stamp(venv: Path, stamp: Stamp) -> None:
    new = venv / "stamp.json.new"
    new.write_text(json.dumps({"pyproject": stamp.pyproject, "groups": stamp.groups}), encoding="utf-8")
    new.replace(venv / "stamp.json")


@contextlib.contextmanager
def locked(path: Path, say: Say = say) -> Iterator[int]:
    """Holds the lock file `path` (the system frees it when its holders die); yields its descriptor."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        waiting = False
        while not _try_lock(handle):
            if not waiting:
                say("another start is preparing .venv; waiting for it")
            waiting = True
            time.sleep(0.2)
        yield handle
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


# --- going on -----------------------------------------------------------------------------------


def continue_in(python: Path, module: str, attempt: int) -> None:
    """Restarts as `python -m module` with the same arguments; does not return."""
    argv = [str(python), "-m", module, *sys.argv[1:]]
    env = {**os.environ, ATTEMPT: str(attempt)}
    if os.name == "nt":  # where exec starts a child and ends the parent, whose shell then does not wait
        sys.exit(wait_for(argv, env))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(python, argv, env)


def wait_for(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs `argv` as a child to its end and returns its status. Ctrl-C reaches the child too, which decides."""
    process = subprocess.Popen(list(argv), env=dict(env))
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
