"""What works on this machine: each thing is looked at, nothing stops the others, and no names get out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bisect_bot.builds.housekeeping import take_stock
from bisect_bot.cli.doctor import shown
from bisect_bot.doctor.browsers import browsers, found, of_target
from bisect_bot.doctor.compared import Examined, apart
from bisect_bot.doctor.items import Item, State, examination, guarded, tidy
from bisect_bot.doctor.places import cache_size, clone, desktop, disks
from bisect_bot.doctor.programs import npm, version_of
from bisect_bot.errors import UsageError
from bisect_bot.model import Adapter
from bisect_bot.probes import plain_target
from bisect_bot.targets.browsers import Browser, load_config, locate
from bisect_bot.targets.obstacles import Facts, Node
from tests.command import Shell

KEYS = {"system", "python", "onnx", "onnxruntime", "browser", "page", "adapter", "webgpu"}
KEYS |= {"npm", "registry", "node", "git", "toolchain", "cache", "temporary"}


def by_key(told: str) -> dict[str, Any]:
    """The first item of each key."""
    items = json.loads(told)["items"]
    return {item["key"]: item for item in reversed(items)}


@pytest.mark.network
@pytest.mark.browser
def test_this_machine_is_examined_as_json_and_as_text(shell: Shell) -> None:
    done = shell.run("doctor", "--json")
    items = by_key(done.out)
    assert set(items) >= KEYS
    assert json.loads(done.out)["schema"] == 1
    assert done.status == (0 if json.loads(done.out)["ready"] else 14)
    assert items["browser"]["state"] == "ok"
    page = items["page"]["details"]
    assert page["isolated"] and page["threads"] and page["simd"], "what every build needs works in any of today's"
    adapters = [i for i in json.loads(done.out)["items"] if i["key"] == "adapter" and i["state"] == "ok"]
    assert all(isinstance(a["details"]["features"], list) and a["details"]["limits"] for a in adapters)
    assert set(items["webgpu"]["details"]["remembered"]) >= {"any"} if adapters else True
    assert items["registry"]["details"]["builds"] > 10
    assert str(Path.home()) + "/" not in done.out
    assert not list(shell.folder.iterdir()), "nothing is left behind"


def test_a_named_browser_that_is_not_there_makes_the_main_job_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROME_BIN", "/nowhere/chrome")
    item = next(browsers(load_config()))
    assert (item.key, item.state, item.needed) == ("browser", State.MISSING, True)
    assert "/nowhere/chrome" in item.value and "CHROME_BIN" in item.do


@pytest.mark.electron
def test_an_electron_is_examined_with_its_versions_and_named_where_it_lacks_something() -> None:
    path = locate("electron", load_config()).executable
    items = [item for item in of_target("electron", [path], load_config()) if item.key != "gpu"]
    assert [item.key for item in items] == ["browser", "page", "adapter", "adapter", "webgpu"]
    told, page = items[0], items[1]
    assert "Electron" in told.value and f"--target electron:{path}" in told.means
    versions = page.details["versions"]
    assert isinstance(versions, dict) and {"electron", "chrome", "node", "v8"} <= set(versions)
    assert versions["electron"] == told.details["version"]
    assert not any(item.needed for item in items), "the main job runs without"


@pytest.mark.electron
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_an_electron_without_a_display_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = locate("electron", load_config()).executable
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    page = next(item for item in of_target("electron", [path], load_config()) if item.key == "page")
    assert (page.state, page.needed) == (State.MISSING, False)
    assert "Electron needs a display" in page.value and "xvfb" in page.do.lower()


@pytest.mark.browser
def test_a_software_adapter_is_told_for_low_and_high_power_with_its_driver() -> None:
    config = load_config()
    (path, *_) = found(config)
    items = list(of_target("chrome", [path], config))
    told = [item.details for item in items if item.key == "adapter" and item.details.get("software")]
    assert told, [item.value for item in items]
    assert told[0]["driver"]
    by_power = told[0]["by_power"]
    assert isinstance(by_power, dict) and set(by_power) == {"low-power", "high-performance"}
    gpus = [item for item in items if item.key == "gpu"]
    assert gpus and gpus[0].details["driver"] == told[0]["driver"]


@pytest.mark.browser
def test_browsers_that_are_named_are_compared(tmp_path: Path) -> None:
    config = load_config()
    (path, *_) = found(config)
    script = tmp_path / "canary"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "Chromium 999.0.1.1" && exit\nexec "{path}" "$@"\n')
    script.chmod(0o755)
    items = list(browsers(config, (f"chrome:{path}", f"chrome:{script}", "chrome:/nowhere")))
    told = [item for item in items if item.key == "browser"]
    assert [item.state for item in told] == [State.OK, State.OK, State.MISSING]
    assert [item.details.get("name") for item in told] == ["chrome", "chrome-2", None]
    assert f"chrome-2: Chromium 999.0.1.1 at {script}" in told[1].value and "/nowhere" in told[2].value
    (other,) = (item for item in items if item.key == "version")
    assert "999.0.1.1" in other.value and other.details["started"] == told[0].details["version"]
    assert items[-1].key == "compared"
    assert items[-1].details == {"differ_by": []}, "the version that the script tells is not that of what it starts"
    assert "the same browser and adapter twice" in items[-1].means
    with pytest.raises(UsageError, match="unknown target"):
        list(browsers(config, ("lynx",)))


def test_what_may_make_browsers_differ_beside_the_build_is_told() -> None:
    gpu, cpu = Adapter("nvidia", "turing", driver="550.1"), Adapter("google", "swiftshader", software=True)

    def named(called: str, version: str, *adapters: Adapter) -> Examined:
        browser = Browser("chrome", Path("chrome"), version, "Chrome")
        gave = {str(n): replace(plain_target(browser, "any", ()), adapter=each) for n, each in enumerate(adapters)}
        return Examined(called, browser, gave)

    both = apart((named("chrome", "131.0.0.1", gpu, cpu), named("chrome-2", "132.0.0.1", cpu)))
    assert both.value == (
        "chrome is Chrome 131.0.0.1 on nvidia turing (hardware); chrome-2 is Chrome 132.0.0.1 on google swiftshader"
        " (software)"
    )
    assert both.details["differ_by"] == ["browser", "adapter"] and "--adapter software all have the same" in both.means
    driver = apart((named("chrome", "131.0.0.1", gpu), named("chrome-2", "131.0.0.1", replace(gpu, driver="551"))))
    assert driver.details["differ_by"] == ["adapter"] and "--adapter software" not in driver.means
    alone = apart((named("chrome", "131.0.0.1", gpu), named("chrome-2", "132.0.0.1", gpu)))
    assert (alone.state, alone.details["differ_by"]) == (State.OK, ["browser"])
    assert "what differs with the same build is the browser's" in alone.means
    twice = apart((named("chrome", "131.0.0.1", gpu), named("chrome-2", "131.0.0.1", gpu)))
    assert (twice.state, twice.details["differ_by"]) == (State.WARNING, [])


def test_what_is_in_the_way_on_another_system_is_told_with_what_to_do() -> None:
    (item,) = desktop(Facts("win32", session=1, remote="RDP-Tcp#2"))
    assert (item.key, item.state, item.details["obstacle"]) == ("session", State.WARNING, "remote-desktop")
    assert "RDP-Tcp#2" in item.value and item.do
    display, missing = desktop(
        Facts("linux", display=False, xvfb=False, nodes=(Node("/dev/dri/renderD128", "r", True),))
    )
    assert (display.key, display.state, missing.details["lacks"]) == ("display", State.WARNING, "window")
    assert "xvfb" in missing.do


@pytest.mark.parametrize("width", [80, 120])
def test_each_thing_is_told_with_what_it_means_and_what_to_do(width: int) -> None:
    lacking = Item(
        key="browser", state=State.MISSING, value="[red]none", means="opens \x1b", do="Get one.", needed=True
    )
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(shown(examination((Item(key="git", state=State.OK, value="2", means="reads"), lacking))))
    lines = [text.rstrip() for text in capture.get().splitlines()]
    assert lines == [
        "ok       git      2  (reads)",
        "missing  browser  [red]none  (opens \\x1b)",
        "                  → Get one.",
        "The main job cannot run here: browser.",
    ]


def test_without_npm_only_a_list_from_the_last_time_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("BISECT_BOT_CACHE", str(tmp_path))
    (item,) = npm()
    assert (item.state, item.needed, examination((item,)).ready) == (State.MISSING, True, False)
    (tmp_path / "versions.json").write_text('["1.20.1"]')
    (item,) = npm()
    assert examination((item,)).ready


def test_one_thing_that_fails_is_told_and_the_next_is_looked_at() -> None:
    def fails() -> Iterator[Item]:
        yield Item(key="first", state=State.OK, value="1", means="")
        raise RuntimeError("broken\x1b[31m\nhere")

    seen = list(guarded("second", fails, needed=True))
    assert [item.key for item in seen] == ["first", "second"]
    assert "RuntimeError" in seen[1].value and "\x1b" not in seen[1].value and "\n" not in seen[1].value
    assert not examination(tuple(seen)).ready


def test_only_what_is_needed_makes_a_machine_unready() -> None:
    items = tuple(Item(key="x", state=state, value="", means="") for state in State)
    assert examination(items).ready
    assert not examination((*items, Item(key="y", state=State.MISSING, value="", means="", needed=True))).ready


def test_the_users_home_is_a_tilde_in_text_and_details() -> None:
    home = str(Path.home())
    item = tidy(Item(key="x", state=State.OK, value=f"at {home}/a", means="", details={"path": [f"{home}/b"]}))
    assert (item.value, item.details) == ("at ~/a", {"path": ["~/b"]})


def test_each_browser_is_found_once_and_the_named_one_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("chromium", "google-chrome"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "google-chrome-stable").symlink_to("google-chrome")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROME_BIN", raising=False)
    names = [path.name for path in found(load_config()) if path.parent == tmp_path]
    assert names == ["google-chrome", "chromium"]
    monkeypatch.setenv("CHROME_BIN", str(tmp_path / "chromium"))
    assert found(load_config())[0].name == "chromium"


@pytest.mark.parametrize(
    ("script", "version"),
    [("echo tool 1.2.3", "1.2.3"), ("echo tool", None), ("echo 1.2.3; exit 1", None), ("exec cat", None)],
)
def test_a_program_tells_its_version_or_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, version: str | None
) -> None:
    (tmp_path / "tool").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert version_of(("tool", "--version")) == version
    assert version_of(("no-such-tool", "--version")) is None


def test_a_cache_that_takes_too_long_to_measure_is_told_as_at_least(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"folder{n}").mkdir()
        (tmp_path / f"folder{n}" / "file").write_bytes(bytes(1000))
    all_of_it, builds, whole = cache_size(tmp_path)
    assert (all_of_it >= 3000, builds, whole) == (True, 0, True)
    size, _, whole = cache_size(tmp_path, limit_s=-1)
    assert (size < all_of_it, whole) == (True, False)


def test_the_size_of_the_cache_is_that_of_its_list(tmp_path: Path) -> None:
    for name in ("artifacts/ab/one", "artifacts/cd/two", "modules/three"):
        (tmp_path / name).mkdir(parents=True)
    shared = tmp_path / "artifacts" / "ab" / "one" / "file"
    shared.write_bytes(bytes(100_000))
    for other in ("artifacts/cd/two", "modules/three"):
        (tmp_path / other / "file").hardlink_to(shared)
    size, _, whole = cache_size(tmp_path)
    assert (size, whole) == (take_stock(tmp_path).total, True)
    assert 100_000 <= size < 200_000


def test_a_small_disk_is_no_place_for_builds(monkeypatch: pytest.MonkeyPatch, small_disk: Path) -> None:
    monkeypatch.setenv("BISECT_BOT_CACHE", str(small_disk / "not" / "yet"))
    cache = next(item for item in disks() if item.key == "cache")
    assert (cache.state, bool(cache.do)) == (State.MISSING, True)


def test_a_folder_that_is_no_clone_is_told(tmp_path: Path) -> None:
    (item,) = clone(tmp_path)
    assert (item.state, item.needed) == (State.MISSING, False)
