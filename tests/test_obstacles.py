"""What is in the way of a window or a GPU is named exactly, on every system."""

from __future__ import annotations

import dataclasses
import os
import plistlib
import sys
from pathlib import Path

import pytest

from bisect_bot.targets import facts as gathering
from bisect_bot.targets.obstacles import Facts, Lacks, Node, advice_of, because, in_the_way_of, obstacles

RENDER = Node("/dev/dri/renderD128", "render", usable=True)
DENIED = dataclasses.replace(RENDER, usable=False)
DESKTOP = Facts("linux", nodes=(RENDER,), drivers=2, seat="seat0", locked=False)
MAC = Facts("darwin", on_console=True, locked=False)
WINDOWS = Facts("win32", session=1, locked=False)


@pytest.mark.parametrize(
    "facts", [DESKTOP, MAC, WINDOWS, Facts("freebsd14", nodes=(RENDER,))], ids=lambda f: f.platform
)
def test_nothing_is_in_the_way_at_a_desktop(facts: Facts) -> None:
    assert obstacles(facts) == ()
    assert because(()) == advice_of(()) == ""


@pytest.mark.parametrize(
    ("change", "key", "lacks", "words", "advice"),
    [
        ({"display": False}, "no-display", Lacks.WINDOW, "DISPLAY and WAYLAND_DISPLAY are not set", "xvfb"),
        ({"display": False, "wayland": True}, "no-display", Lacks.WINDOW, "DISPLAY is not set, WAYLAND", "xvfb"),
        ({"locked": True}, "locked", Lacks.GPU, "the screen is locked", "Unlock"),
        ({"nodes": ()}, "no-gpu", Lacks.GPU, "the system shows no GPU", "lspci"),
        ({"nodes": (), "container": True}, "no-gpu", Lacks.GPU, "this container has no GPU", "--gpus all"),
        ({"drivers": 0}, "no-vulkan", Lacks.GPU, "no Vulkan driver", "mesa-vulkan-drivers"),
        ({"nodes": (DENIED,)}, "gpu-denied", Lacks.GPU, "belongs to the group render", "usermod -aG render"),
        (
            {"nodes": (DENIED,), "ssh": True, "seat": ""},
            "gpu-denied",
            Lacks.GPU,
            "connected over ssh without a seat",
            "log in again",
        ),
    ],
)
def test_on_linux_each_is_named(change: dict[str, object], key: str, lacks: Lacks, words: str, advice: str) -> None:
    (found,) = obstacles(dataclasses.replace(DESKTOP, **change))  # type: ignore[arg-type]
    assert (found.key, found.lacks) == (key, lacks)
    assert words in found.problem and advice in found.advice


def test_xvfb_is_display_enough_and_one_usable_gpu_is_gpu_enough() -> None:
    assert obstacles(dataclasses.replace(DESKTOP, display=False, xvfb=True)) == ()
    assert obstacles(dataclasses.replace(DESKTOP, nodes=(DENIED, RENDER))) == ()
    at_the_screen = dataclasses.replace(DESKTOP, nodes=(DENIED,), ssh=True, seat="seat0")
    assert "seat" not in obstacles(at_the_screen)[0].problem


@pytest.mark.parametrize(
    ("facts", "keys", "words"),
    [
        (dataclasses.replace(MAC, locked=True), ["locked"], "put the GPU to sleep"),
        (dataclasses.replace(MAC, on_console=False, ssh=True), ["no-session"], "over ssh, and nobody of your name"),
        (dataclasses.replace(MAC, on_console=None, locked=None), [], ""),
        (dataclasses.replace(WINDOWS, session=0, remote="RDP-Tcp#1"), ["service"], "session 0"),
        (dataclasses.replace(WINDOWS, remote="RDP-Tcp#3"), ["remote-desktop"], "remote desktop (RDP-Tcp#3)"),
        (dataclasses.replace(WINDOWS, remote="RDP-Tcp#3", locked=True), ["remote-desktop", "locked"], "and here this"),
        (dataclasses.replace(WINDOWS, ssh=True), ["ssh"], "without a desktop"),
    ],
)
def test_on_macos_and_windows_each_is_named(facts: Facts, keys: list[str], words: str) -> None:
    found = obstacles(facts)
    assert [each.key for each in found] == keys
    assert words in because(found)
    assert all(each.advice in advice_of(found) for each in found)


def test_what_hides_the_gpu_is_not_said_of_a_window() -> None:
    facts = dataclasses.replace(DESKTOP, display=False, nodes=())
    assert [each.key for each in in_the_way_of(Lacks.WINDOW, facts)] == ["no-display"]
    assert [each.key for each in in_the_way_of(Lacks.GPU, facts)] == ["no-gpu"]


# --- the facts ----------------------------------------------------------------------------------


def test_what_loginctl_tells_is_read_by_name() -> None:
    told = gathering.login_session("Seat=\nLockedHint=yes\nType=tty\nnonsense\n")
    assert told == {"Seat": "", "LockedHint": "yes", "Type": "tty"}


def console(**user: object) -> str:
    users = [{"kCGSSessionUserIDKey": 501, "kCGSSessionOnConsoleKey": True, **user}]
    return plistlib.dumps({"IOConsoleLocked": False, "IOConsoleUsers": users}).decode()


@pytest.mark.parametrize(
    ("told", "user", "expected"),
    [
        (console(), 501, (False, True)),
        (console(CGSSessionScreenIsLocked=True), 501, (True, True)),
        (console(), 502, (False, False)),
        (plistlib.dumps({"IOConsoleLocked": True, "IOConsoleUsers": []}).decode(), 501, (True, False)),
        ("", 501, (None, None)),
        ("<plist", 501, (None, None)),
        (plistlib.dumps("odd").decode(), 501, (None, None)),
    ],
)
def test_the_screen_of_a_mac_is_read_from_its_registry(
    told: str, user: int, expected: tuple[bool | None, bool | None]
) -> None:
    assert gathering.screen_of_macos(told, user) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="groups of files")
def test_device_files_are_found_with_their_group_and_whether_they_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "dev/dri").mkdir(parents=True)
    for name in ("dev/dri/renderD128", "dev/dri/card0", "dev/nvidia0", "dev/nvidiactl"):
        (tmp_path / name).touch()
    found = gathering.device_nodes(tmp_path)
    assert [node.path for node in found] == ["/dev/dri/renderD128", "/dev/nvidia0"]
    assert all(node.usable and node.group for node in found)
    if os.geteuid():
        (tmp_path / "dev/nvidia0").chmod(0)
        assert [node.usable for node in gathering.device_nodes(tmp_path)] == [True, False]


def test_vulkan_drivers_of_the_cpu_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "usr/share/vulkan/icd.d").mkdir(parents=True)
    for name in ("lvp_icd.x86_64.json", "radeon_icd.x86_64.json"):
        (tmp_path / "usr/share/vulkan/icd.d" / name).write_text("{}")
    assert gathering.vulkan_drivers(tmp_path) == 1


def test_this_machine_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")
    monkeypatch.setenv("DISPLAY", ":5")
    found = gathering.gather()
    assert found.platform == sys.platform and found.ssh and found.display
    monkeypatch.delenv("DISPLAY")
    assert gathering.gather().display is (sys.platform != "linux")
