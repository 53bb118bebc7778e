"""Browsers are found where the configuration says, and start with the flags it gives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bisect_bot.errors import ConfigError, NoBrowser, UsageError
from bisect_bot.model import Adapter
from bisect_bot.targets import browsers
from bisect_bot.targets.browsers import Browser

CONFIG = browsers.load_config()
NVIDIA = Adapter("nvidia", "hopper")
SWIFTSHADER = Adapter("google", "swiftshader", fallback=True)
LAVAPIPE = Adapter("mesa", "", "", "llvmpipe (LLVM 15.0.6, 256 bits)")


@pytest.mark.parametrize(
    ("adapter", "software"),
    [
        (NVIDIA, False),
        (SWIFTSHADER, True),
        (LAVAPIPE, True),
        (Adapter("microsoft", "", "", "Microsoft Basic Render Driver"), True),
        (Adapter("apple", "metal-3"), False),
        (Adapter("intel", "gen-12lp", "", "warped"), False),
    ],
)
def test_an_adapter_that_computes_on_the_cpu_is_known_whatever_it_says(adapter: Adapter, software: bool) -> None:
    assert CONFIG.is_software(adapter) is software


@pytest.mark.parametrize(
    ("wish", "fitting"),
    [
        ("any", [NVIDIA, SWIFTSHADER, LAVAPIPE]),
        ("hardware", [NVIDIA]),
        ("software", [SWIFTSHADER, LAVAPIPE]),
        ("NVIDIA", [NVIDIA]),
        ("intel|hopper", [NVIDIA]),
        ("no such", []),
    ],
)
def test_a_wish_takes_just_the_adapters_that_it_means(wish: str, fitting: list[Adapter]) -> None:
    assert [a for a in (NVIDIA, SWIFTSHADER, LAVAPIPE) if CONFIG.fits(a, wish)] == fitting


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_every_platform_has_flags_for_every_set_that_a_wish_names(platform: str) -> None:
    for wish in ("any", "hardware", "software", "nvidia"):
        assert CONFIG.flag_sets(wish)
        for flag_set in CONFIG.flag_sets(wish):
            assert "--enable-unsafe-webgpu" in CONFIG.flags_of(flag_set, platform)


def test_switches_that_take_a_list_are_joined_because_chromium_reads_the_last_only() -> None:
    flags = ("--a", "--enable-features=X", "--b=1", "--enable-features=Y,Z", "--disable-features=Q")
    assert browsers.merge_lists(flags) == ("--a", "--b=1", "--enable-features=X,Y,Z", "--disable-features=Q")


def test_the_users_own_flags_come_last() -> None:
    line = browsers.command_line(CONFIG, "software", ("--use-webgpu-adapter=other",))
    assert line.index("--use-webgpu-adapter=other") > line.index("--use-webgpu-adapter=swiftshader")


def test_a_variable_overrides_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "chrome"
    mine.touch()
    monkeypatch.setenv("CHROME_BIN", str(mine))
    assert browsers.find("chrome") == mine
    monkeypatch.setenv("CHROME_BIN", str(tmp_path / "nowhere"))
    assert browsers.find("chrome") is None


def test_unknown_targets_and_missing_executables_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="netscape"):
        browsers.locate("netscape", CONFIG)
    with pytest.raises(NoBrowser, match="nowhere"):
        browsers.locate(f"chrome:{tmp_path}/nowhere", CONFIG)


def browser(path: Path, version: str) -> Path:
    """An executable at `path` that tells `version`, as a browser does."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="the names are those on Linux")
def test_edge_and_a_channel_are_that_browser_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CHROME_BIN", raising=False)
    browser(tmp_path / "bin/google-chrome", "Google Chrome 150.0.1.2")
    canary = browser(tmp_path / "bin/google-chrome-canary", "Google Chrome 152.0.1.2 canary")
    assert browsers.locate("chrome", CONFIG).version == "150.0.1.2"
    assert browsers.locate("chrome:canary", CONFIG) == Browser("chrome", canary, "152.0.1.2", "Google Chrome")
    with pytest.raises(NoBrowser, match="edge is not installed here as canary"):
        browsers.locate("edge:canary", CONFIG)
    if not Path("/opt/microsoft/msedge/msedge").exists():
        with pytest.raises(NoBrowser, match="no Edge was found"):
            browsers.locate("edge", CONFIG)
    browser(tmp_path / "bin/microsoft-edge", "Microsoft Edge 151.0.1.2")
    found = browsers.locate("edge", CONFIG)
    assert (found.name, found.version, found.product) == ("edge", "151.0.1.2", "Microsoft Edge")


def test_each_kind_of_browser_starts_with_its_own_flags() -> None:
    chrome, edge, electron = (
        browsers.command_line(CONFIG, None, (), name) for name in ("chrome-2", "edge", "electron")
    )
    assert chrome == edge
    assert set(chrome) - set(electron) == {"--headless=new"}, "Electron's window is hidden, but is one"
    assert any(flag.startswith("--host-resolver-rules=") for flag in electron), "it reaches nobody either"


@pytest.mark.skipif(sys.platform == "win32", reason="there the version is the name of a folder")
def test_the_version_is_what_the_browser_says_of_itself(tmp_path: Path) -> None:
    script = tmp_path / "browser"
    script.write_text("#!/bin/sh\necho Chromium 156.0.8078.114 built on Debian\n")
    script.chmod(0o755)
    found = browsers.locate(f"chrome:{script}", CONFIG)
    assert (found.name, found.version, found.executable) == ("chrome", "156.0.8078.114", script)
    assert found.product == "Chromium"
    script.write_text("#!/bin/sh\necho v9.4.1\n")
    assert browsers.identify(script) == ("Electron", "9.4.1")
    script.write_text("#!/bin/sh\necho cannot open display >&2\nexit 1\n")
    with pytest.raises(NoBrowser, match="cannot open display"):
        browsers.identify(script)


def test_a_configuration_that_does_not_fit_says_where(tmp_path: Path) -> None:
    wrong = tmp_path / "browsers.toml"
    wrong.write_text("[common]\nargs = 7\n")
    with pytest.raises(ConfigError, match=r"browsers\.toml"):
        browsers.load_config(wrong)
