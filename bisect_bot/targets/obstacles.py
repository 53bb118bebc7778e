"""What keeps a browser of this machine from a window or from the GPU, said exactly. Pure: from facts, sentences.

`facts.py` gathers the facts. An obstacle is a cause that is likely, not a proof: a browser that got its GPU has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

LINUX, MACOS, WINDOWS = "linux", "darwin", "win32"

# What to do where `navigator.gpu` is missing: no GPU would change that.
NEWER_BROWSER = "Use a newer browser for the backend webgpu, or --backend wasm."


class Lacks(StrEnum):
    """What cannot be had: a window (Electron needs one), or the GPU."""

    WINDOW = "window"
    GPU = "gpu"


@dataclass(frozen=True, slots=True)
class Node:
    """A device file of a GPU: its group's name (a number where it has none), and whether it can be used by us."""

    path: str
    group: str
    usable: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What this process can see of the session and the machine that it runs on; None is not known.

    `locked`: the screen of our session is. `remote` names a remote desktop's connection (`RDP-Tcp#3`). `session` is the
    number of a Windows session: services have 0. `on_console`: somebody, on macOS we, sits before the screen. `seat` is
    the seat of a login session of Linux, empty for one without. `nodes` are the GPU's device files, `drivers` how many
    Vulkan drivers for hardware are installed.
    """

    platform: str
    display: bool = True
    wayland: bool = False
    xvfb: bool = False
    ssh: bool = False
    locked: bool | None = None
    remote: str = ""
    session: int | None = None
    on_console: bool | None = None
    seat: str | None = None
    container: bool = False
    nodes: tuple[Node, ...] = ()
    drivers: int | None = None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something in the way of a window or of the GPU: what it is, and what to do about it."""

    key: str
    lacks: Lacks
    problem: str
    advice: str


def obstacles(facts: Facts) -> tuple[Obstacle, ...]:
    """All that `facts` show to be in the way, the likeliest cause first."""
    by_platform = {LINUX: _linux, MACOS: _macos, WINDOWS: _windows}
    return tuple(by_platform.get(facts.platform, _linux)(facts))


def in_the_way_of(lacks: Lacks, facts: Facts) -> tuple[Obstacle, ...]:
    """Those that are in the way of `lacks`."""
    return tuple(each for each in obstacles(facts) if each.lacks is lacks)


def because(found: Sequence[Obstacle]) -> str:
    """The problems as the end of a sentence that tells what failed: `; and here the screen is locked`. May be empty."""
    return f"; and here {', and '.join(each.problem for each in found)}" if found else ""


def advice_of(found: Sequence[Obstacle]) -> str:
    """What to do about all of them; may be empty."""
    return " ".join(dict.fromkeys(each.advice for each in found))


def _linux(facts: Facts) -> Iterable[Obstacle]:
    if not facts.display and not facts.xvfb:
        there = "DISPLAY is not set, WAYLAND_DISPLAY is" if facts.wayland else "DISPLAY and WAYLAND_DISPLAY are not set"
        yield Obstacle(
            "no-display",
            Lacks.WINDOW,
            f"there is no display ({there}) and Xvfb is not installed",
            "Install Xvfb (Debian, Ubuntu: apt-get install xvfb; Fedora: dnf install xorg-x11-server-Xvfb).",
        )
    yield from _nodes_of_linux(facts)
    if facts.nodes and facts.drivers == 0:
        yield Obstacle(
            "no-vulkan",
            Lacks.GPU,
            "there is a GPU, but no Vulkan driver for it is installed",
            "Install it (Debian, Ubuntu: mesa-vulkan-drivers for AMD and Intel; NVIDIA's driver brings its own).",
        )
    if facts.locked:
        # Neither a headless browser nor X11 needs the screen, but some compositors give no GPU then.
        yield Obstacle("locked", Lacks.GPU, "the screen is locked", "Unlock it if a browser hangs or gets no GPU.")


def _nodes_of_linux(facts: Facts) -> Iterable[Obstacle]:
    if not facts.nodes:
        what = "this container has" if facts.container else "the system shows"
        yield Obstacle(
            "no-gpu",
            Lacks.GPU,
            f"{what} no GPU (no /dev/dri/renderD*, no /dev/nvidia0)",
            "Give it to the container: docker run --device /dev/dri, or --gpus all for NVIDIA's."
            if facts.container
            else "Where there is a GPU, its kernel driver is not loaded: see lspci -k and dmesg.",
        )
        return
    if any(node.usable for node in facts.nodes):
        return
    groups = tuple(dict.fromkeys(node.group for node in facts.nodes))
    who = " and ".join(groups)
    seatless = facts.seat == "" or (facts.ssh and not facts.seat)
    how = " over ssh" if facts.ssh else ""
    why = f": you are connected{how} without a seat, and are not in its group" if seatless else ""
    yield Obstacle(
        "gpu-denied",
        Lacks.GPU,
        f"{facts.nodes[0].path} belongs to the group {who} and may not be used by you{why}",
        f'Type: sudo usermod -aG {",".join(groups)} "$USER" and log in again.',
    )


def _macos(facts: Facts) -> Iterable[Obstacle]:
    if facts.on_console is False:
        how = "over ssh, and nobody" if facts.ssh else "in the background, and nobody"
        yield Obstacle(
            "no-session",
            Lacks.WINDOW,
            f"this runs {how} of your name is logged in at the screen: there is no session with a GPU",
            "Log in at the screen (or by screen sharing) as the same user, and leave it open.",
        )
    if facts.locked:
        yield Obstacle(
            "locked",
            Lacks.GPU,
            "the screen is locked, and macOS may put the GPU to sleep then",
            "Unlock the screen; to keep it awake, type: caffeinate -d",
        )


def _windows(facts: Facts) -> Iterable[Obstacle]:
    if facts.session == 0:
        yield Obstacle(
            "service",
            Lacks.GPU,
            "this runs as a service (session 0), to which Windows gives no GPU but its Basic Render Driver",
            "Start it from a user's own session: log in, or let the task run only when the user is logged on.",
        )
        return
    if facts.remote:
        yield Obstacle(
            "remote-desktop",
            Lacks.GPU,
            f"this is a remote desktop ({facts.remote}), to which Windows may give its Basic Render Driver alone",
            "Allow it the GPU (group policy: Use hardware graphics adapters for all Remote Desktop Services sessions),"
            " or go to the console: tscon 1 /dest:console.",
        )
    elif facts.ssh:
        yield Obstacle(
            "ssh",
            Lacks.GPU,
            "this runs over ssh, in a session without a desktop",
            "Start it from a user's own session: log in at the screen.",
        )
    if facts.locked:
        yield Obstacle(
            "locked",
            Lacks.GPU,
            "the screen is locked, and Windows gives a locked session no window to draw on",
            "Unlock it, or let it not lock while tests run.",
        )
