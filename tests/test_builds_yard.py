"""Commits of a small upstream are built by its own commands: what is built, what is reused, what is left behind."""

from __future__ import annotations

import _thread
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import filelock
import numpy as np
import psutil
import pytest

from bisect_bot.builds.checkout import State
from bisect_bot.builds.node import Node
from bisect_bot.builds.store import Store
from bisect_bot.builds.yard import Yard
from bisect_bot.errors import BuildUnusable, DiskFull, MachineError, NpmError
from bisect_bot.history import commits as history
from bisect_bot.history.clone import open_clone
from bisect_bot.model import Case, Commit, DataSet, PartKind, Tensor
from bisect_bot.probes import Probe, plain_target, run_probe
from bisect_bot.processes import started_at
from bisect_bot.targets.browsers import load_config, locate
from tests import planted
from tests.upstream import BASE, PLANTED, WASM, Upstream, stand_in


@dataclass
class Site:
    """An upstream, a yard over it, and what the yard did."""

    upstream: Upstream
    yard: Yard
    did: list[str]

    @property
    def tree(self) -> Path:
        """The folder that is built in while no other process builds."""
        return self.yard.cache / "trees" / "0" / "src"

    def commit(self, sha: str) -> Commit:
        """The commit as history has it."""
        git = open_clone(str(self.upstream.path), self.yard.cache, say=print, doing=print).git
        return history.commit(git, sha, self.yard.recipes.history_inputs())

    def text(self, sha: str, patch: bytes | None = None) -> str:
        """The bundle of a commit."""
        part, _ = self.yard.js_part(self.commit(sha), patch)
        return (part.directory / "ort.all.js").read_text()

    def records(self) -> int:
        """How many entries the cache has."""
        keys = self.yard.cache / "keys"
        return len(list(keys.iterdir())) if keys.is_dir() else 0


def site_at(folder: Path, like: Site | None = None) -> Site:
    """A new site; with the packages and prepared steps of another one, which take npm seconds."""
    cache = folder / "cache"
    if like is not None:
        for name in ("modules", "steps"):
            shutil.copytree(like.yard.cache / name, cache / name, symlinks=True)
    return over(Upstream(folder / "upstream", stand_in(folder / "published")), cache)


