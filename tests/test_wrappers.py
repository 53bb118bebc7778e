"""A script that stands for a browser is known by its text and by what it starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bisect_bot.targets.wrappers import is_script, scripts, started

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="scripts of a Unix shell")


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def program(path: Path) -> Path:
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    return path


def test_a_program_itself_is_no_script(tmp_path: Path) -> None:
    browser = program(tmp_path / "chrome")
    assert not is_script(browser) and scripts(browser) == () and started(browser) == (browser,)
    assert scripts(tmp_path / "nowhere") == ()
    assert started(tmp_path / "nowhere") == ()


def test_another_text_is_another_script_wherever_it_is_called_from(tmp_path: Path) -> None:
    browser = program(tmp_path / "chrome")
    wrapper = script(tmp_path / "wrapper.sh", f'exec {browser} --one "$@"')
    (tmp_path / "link").symlink_to(wrapper)
    first = scripts(wrapper)
    assert len(first) == 1 and first[0].startswith("wrapper.sh sha256:")
    assert scripts(tmp_path / "link") == first
    script(wrapper, f'exec {browser} --two "$@"')
    assert scripts(wrapper) != first


def test_scripts_are_followed_to_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = program(tmp_path / "chrome.real")
    log = tmp_path / "log"
    log.touch()
    script(tmp_path / "inner", f'echo >> {log}\nexec "{browser}" "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    outer = script(tmp_path / "outer", 'exec inner --flag "$@"')
    assert started(outer) == (outer, tmp_path / "inner", browser), "a log is no executable"
    assert [each.partition(" ")[0] for each in scripts(outer)] == ["outer", "inner"]


def test_scripts_that_call_each_other_come_to_an_end(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    script(one, f"exec {other}")
    script(other, f"exec {one}")
    assert started(one) == (one, other)
