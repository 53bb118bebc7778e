"""Upstream's own test runner, really run in a checkout of a real clone, gives the answer that FACTS are known of."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bisect_bot import cases, paths
from bisect_bot.builds import published
from bisect_bot.builds.yard import Yard
from bisect_bot.cases import smoke
from bisect_bot.cases.making import Making
from bisect_bot.history import commits
from bisect_bot.history.clone import open_clone
from bisect_bot.model import Artifact, Bundle, Case, Failure, Loader, Outcome, Target, Verdict
from bisect_bot.probes import Probe
from bisect_bot.probes.adapter import choose_target
from bisect_bot.probes.upstream import upstream_driver
from bisect_bot.targets.browsers import load_config, locate
from bisect_bot.verdicts import load_rules, load_tolerances
from bisect_bot.verdicts.told import judge_told
from tests.limits import CLONE

CONFIG = load_config()
VERSION = "1.21.0-dev.20241205-d27fecd3d3"
MANIFEST = "d9b91682f1:js/web/test/data/ops/matmul.jsonc"

pytestmark = [pytest.mark.clone, pytest.mark.browser, pytest.mark.network]


@pytest.fixture(scope="module")
def target() -> Target:
    """The installed browser with a software adapter."""
    return choose_target(locate("chrome", CONFIG), "software", (), CONFIG)


@pytest.fixture(scope="module")
def yard() -> Yard:
    """A yard over the real clone. What npm installs stays in the tests' own cache."""
    clone = open_clone(os.environ[CLONE], paths.cache_root(), say=print, doing=print)
    return Yard(paths.cache_root(), clone)


def verdicts(yard: Yard, target: Target, revision: str, given: tuple[Case, ...], logs: Path) -> list[Verdict]:
    """What upstream's runner of `revision`, with the WebAssembly of `VERSION`, says of the smoke case and `given`."""
    artifact, _ = published.fetch(VERSION, cache=paths.cache_root())
    clone = open_clone(os.environ[CLONE], paths.cache_root(), say=print, doing=print)
    sha = clone.resolve(revision, ()).commit or ""
    commit = commits.commit(clone.git, sha, yard.recipes.history_inputs())
    bundle = Bundle("all", "ort.all.min.js", Loader.SCRIPT, "jsep", ("wasm", "webgpu"))

    def place(_probe: Probe) -> AbstractContextManager[Path]:
        return yard.checkout(commit)

    probe = Probe(
        Artifact(revision, "k", artifact.digest, artifact.directory),
        bundle,
        target,
        "webgpu",
        given,
        smoke=smoke(paths.cache_root()),
        smoke_backends=("wasm", "webgpu"),
    )
    seen = upstream_driver(place, logs)(probe, CONFIG, lambda _index, _seen: None)
    rules = load_rules(paths.config_file("verdicts.toml"))
    tolerances = load_tolerances(paths.config_file("tolerances.toml"))
    return [judge_told(each, case, tolerances, rules) for each, case in zip(seen, probe.in_order, strict=True)]


def test_the_broadcast_bug_of_matmul_is_there_before_its_fix_and_gone_with_it(
    yard: Yard, target: Target, tmp_path: Path
) -> None:
    (case,) = cases.load_all([MANIFEST], Making(root=tmp_path / "cache", repo=os.environ[CLONE]))
    *smoked, before = verdicts(yard, target, "6a295eb75b", (case,), tmp_path / "logs")
    assert [each.outcome for each in smoked] == [Outcome.GOOD, Outcome.GOOD]
    assert before.outcome is Outcome.BAD
    assert before.signature is not None
    assert (before.signature.kind, before.signature.message) == (Failure.MISMATCH, "output_0: other values")
    assert "same ranks different broadcast small 1" in before.reason
    fixed = verdicts(yard, target, "d9b91682f1", (case,), tmp_path / "logs")
    assert [each.outcome for each in fixed] == [Outcome.GOOD] * 3


@pytest.mark.electron
def test_an_electron_that_cannot_read_a_commits_tests_is_a_skip_that_names_what_it_lacks(
    yard: Yard, tmp_path: Path
) -> None:
    browser = locate("electron", CONFIG)
    electron = Target("electron", str(browser.executable), browser.version, "linux", "", "any")
    (case,) = cases.load_all([MANIFEST], Making(root=tmp_path / "cache", repo=os.environ[CLONE]))
    found = verdicts(yard, electron, "6a295eb75b", (case,), tmp_path / "logs")
    if int(electron.version.partition(".")[0]) < 16:
        assert {each.outcome for each in found} == {Outcome.SKIP}
        assert all("the browser lacks static blocks of classes" in each.reason for each in found)
    else:
        assert found[0].outcome is Outcome.GOOD
