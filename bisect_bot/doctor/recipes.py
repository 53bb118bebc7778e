"""Which eras of upstream's commits can be built here, and what the answer lacks where they cannot."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from bisect_bot.builds import wasm_build
from bisect_bot.builds.node import Node
from bisect_bot.builds.recipes import Recipe, load
from bisect_bot.doctor.items import Item, State
from bisect_bot.errors import MachineError
from bisect_bot.paths import cache_root

_JS = "commits that change TypeScript are told apart"
_NO_JS = "no commit can be built here: only published builds can be tested"
_NO_WASM = "commits that change only C++ cannot be told apart here: a published WebAssembly stands in"


def recipes(cache: Path | None = None) -> Iterator[Item]:
    """One item for each era, newest first. `cache` is where builds would go (default: the cache's root)."""
    reaches = wasm_build.reaches_emsdk()
    for recipe in load().recipe:
        yield _item(recipe, cache or cache_root(), reaches=reaches)


def _item(recipe: Recipe, cache: Path, *, reaches: bool) -> Item:
    if recipe.unsupported:
        told = f"{recipe.name}: not supported"
        return Item(
            key="recipe", state=State.WARNING, value=told, means=recipe.unsupported, details={"era": recipe.name}
        )
    no_js = _no_javascript(recipe)
    tools = wasm_build.toolchain(recipe, cache, reaches=reaches)
    lacking = ", ".join(tools.lacking)
    wasm = "yes" if tools.able else f"no (lacking: {lacking})"
    return Item(
        key="recipe",
        state=State.OK if not no_js and tools.able else State.WARNING,
        value=f"{recipe.name}: JavaScript {f'no ({no_js})' if no_js else 'yes'}, WebAssembly {wasm}",
        means=_NO_JS if no_js else _JS if tools.able else _NO_WASM,
        do="Install Node.js (nodejs.org) and git." if no_js else tools.advice,
        details={"era": recipe.name, "javascript": not no_js, "wasm": tools.able, "lacking": list(tools.lacking)},
    )


def _no_javascript(recipe: Recipe) -> str:
    """Why the TypeScript of an era cannot be built here; empty where it can."""
    if shutil.which("git") is None:
        return "git is missing"
    try:
        Node.find().require(recipe.node)
    except MachineError as error:
        return str(error)
    return ""
