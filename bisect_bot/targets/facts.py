"""Gathers what `obstacles.py` judges: the session and the GPU's device files, as this process can see them.

Nothing here raises: what cannot be asked is not known.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import plistlib
import shutil
import sys
import xml.parsers.expat
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from bisect_bot.processes import run
from bisect_bot.targets.obstacles import MACOS, WINDOWS, Facts, Lacks, Node, Obstacle, in_the_way_of

ASK_S = 5.0
_NODES = ("dev/dri/renderD*", "dev/nvidia[0-9]*", "dev/dxg")  # the last is that of Windows, for its Linux
_VULKAN = ("usr/share/vulkan/icd.d", "etc/vulkan/icd.d", "usr/local/share/vulkan/icd.d")
# Drivers of the Vulkan loader that compute on the CPU.
_SOFTWARE = ("lvp", "lavapipe", "swiftshader", "softpipe")
_CONTAINER = (".dockerenv", "run/.containerenv")
_DESKTOP_READOBJECTS = 0x0001


def gather() -> Facts:
    """The facts of this process and machine, in less than a second unless a system program hangs."""
    env = os.environ
    ssh = bool(env.get("SSH_CONNECTION") or env.get("SSH_TTY") or env.get("SSH_CLIENT"))
    facts = Facts(platform=sys.platform, ssh=ssh)
    by_platform: Mapping[str, Callable[[Facts], Facts]] = {MACOS: _macos, WINDOWS: _windows}
    return by_platform.get(sys.platform, _linux)(facts)


def in_the_way(lacks: Lacks) -> tuple[Obstacle, ...]:
    """What of this machine, as it is now, is in the way of `lacks`."""
    return in_the_way_of(lacks, gather())


# --- Linux --------------------------------------------------------------------------------------


def _linux(facts: Facts) -> Facts:
    env = os.environ
    told = login_session(_output("loginctl", "show-session", env.get("XDG_SESSION_ID", "")))
    return replace(
        facts,
        display=bool(env.get("DISPLAY")),
        wayland=bool(env.get("WAYLAND_DISPLAY")),
        xvfb=shutil.which("Xvfb") is not None,
        locked=told.get("LockedHint") == "yes" if "LockedHint" in told else None,
        seat=told.get("Seat"),
        container=any((Path("/") / name).exists() for name in _CONTAINER),
        nodes=device_nodes(Path("/")),
        drivers=vulkan_drivers(Path("/")),
    )


def login_session(told: str) -> dict[str, str]:
    """What `loginctl show-session` tells, by name."""
    pairs = (line.partition("=") for line in told.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def device_nodes(root: Path) -> tuple[Node, ...]:
    """The GPU's device files below `root`, with whether we may use them."""
    found = []
    for pattern in _NODES:
        for path in sorted(root.glob(pattern)):
            with contextlib.suppress(OSError):
                usable = os.access(path, os.R_OK | os.W_OK)
                found.append(Node(f"/{path.relative_to(root)}", _group(path), usable))
    return tuple(found)


def vulkan_drivers(root: Path) -> int:
    """How many Vulkan drivers the loader would find below `root`, those that compute on the CPU left out."""
    manifests = (path for folder in _VULKAN for path in (root / folder).glob("*.json"))
    return sum(1 for path in manifests if not any(word in path.name for word in _SOFTWARE))


def _group(path: Path) -> str:
    if sys.platform == "win32":
        return ""
    try:
        return path.group()
    except KeyError:
        return str(path.stat().st_gid)


# --- macOS --------------------------------------------------------------------------------------


def _macos(facts: Facts) -> Facts:
    if sys.platform == "win32":
        return facts
    locked, on_console = screen_of_macos(_output("ioreg", "-n", "Root", "-d1", "-a"), os.getuid())
    return replace(facts, locked=locked, on_console=on_console)


def screen_of_macos(told: str, user: int) -> tuple[bool | None, bool | None]:
    """Whether the screen is locked, and whether `user` is logged in at it, by what `ioreg -n Root -d1 -a` tells."""
    try:
        root = plistlib.loads(told.encode())
        root = root[0] if isinstance(root, list) else root
        users = root.get("IOConsoleUsers", [])
        ours = [each for each in users if each.get("kCGSSessionUserIDKey") == user]
        locked = any(each.get("CGSSessionScreenIsLocked", False) for each in ours or users)
        return bool(root.get("IOConsoleLocked", False) or locked), bool(ours)
    except (xml.parsers.expat.ExpatError, plistlib.InvalidFileException, ValueError, LookupError, AttributeError):
        return None, None


# --- Windows ------------------------------------------------------------------------------------


def _windows(facts: Facts) -> Facts:
    name = os.environ.get("SESSIONNAME", "")
    remote = name if name.upper().startswith("RDP-") else ""
    return replace(facts, remote=remote, session=_session_number(), locked=_is_locked())


def _session_number() -> int | None:
    if sys.platform != "win32":
        return None
    number = ctypes.c_ulong()
    asked = ctypes.windll.kernel32.ProcessIdToSessionId(os.getpid(), ctypes.byref(number))
    return number.value if asked else None


def _is_locked() -> bool | None:
    """Whether the desktop that takes input is not ours to open, and the program that asks for a password runs."""
    if sys.platform != "win32":
        return None
    desktop = ctypes.windll.user32.OpenInputDesktop(0, False, _DESKTOP_READOBJECTS)
    if desktop:
        ctypes.windll.user32.CloseDesktop(desktop)
        return False
    with contextlib.suppress(psutil.Error):
        return any((process.info["name"] or "").lower() == "logonui.exe" for process in psutil.process_iter(["name"]))
    return None


def _output(*argv: str) -> str:
    """What a program of the system prints; empty when it is not there, fails, or is asked without its last word."""
    program = shutil.which(argv[0])
    if program is None or not argv[-1]:
        return ""
    try:
        done = run([program, *argv[1:]], timeout_s=ASK_S)
    except OSError:
        return ""
    return done.stdout if done.status == 0 else ""
