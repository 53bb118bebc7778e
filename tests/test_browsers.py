"""Browsers are found where the configuration says, and start with the flags it gives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bisect_bot.errors import ConfigError, NoBrowser, UsageError
from bisect_bot.model import Adapter
from bisect_bot.targets import browsers

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


@pytest.mark.skipif(sys.platform == "win32", reason="there the version is the name of a folder")
def test_the_version_is_what_the_browser_says_of_itself(tmp_path: Path) -> None:
    script = tmp_path / "browser"
    script.write_text("#!/bin/sh\necho Chromium 156.0.8078.114 built on Debian\n")
    script.chmod(0o755)
    found = browsers.locate(f"chrome:{script}", CONFIG)
    assert (found.name, found.version, found.executable) == ("chrome", "156.0.8078.114", script)
    assert found.product == "Chromium"
    script.write_text("#!/bin/sh\necho cannot open display >&2\nexit 1\n")
    with pytest.raises(NoBrowser, match="cannot open display"):
        browsers.identify(script)


def test_a_configuration_that_does_not_fit_says_where(tmp_path: Path) -> None:
    wrong = tmp_path / "browsers.toml"
    wrong.write_text("[common]\nargs = 7\n")
    with pytest.raises(ConfigError, match=r"browsers\.toml"):
        browsers.load_config(wrong)
