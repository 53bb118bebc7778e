"""The full build of the WebAssembly is really run: what it makes is a part, and how it fails is told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from bisect_bot.builds import wasm_build
from bisect_bot.builds.recipes import load
from bisect_bot.builds.yard import Yard
from bisect_bot.errors import BuildUnusable
from bisect_bot.history import commits as history
from bisect_bot.history.clone import open_clone
from bisect_bot.model import Commit, PartKind
from tests.upstream import WASM, Upstream, stand_in


@dataclass
class Site:
    """An upstream and a yard over it."""

    upstream: Upstream
    yard: Yard

    def commit(self, sha: str) -> Commit:
        """The commit as history has it."""
        git = open_clone(str(self.upstream.path), self.yard.cache, say=print, doing=print).git
        return history.commit(git, sha, self.yard.recipes.history_inputs())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    upstream = Upstream(tmp_path / "upstream", stand_in(tmp_path / "published"))
    cache = tmp_path / "cache"
    return Site(upstream, Yard(cache, open_clone(str(upstream.path), cache, say=print, doing=print)))


def log_of(error: BuildUnusable) -> str:
    """The log that an error names."""
    return Path(error.advice.removeprefix("The log is at ")).read_text()


def test_the_eras_command_is_run_and_what_it_makes_is_a_part(site: Site) -> None:
    built = {"onnxruntime/wasm/built.mjs": "glue", "onnxruntime/wasm/built.wasm": "git-commit-id=0123456789"}
    commit = site.commit(site.upstream.commit("Can be built", built))
    part, reused = site.yard.wasm_part(commit)
    assert (part.kind, reused) == (PartKind.WASM, False)
    assert {path.name: path.read_text() for path in part.directory.iterdir()} == dict(
        zip(WASM, built.values(), strict=True)
    )
    assert site.yard.wasm_part(commit) == (part, True)
    js_only = site.commit(site.upstream.plant("TypeScript only", wrong=["MatMul"]))
    assert site.yard.wasm_part(js_only)[1] is True, "the same inputs, the same WebAssembly"
    assert not list((site.yard.cache / "tmp").iterdir())


def test_a_failed_build_is_told_with_its_words_logged_and_leaves_nothing(site: Site) -> None:
    before = {path: path.stat().st_mtime_ns for path in sorted(site.upstream.path.rglob("*"))}
    commit = site.commit(site.upstream.head)
    with pytest.raises(BuildUnusable, match="the WebAssembly build failed: error: no emsdk here") as caught:
        site.yard.wasm_part(commit)
    log = log_of(caught.value)
    for word in ("tools/ci_build/build.py", "--use_jsep", "--build_wasm", "--enable_wasm_threads", "status 1"):
        assert word in log
    assert not list((site.yard.cache / "tmp").iterdir())
    assert not (site.yard.cache / "keys").exists()
    assert {path: path.stat().st_mtime_ns for path in sorted(site.upstream.path.rglob("*"))} == before


def test_a_submodule_that_cannot_be_fetched_is_told_as_the_networks_fault(site: Site) -> None:
    modules = (
        '[submodule "cmake/external/emsdk"]\n\tpath = cmake/external/emsdk\n\turl = https://localhost:9/emsdk.git\n'
    )
    site.upstream.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},cmake/external/emsdk")
    (site.upstream.path / "cmake/external/emsdk").mkdir(parents=True)
    sha = site.upstream.commit("A submodule", {".gitmodules": modules})
    with pytest.raises(BuildUnusable, match="fetching submodules failed: the network cannot be reached from here"):
        site.yard.wasm_part(site.commit(sha))
    assert not list((site.yard.cache / "tmp").iterdir())


def test_a_hook_that_the_user_has_for_new_clones_is_not_run(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = tmp_path / "template/hooks/post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    (tmp_path / "gitconfig").write_text(f"[init]\n\ttemplateDir = {hook.parent.parent}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    with pytest.raises(BuildUnusable, match="no emsdk here"):
        site.yard.wasm_part(site.commit(site.upstream.head))
    assert not (tmp_path / "hooked").exists()


def test_a_pull_brings_what_the_bundles_fetch_or_says_why_not(site: Site) -> None:
    with pytest.raises(BuildUnusable, match="npm run pull:wasm failed: Error: no network here"):
        site.yard.pulled_wasm(site.commit(site.upstream.head))
    package = json.loads((site.upstream.path / "js/web/package.json").read_text())
    package["scripts"]["pull:wasm"] = "node pull.js"
    script = "const fs = require('fs'); fs.mkdirSync('dist');\n"
    script += "".join(f"fs.writeFileSync('dist/{name}', '{name[-3:]}');\n" for name in WASM)
    files = {"js/web/package.json": json.dumps(package), "js/web/pull.js": script}
    part = site.yard.pulled_wasm(site.commit(site.upstream.commit("Can be pulled", files)))
    assert {path.name: path.read_text() for path in part.directory.iterdir()} == {name: name[-3:] for name in WASM}
    assert part.source.startswith("npm run pull:wasm of 20")


def test_what_a_toolchain_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load().recipe[0]
    assert "a way to github.com" in " ".join(wasm_build.toolchain(recipe, tmp_path, reaches=False).lacking)
    for program, version in (("cmake", "cmake version 3.5.1"), ("git", "git version 2.40.0")):
        path = tmp_path / program
        path.write_text(f"#!/bin/sh\necho {version}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = wasm_build.toolchain(recipe, tmp_path, reaches=True)
    assert not found.able
    assert f"cmake {recipe.cmake} or newer (here is 3.5.1)" in found.lacking
    assert "ninja or make" in found.lacking
    assert found.advice


def test_a_toolchain_that_has_all_is_able(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("cmake", "git", "ninja"):
        (tmp_path / program).write_text(f"#!/bin/sh\necho {program} version 99.1\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = wasm_build.toolchain(load().recipe[0], tmp_path, reaches=True)
    room = [each for each in found.lacking if "of disk" in each]
    assert list(found.lacking) == room
    assert found.able is not bool(room)