def over(upstream: Upstream, cache: Path) -> Site:
    """A site over an upstream."""
    did: list[str] = []
    clone = open_clone(str(upstream.path), cache, say=print, doing=print)
    return Site(upstream, Yard(cache, clone, doing=did.append), did)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site for tests that neither damage it nor ask what is reused in all."""
    new = site_at(tmp_path_factory.mktemp("site"))
    new.text(new.upstream.head)
    return new


@pytest.fixture
def site(shared: Site) -> Iterator[Site]:
    """The shared site, with nothing done yet in this test."""
    shared.did.clear()
    yield shared
    shared.yard.node = None


def test_a_commit_is_built_by_its_own_commands_and_the_bundle_is_a_part(site: Site) -> None:
    sha = site.upstream.plant("Break MatMul", wrong=["MatMul"])
    part, reused = site.yard.js_part(site.commit(sha))
    assert (part.kind, reused, part.source) == (PartKind.JS, False, sha[:10])
    text = (part.directory / "ort.all.js").read_text()
    assert '{"wrong":["MatMul"]}' in text
    assert "common 1" in text, "onnxruntime-common is this folder's, built by its own step"
    assert {(bundle.name, bundle.file, bundle.implementation) for bundle in part.bundles} == {
        ("webgpu", "ort.all.js", "jsep"),
        ("all", "ort.all.js", "jsep"),
        ("wasm", "ort.all.js", "wasm"),
        ("webgl", "ort.all.js", "webgl"),
    }


def test_the_source_map_stays_out_so_that_equal_code_is_one_artifact(site: Site) -> None:
    one = site.upstream.plant("One", wrong=["Relu"])
    # The build writes the time into its source map; another comment gives other inputs.
    two = site.upstream.commit("Two", {"js/web/lib/index.ts": "// only a comment\n"})
    first, second = (site.yard.js_part(site.commit(sha))[0] for sha in (one, two))
    assert first.key != second.key
    assert first.digest == second.digest


def test_what_was_built_is_not_built_again(site: Site) -> None:
    sha = site.upstream.plant("Once", wrong=["Abs"])
    first, _ = site.yard.js_part(site.commit(sha))
    site.did.clear()
    again, reused = site.yard.js_part(site.commit(sha))
    assert (reused, site.did, again) == (True, [], first)


def test_a_commit_of_c_plus_plus_only_has_the_js_part_of_its_parent(site: Site) -> None:
    sha = site.upstream.plant("Parent", wrong=["Neg"])
    site.yard.js_part(site.commit(sha))
    child = site.commit(site.upstream.cpp("Only C++"))
    assert site.yard.js_part(child)[1] is True
    assert child.key("wasm") != site.commit(sha).key("wasm")
    other = site.commit(site.upstream.cpp("Another provider", "onnxruntime/core/providers/cuda/cuda.cc"))
    assert other.key("wasm") == child.key("wasm")


def test_only_changed_steps_run_and_only_changed_files_are_written(site: Site) -> None:
    site.text(site.upstream.plant("Warm", wrong=["Exp"]))
    before = {path: path.stat().st_mtime_ns for path in site.tree.rglob("*.ts")}
    site.did.clear()
    site.text(site.upstream.plant("Next", wrong=["Log"]))
    assert [words.split()[0] for words in site.did] == ["building"]
    assert {path for path, then in before.items() if path.stat().st_mtime_ns != then} <= {
        site.tree / "js/web/test/test-main.ts"
    }
    site.did.clear()
    assert "common 2" in site.text(site.upstream.commit("Common", {"js/common/lib/index.ts": "common 2\n"}))
    assert [words.split(" of ")[0] for words in site.did] == ["preparing onnxruntime-common", "building the TypeScript"]
    # Back: what the step made then is still known.
    site.did.clear()
    back = site.upstream.commit("Back", {"js/common/lib/index.ts": "common 1\n", "js/web/lib/index.ts": "// back\n"})
    assert "common 1" in site.text(back)
    assert [words.split(" of ")[0] for words in site.did] == ["building the TypeScript"]


def test_a_broken_build_is_skipped_with_its_words_and_a_whole_log(site: Site) -> None:
    sha = site.upstream.plant("Broken", fails='Could not resolve "./gone"')
    before = site.records()
    with pytest.raises(
        BuildUnusable, match=r'the TypeScript build failed: .*\[ERROR\] Could not resolve "./gone"'
    ) as caught:
        site.yard.js_part(site.commit(sha))
    log = Path(caught.value.advice.removeprefix("The log is at "))
    text = log.read_text()
    assert "./script/build --bundle-mode=dev" in text
    assert "status 1" in text
    assert site.records() == before
    site.upstream.plant("Mended", wrong=[])


def test_broken_tests_do_not_keep_a_commit_from_being_built(site: Site) -> None:
    files = {"js/web/test/test-main.ts": "broken\n", "js/web/lib/index.ts": "// has to be built\n"}
    sha = site.upstream.commit("Break the tests", files)
    assert site.text(sha)
    with site.yard.checkout(site.commit(sha)) as root:
        assert (root / "js/web/test/test-main.ts").read_text() == "broken\n"
    site.upstream.commit("Mend the tests", {"js/web/test/test-main.ts": "tests\n"})


def test_a_checkout_has_the_commits_files_and_undoes_what_was_done_in_the_last_one(site: Site) -> None:
    commit = site.commit(site.upstream.plant("For the runner", wrong=["Sin"]))
    with site.yard.checkout(commit) as root:
        manifest = root / "js/web/test/data/ops/matmul.jsonc"
        manifest.write_text("changed")
        (root / "js/web/dist/ort.wasm").write_text("placed")
        (root / "js/web/test/data/node").mkdir()
        (root / "js/web/test/data/node/model.onnx").write_text("placed")
        (root / BASE).unlink()
    with site.yard.checkout(commit) as root:
        assert (root / "js/web/test/data/ops/matmul.jsonc").read_text() == "[]\n"
        assert list((root / "js/web/dist").iterdir()) == []
        assert not (root / "js/web/test/data/node").exists()
        assert (root / BASE).is_file()
        assert (
            (root / "js/web/node_modules/onnxruntime-common/dist/esm/index.js").resolve().is_relative_to(root.resolve())
        )


def test_a_folder_in_use_is_left_to_its_user(site: Site) -> None:
    commit = site.commit(site.upstream.plant("Two at once", wrong=["Cos"]))
    with site.yard.checkout(commit) as one, site.yard.checkout(commit) as other:
        assert one != other
        with pytest.raises(filelock.Timeout):
            filelock.FileLock(one.parent.with_name(f"{one.parent.name}.lock")).acquire(timeout=0)


def test_a_folder_that_was_left_in_the_middle_of_writing_is_repaired(shared: Site, tmp_path: Path) -> None:
    site = site_at(tmp_path, shared)
    wanted = site.text(site.upstream.plant("First", wrong=["Sqrt"]))
    torn = site.tree / "js/web/lib/planted.json"
    then = torn.stat()
    # Not to be seen by size and time, as on a file system that counts seconds.
    torn.write_text("x" * then.st_size)
    os.utime(torn, ns=(then.st_atime_ns, then.st_mtime_ns))
    (site.tree / "js/web/lib/stray.ts").write_text("not the commit's")
    state = State.model_validate_json((site.tree.parent / "state.json").read_bytes())
    # As a kill between two files leaves it: the state claims files, but not that it is whole.
    state.whole = False
    (site.tree.parent / "state.json").write_text(state.model_dump_json())
    again = over(site.upstream, site.yard.cache)
    for key in (site.yard.cache / "keys").iterdir():
        key.unlink()
    assert again.text(site.upstream.head) == wanted
    assert not (site.tree / "js/web/lib/stray.ts").exists()


def test_a_damaged_state_is_no_trouble(shared: Site, tmp_path: Path) -> None:
    site = site_at(tmp_path, shared)
    site.text(site.upstream.head)
    (site.tree.parent / "state.json").write_text('{"whole": tr')
    assert site.text(site.upstream.plant("Next", wrong=["Tan"]))


def test_a_diff_is_built_without_touching_the_commit_and_taken_back(site: Site) -> None:
    good = site.upstream.plant("Good", wrong=[])
    bad = site.upstream.plant("Bad", wrong=["MatMul"])
    revert = diff(site.upstream, bad, good)
    assert "MatMul" not in site.text(bad, revert)
    part, reused = site.yard.js_part(site.commit(bad), revert)
    assert (reused, part.source) == (True, f"{bad[:10]}, changed")
    assert part.digest == site.yard.js_part(site.commit(good))[0].digest
    assert "MatMul" in site.text(bad)


def test_a_diff_that_does_not_apply_is_refused_and_leaves_the_folder_as_it_was(site: Site) -> None:
    good = site.upstream.plant("Good again", wrong=["Floor"])
    bad = site.upstream.plant("Bad again", wrong=["Ceil"])
    other = site.upstream.plant("Something else", wrong=["Round"])
    with pytest.raises(BuildUnusable, match=r"the diff does not apply cleanly: .*planted\.json"):
        site.yard.js_part(site.commit(other), diff(site.upstream, bad, good))
    assert "Round" in site.text(other)


def test_a_diff_applies_in_a_cache_inside_another_repository(shared: Site, tmp_path: Path) -> None:
    """git apply passes over files that lie outside the repository it thinks it is in, and says nothing."""
    site = site_at(tmp_path, shared)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    upstream = site.upstream
    good = upstream.plant("Good", wrong=[])
    bad = upstream.plant("Bad", wrong=["MatMul"])
    assert "MatMul" not in site.text(bad, diff(upstream, bad, good))


def test_parts_are_put_together_and_found_again(site: Site) -> None:
    commit = site.commit(site.upstream.plant("Whole", wrong=["Sign"]))
    version = site.upstream.publish(site.yard.cache, commit.revision.commit or "")
    artifact = Store(site.yard.cache).find(f"npm:onnxruntime-web@{version}#1")
    assert artifact is not None
    js, _ = site.yard.js_part(commit)
    wasm = site.yard.published_wasm(commit, version, artifact)
    assert (wasm.kind, wasm.source) == (PartKind.WASM, version)
    assert sorted(path.name for path in wasm.directory.iterdir()) == sorted(WASM)
    made, reused = site.yard.assemble(js, wasm, "some name")
    assert (reused, made.revision) == (False, "some name")
    assert sorted(path.name for path in made.directory.iterdir()) == sorted(("ort.all.js", *WASM))
    assert (made.directory / WASM[1]).samefile(wasm.directory / WASM[1])
    again, reused = site.yard.assemble(js, wasm, "other name")
    assert (reused, again.digest, again.revision) == (True, made.digest, "other name")


def test_a_published_build_without_the_files_that_a_commit_fetches_does_not_fit(site: Site, tmp_path: Path) -> None:
    commit = site.commit(site.upstream.plant("Fits not", wrong=["Erf"]))
    folder = stand_in(tmp_path / "old")
    (folder / WASM[0]).unlink()
    upstream = replace(site.upstream, path=tmp_path / "other", bundle_dir=folder, commits=[], _bases={})
    version = upstream.publish(site.yard.cache, upstream.head)
    artifact = Store(site.yard.cache).find(f"npm:onnxruntime-web@{version}#1")
    assert artifact is not None
    with pytest.raises(BuildUnusable, match=f"parts do not fit: {version} lacks {WASM[0]}"):
        site.yard.published_wasm(commit, version, artifact)


def test_a_part_damaged_on_the_disk_is_built_again_and_never_put_into_an_artifact(site: Site) -> None:
    commit = site.commit(site.upstream.plant("Damaged", wrong=["Elu"]))
    js, _ = site.yard.js_part(commit)
    file = js.directory / "ort.all.js"
    file.write_bytes(file.read_bytes()[::-1])
    with pytest.raises(MachineError, match="damaged"):
        site.yard.assemble(js, js, "never")
    again, reused = site.yard.js_part(commit)
    assert (reused, again.digest) == (False, js.digest)


def test_no_process_of_a_build_outlives_it(site: Site) -> None:
    sha = site.upstream.plant("Leaves a child", leaves=600)
    site.text(sha)
    pid = int((site.tree.parent / "sleeper").read_text())
    assert started_at(pid) is None
    site.upstream.plant("Leaves none", wrong=[])


def test_a_build_that_never_ends_is_stopped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = site.upstream.plant("Hangs", hangs=True)
    commit = site.commit(sha)
    monkeypatch.setattr(site.yard, "_commands", replace(site.yard._commands, limit_s=5.0))
    with pytest.raises(BuildUnusable, match="no end within 5 s"):
        site.yard.js_part(commit)
    assert not processes_in(site.yard.cache)
    assert not list((site.yard.cache / "tmp").glob("bbot-*"))
    site.upstream.plant("Hangs no more", wrong=[])


def test_ctrl_c_ends_the_build_and_keeps_nothing_half(site: Site) -> None:
    commit = site.commit(site.upstream.plant("Interrupted", hangs=True))
    before = site.records()
    timer = threading.Timer(5.0, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        site.yard.js_part(commit)
    assert not processes_in(site.yard.cache)
    assert site.records() == before
    site.upstream.plant("Not interrupted", wrong=[])


def test_package_files_out_of_step_are_the_commits_fault(tmp_path: Path) -> None:
    site = site_at(tmp_path)
    package = '{"name": "js", "version": "1.21.0", "dependencies": {"left": "1.0.0"}}'
    sha = site.upstream.commit("Out of step", {"js/package.json": package})
    with pytest.raises(BuildUnusable, match="npm in js failed: "):
        site.yard.js_part(site.commit(sha))
    assert not [path for path in (site.yard.cache / "modules").iterdir() if path.is_dir()]


def test_a_registry_out_of_reach_is_the_machines(tmp_path: Path) -> None:
    site = site_at(tmp_path)
    lock = """{"name": "js", "version": "1.21.0", "lockfileVersion": 3, "requires": true, "packages": {
      "": {"name": "js", "version": "1.21.0", "dependencies": {"left": "1.0.0"}},
      "node_modules/left": {"version": "1.0.0", "resolved": "http://127.0.0.1:9/left-1.0.0.tgz"}}}"""
    package = '{"name": "js", "version": "1.21.0", "dependencies": {"left": "1.0.0"}}'
    npmrc = "fetch-retries=0\nregistry=http://127.0.0.1:9/\n"
    sha = site.upstream.commit(
        "Out of reach", {"js/package.json": package, "js/package-lock.json": lock, "js/.npmrc": npmrc}
    )
    with pytest.raises(NpmError, match="install the packages of a commit") as caught:
        site.yard.js_part(site.commit(sha))
    assert "npm ping" in caught.value.advice
    assert "The log is at" in caught.value.advice


def test_a_node_that_is_too_old_is_told_before_anything_is_done(site: Site) -> None:
    commit = site.commit(site.upstream.plant("Needs a newer node", wrong=["Selu"]))
    found = Node.find()
    old = Yard(site.yard.cache, site.yard.clone, node=Node(found.executable, found.npm, "16.3.0"))
    with pytest.raises(MachineError, match=r"need Node.js 18 or newer; .* is 16\.3\.0"):
        old.js_part(commit)


def test_a_commit_of_no_era_is_told(site: Site) -> None:
    sha = site.upstream.commit("Webpack", {"js/web/webpack.config.js": "\n"})
    with pytest.raises(BuildUnusable, match="webpack, for which there is no recipe"):
        site.yard.js_part(site.commit(sha))
    sha = site.upstream.commit(
        "Nothing", {"js/web/webpack.config.js": None, "js/web/lib/wasm/wasm-utils-import.ts": None}
    )
    with pytest.raises(BuildUnusable, match="layout of no era"):
        site.yard.js_part(site.commit(sha))
    site.upstream.commit("Back in the era", {"js/web/lib/wasm/wasm-utils-import.ts": "\n"})


def test_contents_that_the_clone_lacks_leave_the_folder_usable(site: Site) -> None:
    good = site.commit(site.upstream.plant("There", wrong=["Gelu"]))
    site.text(good.revision.commit or "")
    sha = site.upstream.plant("Missing", wrong=["Mish"])
    blob = site.upstream.git("rev-parse", f"{sha}:{PLANTED}")
    path = site.upstream.path / ".git/objects" / blob[:2] / blob[2:]
    aside = path.with_name("aside")
    path.rename(aside)
    with pytest.raises(BuildUnusable, match=blob):
        site.yard.js_part(site.commit(sha))
    with site.yard.checkout(good) as root:
        assert "Gelu" in (root / PLANTED).read_text()
    aside.rename(path)
    assert "Mish" in site.text(sha)


def processes_in(folder: Path) -> list[psutil.Process]:
    """What runs in `folder`."""
    return [process for process in psutil.process_iter(["cwd"]) if str(process.info["cwd"]).startswith(str(folder))]


def diff(upstream: Upstream, old: str, new: str) -> bytes:
    """The git diff between two commits."""
    return f"{upstream.git('diff', '--binary', '--full-index', old, new)}\n".encode()


@pytest.mark.browser
def test_what_is_planted_is_what_a_browser_computes(site: Site, tmp_path: Path) -> None:
    good = site.upstream.plant("Computes well", wrong=["relu"])
    bad = site.upstream.plant("Computes wrongly", wrong=["add"])
    config = load_config()
    target = plain_target(locate("chrome", config), "any", ())
    answers: list[object] = []
    for sha in (good, bad):
        commit = site.commit(sha)
        version = site.upstream.publish(site.yard.cache, sha)
        published = Store(site.yard.cache).find(f"npm:onnxruntime-web@{version}#1")
        assert published is not None
        js, _ = site.yard.js_part(commit)
        made, _ = site.yard.assemble(js, site.yard.published_wasm(commit, version, published), sha)
        for artifact in (made, published):
            bundle = site.yard.bundle_for(commit, js, "wasm")
            case = planted_case(tmp_path / f"{len(answers)}")
            (seen,) = run_probe(Probe(artifact, bundle, target, "wasm", (case,)), config, lambda _index, _seen: None)
            answers.append(seen.steps[0].outputs[0][0].array().tolist())
    right = (planted.INPUT * 2).tolist()
    wrong = (planted.INPUT * 2 + np.eye(1, planted.INPUT.size).reshape(planted.INPUT.shape)).tolist()
    assert answers == [right, right, wrong, wrong]


def planted_case(folder: Path) -> Case:
    """x + x, for the stand-in."""
    (case,) = planted.planted_cases(folder, "add")
    x, y = (Tensor(name, "float32", planted.INPUT.shape, planted.INPUT.tobytes()) for name in ("x", "state"))
    (expected,) = case.data_sets[0].expected
    return replace(case, data_sets=(DataSet("0", (x, y), (expected,)),))


def test_a_full_disk_is_told_and_the_commit_can_be_built_when_there_is_room(site: Site, small_disk: Path) -> None:
    full = over(site.upstream, small_disk / "cache")
    filler = small_disk / "filler"
    commit = full.commit(site.upstream.plant("Full", wrong=["Hardmax"]))
    with filler.open("wb") as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"0" * 65536)
            file.flush()
    with pytest.raises(DiskFull):
        full.yard.js_part(commit)
    filler.unlink()
    assert "Hardmax" in full.text(commit.revision.commit or "")
