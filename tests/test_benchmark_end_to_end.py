"""The benchmark of whole searches: what it counts, and that its steps by hand do what a reporter did."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import by_hand
from benchmarks.end_to_end import Job, Row, bisect, git_steps, goals, private_clone, row_of

NPM = shutil.which("npm")
# As upstream's: the runner prints what its browser says, and fails with the number of failing tests.
RUNNER = """
const { readFileSync } = require('node:fs');
const manifest = readFileSync('./test/data/ops/' + process.argv[3], 'utf8');
const built = readFileSync('./dist/ort.js', 'utf8');
if (!readFileSync('./dist/ort-wasm-simd.wasm', 'utf8').includes('wasm')) throw new Error('no wasm');
if (built.includes('broken') && manifest.includes('the new case')) {
  console.log('abs/rel check failed-- index:0: actual=1,expected=2');
  process.exit(1);
}
if (built.includes('odd')) throw new Error('karma does not start');
"""
WEB_SCRIPTS = {
    "preprepare": 'node -e ""',
    "prepare": 'node -e ""',
    "build": "node -e \"require('fs').copyFileSync('lib.txt', 'dist/ort.js')\"",
}


def git(path: Path, *words: str) -> str:
    env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(path), *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()


def package(folder: Path, scripts: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"name": folder.name, "version": "1.0.0", "scripts": scripts}))
    lock = {"name": folder.name, "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": folder.name}}}
    (folder / "package-lock.json").write_text(json.dumps(lock))


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """Twelve commits of a small upstream; the eighth fixes what the new case shows."""
    root = tmp_path / "upstream"
    package(root / "js", {})
    package(root / "js" / "common", {"build": 'node -e ""'})
    package(root / "js" / "web", WEB_SCRIPTS)
    web = root / "js" / "web"
    for file, text in (("script/test-runner-cli.js", RUNNER), ("test/data/ops/matmul.jsonc", "old cases")):
        (web / file).parent.mkdir(parents=True)
        (web / file).write_text(text)
    (root / ".gitignore").write_text("node_modules/\ndist/\n")
    git(root, "init", "-q", "-b", "main")
    for number in range(12):
        (web / "lib.txt").write_text(f"{'broken' if number < 7 else 'fixed'} {number}")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", f"commit {number}")
    return root


def job_of(upstream: Path, tmp_path: Path) -> Job:
    work = tmp_path / "work"
    work.mkdir()
    manifest = work / "matmul.jsonc"
    manifest.write_text("the new case")
    old, new, fix = (git(upstream, "rev-parse", f"main~{back}") for back in (11, 0, 4))
    return Job(upstream, old, new, fix, manifest, work)


def test_gits_own_number_of_steps_is_that_of_its_bisection(upstream: Path, tmp_path: Path) -> None:
    before = git(upstream, "for-each-ref") + git(upstream, "status", "--porcelain")
    assert git_steps(job_of(upstream, tmp_path)) in (3, 4), "eleven commits can be the first fixed one"
    assert git(upstream, "for-each-ref") + git(upstream, "status", "--porcelain") == before


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The options of a step by hand."""
    wasm = tmp_path / "wasm"
    wasm.mkdir()
    (wasm / "ort-wasm-simd.wasm").write_text("wasm")
    manifest = tmp_path / "matmul.jsonc"
    manifest.write_text("the new case")
    return ["--wasm", str(wasm), "--manifest", str(manifest), "--log", str(tmp_path / "log")]


@pytest.mark.skipif(NPM is None, reason="npm is not installed")
def test_steps_by_hand_find_the_fix_and_leave_the_checkout_clean(
    upstream: Path, tmp_path: Path, words: list[str]
) -> None:
    job = job_of(upstream, tmp_path)
    # Two commits can be the first fixed one: one step.
    narrow = replace(job, old=git(upstream, "rev-parse", "main~5"), new=git(upstream, "rev-parse", "main~3"))
    clone = private_clone(job, "by-hand")
    git(clone, "checkout", "-q", job.new)
    assert bisect(clone, narrow, [sys.executable, "-m", "benchmarks.by_hand", *words]) == job.culprit
    (done,) = by_hand.steps(tmp_path / "log")
    assert (done["commit"], done["status"], done["problem"]) == (job.culprit, by_hand.FIXED, "")
    assert done["seconds"].keys() == {"install", "build", "test"}
    assert git(clone, "status", "--porcelain") == "", "the manifest is put back"


@pytest.mark.skipif(NPM is None, reason="npm is not installed")
@pytest.mark.parametrize(
    ("built", "status", "problem"),
    [("broken", by_hand.BROKEN, ""), ("odd", by_hand.SKIP, "karma does not start")],
)
def test_only_a_wrong_output_calls_a_commit_broken(
    upstream: Path,
    tmp_path: Path,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    built: str,
    status: int,
    problem: str,
) -> None:
    (upstream / "js" / "web" / "lib.txt").write_text(built)
    git(upstream, "commit", "-q", "-a", "-m", built)
    monkeypatch.chdir(upstream)
    assert by_hand.main(words) == status
    assert problem in by_hand.steps(tmp_path / "log")[0]["problem"]


def test_a_bisection_can_be_stopped_after_some_steps(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text('{"commit": "a"}\n{"commit": "b"}\n')
    monkeypatch.chdir(tmp_path)
    assert by_hand.main([*words, "--at-most", "2"]) == by_hand.STOP
    assert len(by_hand.steps(tmp_path / "log")) == 2


def trial(revision: str, case: str, purpose: str, attempt: int = 1, *, reused: bool = False) -> dict[str, object]:
    return {"revision": revision, "case": case, "purpose": purpose, "attempt": attempt, "reused": reused}


def test_a_reports_row_counts_a_probe_once_and_searches_apart_from_the_rest() -> None:
    matrix = [trial("a", case, "end") for case in ("one", "two")]
    matrix += [trial("b", case, "search") for case in ("one", "two")]
    matrix += [trial("c", "one", "search"), trial("d", "one", "search", reused=True), trial("c", "one", "retest", 2)]
    report = {
        "matrix": matrix,
        "counts": {"builds": 4, "proof_builds": 1},
        "boundary": {"first_new": {"commit": "c" * 40}},
        "result": "found",
    }
    row = row_of("run", 2.0, report)
    assert (row.builds, row.tests, row.answer) == (4, 2, "c" * 40)
    assert row.note == "1 more build for proofs, 2 other tests"
    assert row_of("run", 2.0, {**report, "boundary": None, "result": "range"}).answer == "range"


def test_goals_say_what_was_missed() -> None:
    rows = [
        Row("by hand", 900, 8, 8, "c"),
        Row("run, empty cache", 100, 9, 7, "c"),
        Row("run, builds cached", 90, 0, 8, "c"),
    ]
    assert goals(rows, 8) == [
        "run, empty cache: 9.0 times faster, goal 8: met",
        "run, empty cache: 7 tests, git's 8: met",
        "run, builds cached: 10.0 times faster, goal 25: MISSED",
    ]
