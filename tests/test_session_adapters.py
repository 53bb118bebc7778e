"""Which flags give which adapter is remembered as long as nothing became another, for every kind of browser."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_bot.doctor.browsers import browsers
from bisect_bot.errors import NoAdapter, NoBrowser
from bisect_bot.model import Adapter, Request, Target
from bisect_bot.probes import choose_target, plain_target
from bisect_bot.session.adapters import AdapterMemory
from bisect_bot.session.journal import FILE_NAME, Journal
from bisect_bot.session.watcher import Silent
from bisect_bot.session.workshop import open_workshop
from bisect_bot.targets.browsers import Browser, load_config, locate
from tests.test_session_control import wrapper

CONFIG = load_config()
GPU = Adapter("nvidia", "turing", driver="550.1")
CPU = Adapter("google", "swiftshader", fallback=True, software=True)
unix = pytest.mark.skipif(sys.platform == "win32", reason="a script of a Unix shell")


@pytest.fixture
def memory(tmp_path: Path) -> AdapterMemory:
    """That of an empty journal."""
    return AdapterMemory(Journal.open(tmp_path / FILE_NAME), CONFIG)


def browser(folder: Path, kind: str = "chrome", version: str = "131.0.1.2") -> Browser:
    path = folder / kind
    path.write_bytes(b"\x7fELF")
    return Browser(kind, path, version, "Browser")


def gave(of: Browser, **adapters: Adapter | None) -> dict[str, Target]:
    """What a browser gave for each set of flags."""
    return {name: replace(plain_target(of, "any", (), name), adapter=adapter) for name, adapter in adapters.items()}


@pytest.mark.parametrize("kind", ["chrome", "electron"])
def test_what_was_found_is_found_again_for_every_kind_of_browser(
    memory: AdapterMemory, tmp_path: Path, kind: str
) -> None:
    one = browser(tmp_path, kind)
    found = replace(plain_target(one, "hardware", ("--flag",), "hardware"), adapter=GPU, chosen_by=("says chrome 131",))
    assert memory.recall(one, "hardware", ("--flag",)) is None
    memory.keep(one, found)
    assert memory.recall(one, "hardware", ("--flag",)) == found
    assert memory.recall(one, "any", ("--flag",)) is memory.recall(one, "hardware", ()) is None
    memory.forget(replace(found, name=f"{kind}-2"))
    assert memory.recall(one, "hardware", ("--flag",)) is None


def test_another_browser_driver_or_desktop_is_looked_at_anew(
    memory: AdapterMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = browser(tmp_path)
    memory.keep(one, replace(plain_target(one, "any", (), "hardware"), adapter=GPU))
    assert memory.recall(one, "any", ()) is not None
    assert memory.recall(replace(one, version="132.0.1.2"), "any", ()) is None
    assert memory.recall(replace(one, product="Another"), "any", ()) is None
    with monkeypatch.context() as changed:
        changed.setenv("VK_DRIVER_FILES", "/another.json")
        assert memory.recall(one, "any", ()) is None
    if sys.platform == "linux":
        with monkeypatch.context() as changed:
            changed.setenv("PATH", str(tmp_path))
            changed.delenv("DISPLAY", raising=False)
            assert memory.recall(one, "any", ()) is None, "there is no display any more"
    assert memory.recall(one, "any", ()) is not None
    one.executable.write_bytes(b"\x7fELF updated")
    assert memory.recall(one, "any", ()) is None


def test_a_look_at_all_flags_answers_every_common_wish(memory: AdapterMemory, tmp_path: Path) -> None:
    one = browser(tmp_path)
    assert memory.learn(one, gave(one, hardware=GPU, software=CPU)) == ("any", "hardware", "software")
    said = {wish: memory.recall(one, wish, ()) for wish in ("any", "hardware", "software")}
    assert {wish: (t.flags, t.adapter, t.wish) for wish, t in said.items() if t} == {
        "any": ("hardware", GPU, "any"),
        "hardware": ("hardware", GPU, "hardware"),
        "software": ("software", CPU, "software"),
    }
    # What one wish lost, the others lost: it is the same browser.
    assert said["any"] is not None
    memory.forget(said["any"])
    assert [memory.recall(one, wish, ()) for wish in said] == [None] * 3


def test_a_software_adapter_is_no_hardware_and_what_was_not_tried_is_not_known(
    memory: AdapterMemory, tmp_path: Path
) -> None:
    one = browser(tmp_path)
    # Flags for the hardware that give a software adapter, as where a driver went away.
    assert memory.learn(one, gave(one, hardware=CPU, software=CPU)) == ("any", "software")
    other = browser(tmp_path, "electron")
    assert memory.learn(other, gave(other, software=CPU)) == ("software",)
    assert memory.learn(other, gave(other, hardware=None, software=CPU)) == ("any", "software")
    assert memory.learn(other, gave(other, hardware=None, software=None)) == ()


@pytest.mark.browser
def test_a_search_after_doctor_does_not_look_again(tmp_path: Path) -> None:
    looks: list[str] = []

    class Looking(Silent):
        def doing(self, text: str) -> None:
            looks.extend([text] if "GPU adapters" in text else [])

    with open_workshop(Looking(), tmp_path) as workshop:
        items = list(browsers(CONFIG, ("chrome",), AdapterMemory(workshop.journal, CONFIG).learn))
        assert "software" in str(items[-1].details["remembered"]), items[-1]
        request = Request("a", "b", (), adapter="software")
        (remembered,) = workshop.targets(request)
        assert looks == []
        workshop.forget_adapters((remembered,))
        assert workshop.targets(request) == (remembered,), "doctor and a search find the same"
        assert len(looks) == 1


@unix
@pytest.mark.browser
def test_a_script_that_stands_for_chrome_is_known_by_its_text_and_by_what_the_browser_says(tmp_path: Path) -> None:
    script = wrapper(tmp_path, "156.0.1.1")
    request = Request("a", "b", (), (f"chrome:{script}",), adapter="software")
    with open_workshop(Silent(), tmp_path / "cache") as workshop:
        (first,) = workshop.targets(request)
        assert any(each.startswith("chrome sha256:") for each in first.chosen_by)
        real = locate("chrome", CONFIG).version
        assert f"says chrome {real}" in first.chosen_by and first.version == "156.0.1.1" != real
        assert workshop.targets(request) == (first,)
        script.write_text(script.read_text().replace('"$@"', '--mute-audio "$@"'))
        (second,) = workshop.targets(request)
        assert (second.version, second.adapter) == (first.version, first.adapter)
        assert second.fingerprint != first.fingerprint


@unix
@pytest.mark.browser
def test_flags_that_take_the_browser_with_them_leave_the_others_to_be_tried(tmp_path: Path) -> None:
    script = tmp_path / "chrome"
    real = locate("chrome", CONFIG).executable
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *--use-vulkan=native*) echo driver failed >&2; exit 3;; esac\nexec "{real}" "$@"\n'
    )
    script.chmod(0o755)
    fake = Browser("chrome", script, "1.2.3.4")
    found = choose_target(fake, "any", (), CONFIG)
    assert (found.flags, found.adapter is not None and found.adapter.software) == ("software", True)
    with pytest.raises(NoBrowser, match="driver failed"):
        choose_target(fake, "hardware", (), CONFIG)


@pytest.mark.browser
def test_a_machine_without_the_gpu_that_was_asked_for_says_what_is_in_the_way() -> None:
    with pytest.raises(NoAdapter) as caught:
        choose_target(locate("chrome", CONFIG), "no such vendor", ("--use-webgpu-adapter=swiftshader",), CONFIG)
    assert "swiftshader" in str(caught.value) and "--adapter software" in caught.value.advice
    if sys.platform == "linux" and not list(Path("/dev").glob("dri/renderD*")) and not Path("/dev/nvidia0").exists():
        assert "and here" in str(caught.value) and "no GPU (no /dev/dri/renderD*" in str(caught.value)
