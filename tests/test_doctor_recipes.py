"""The doctor says which commits can be built here, and what the answer lacks where they cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_bot.builds import wasm_build
from bisect_bot.builds.recipes import load
from bisect_bot.doctor.items import Item, State
from bisect_bot.doctor.recipes import recipes


def items(cache: Path) -> dict[object, Item]:
    return {item.details["era"]: item for item in recipes(cache)}


def test_every_era_is_told_and_none_is_needed(tmp_path: Path) -> None:
    found = items(tmp_path)
    assert list(found) == [recipe.name for recipe in load().recipe]
    assert not any(item.needed for item in found.values())
    assert found["webpack"].state is State.WARNING
    assert "2023-10-06" in found["webpack"].means


def test_without_a_toolchain_it_is_said_what_cannot_be_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wasm_build, "reaches_emsdk", lambda: False)
    item = items(tmp_path)["JSEP"]
    assert item.state is State.WARNING
    assert item.value.startswith("JSEP: JavaScript yes, WebAssembly no (lacking: ")
    assert item.means == ("commits that change only C++ cannot be told apart here: a published WebAssembly stands in")
    assert item.do


def test_without_node_no_commit_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    item = items(tmp_path)["JSEP"]
    assert (item.state, item.details["javascript"]) == (State.WARNING, False)
    assert "only published builds" in item.means
