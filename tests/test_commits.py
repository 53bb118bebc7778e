"""A search among commits: small repositories with upstream's layout build real bundles by their own commands."""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

from bisect_bot import paths
from bisect_bot.builds import fetch
from tests import models
from tests.command import Done, Shell, make_shell
from tests.npm_registry import Registry, serve
from tests.upstream import Upstream

pytestmark = [pytest.mark.network, pytest.mark.browser]

OCTOBER = "1.21.0-dev.20241024-d9ca84ef96"
DECEMBER = "1.21.0-dev.20241205-d27fecd3d3"


@dataclass
class Site:
    """An upstream, the registry that has its published builds, and a shell that knows both."""

    shell: Shell
    upstream: Upstream
    registry: Registry
    november: Path

    def publish(self, commit: str) -> str:
        """Publishes the build of `commit`; its version."""
        version = self.upstream.publish(self.shell.cache, commit)
        self.registry.packages[version] = b"in the cache"
        return version

    def run(self, *words: str) -> Done:
        """`bisect-bot run` on the repository, with its report in `report`."""
        return self.shell.run("run", "--repo", str(self.upstream.path), "--backend", "wasm", "--out", "report", *words)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site whose first commit has the bundle of October; `november` is the folder of December's."""
    old, new = (fetch(version, cache=paths.cache_root())[0].directory for version in (OCTOBER, DECEMBER))
    shell = make_shell(tmp_path)
    with serve(tmp_path, monkeypatch) as registry:
        yield Site(shell, Upstream(tmp_path / "upstream", old), registry, new)


def changed(upstream: Upstream, number: int) -> str:
    """A commit that changes the bundle's bytes to what no test built before, and nothing that it answers."""
    return upstream.commit(f"Common {number}", {"js/common/lib/index.ts": f"common {secrets.token_hex(8)}\n"})


def transpose(folder: Path, *shape: int) -> str:
    """A case with the operator that the histories break; the smoke case has another one."""
    inputs = {"x": models.counting(*(shape or (2, 2)))}
    return str(
        models.save_case(folder, models.one_node("Transpose", inputs, TensorProto.FLOAT, opset=13, ir=7), inputs)
    )


def prints(folder: Path) -> dict[str, str]:
    """The digest of every file below `folder`."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def commits(boundary: Mapping[str, Any]) -> tuple[str, str]:
    """The commits on both sides of a boundary of report.json."""
    return boundary["last_old"]["commit"], boundary["first_new"]["commit"]


def broken_history(site: Site) -> tuple[str, str, str, str]:
    """A history in which one commit breaks Transpose: the first commit, the one before it, itself, and the newest."""
    upstream = site.upstream
    first = changed(upstream, 1)
    changed(upstream, 2)
    before = upstream.cpp("Change C++")
    bad = upstream.plant("Break Transpose (#123)", wrong=["Transpose"])
    upstream.cpp("Change C++ again")
    return first, before, bad, changed(upstream, 3)


def test_the_commit_that_broke_a_case_is_named_and_proved(site: Site, tmp_path: Path) -> None:
    first, before, bad, newest = broken_history(site)
    site.publish(first)
    case = transpose(tmp_path / "case")
    untouched = prints(site.upstream.path)

    done = site.run("--source", "commits", "--good", first, "--bad", newest[:12], "--case", case)

    assert done.status == 0, done.err + done.out
    report = site.shell.report()
    assert (report["result"], report["direction"]) == ("found", "regression")
    assert commits(report["boundary"]) == (before, bad)
    assert report["sentence"].startswith(f"{first[:10]} (good) to {newest[:10]} (bad): broken by {bad[:10]}")
    assert report["culprit"]["author"] == "Ann Author" and report["culprit"]["pull_request"] == 123
    assert report["culprit"]["files"] == ["js/web/lib/planted.json"]
    assert {proof["kind"]: proof["held"] for proof in report["proofs"]} == {"retest": True, "revert": True}
    # Two of the six change C++ alone.
    assert (report["counts"]["revisions"], report["counts"]["candidates"]) == (6, 4)
    assert report["counts"]["builds"] <= 4 and report["counts"]["proof_builds"] == 1
    assert prints(site.upstream.path) == untouched

    other = site.run(
        "--source", "commits", "--good", first, "--bad", newest, "--case", transpose(tmp_path / "other", 2, 3)
    )
    assert other.status == 0, other.err
    report = site.shell.report()
    assert commits(report["boundary"]) == (before, bad)
    assert report["counts"]["builds"] == report["counts"]["proof_builds"] == 0


def test_published_builds_come_first_and_commits_between_them_next(site: Site, tmp_path: Path) -> None:
    first, before, bad, newest = broken_history(site)
    old, new = site.publish(first), site.publish(newest)
    done = site.run("--good", old, "--bad", new, "--case", transpose(tmp_path / "case"))
    assert done.status == 0, done.err
    report = site.shell.report()
    assert commits(report["boundary"]) == (before, bad)
    tested = {row["revision"] for row in report["matrix"]}
    assert {old, new} <= tested and first[:10] in tested


def test_a_change_that_came_with_the_wasm_is_a_range_of_the_commits_that_touch_it(site: Site, tmp_path: Path) -> None:
    upstream = site.upstream
    first = upstream.head
    changed(upstream, 2)
    one = upstream.cpp("Change a kernel")
    changed(upstream, 3)
    two = upstream.cpp("Change another kernel")
    last = changed(upstream, 4)
    site.publish(first)
    # The newest build has the WebAssembly of December, in which AveragePool of opset 19 fails on WebGPU.
    upstream._bases[last] = site.november
    site.publish(last)
    case = str(models.average_pool(tmp_path / "pool"))
    words = ("--source", "commits", "--good", first, "--bad", last, "--case", case)
    done = site.shell.run("run", "--repo", str(upstream.path), "--out", "report", *words)
    assert done.status == 10, done.err + done.out
    report = site.shell.report()
    assert report["result"] == "range"
    assert commits(report["boundary"]) == (first, last)
    named = [commit for candidate in report["candidates"] for commit in candidate["commits"]]
    assert named == [one, two]
    assert "the change follows the WebAssembly" in " ".join(report["warnings"])


def test_parts_that_do_not_fit_are_skipped_and_another_build_is_tried(site: Site, tmp_path: Path) -> None:
    upstream = site.upstream
    first = upstream.head
    upstream.glue("New glue", site.november)
    after = changed(upstream, 2)
    bad = upstream.plant("Break Transpose", wrong=["Transpose"])
    old = site.publish(first)
    site.publish(bad)
    case = transpose(tmp_path / "case")

    done = site.run("--source", "commits", "--good", after, "--bad", bad, "--case", case)
    assert done.status == 0, done.err
    report = site.shell.report()
    assert commits(report["boundary"]) == (after, bad)
    assert {row["verdict"] for row in report["matrix"]} == {"good", "bad"}

    forced = site.run("--source", "commits", "--wasm", old, "--good", after, "--bad", bad, "--case", case)
    assert forced.status == 14, forced.out
    report = site.shell.report()
    assert report["boundary"] is None
    assert {row["verdict"] for row in report["matrix"]} == {"skip"}
    assert f"parts do not fit: with the WebAssembly of {old}" in report["matrix"][0]["reason"]


def test_check_answers_for_one_commit(site: Site, tmp_path: Path) -> None:
    first, _, bad, _ = broken_history(site)
    site.publish(first)
    unbuildable = site.upstream.plant("Does not build", fails="no such thing")
    words = ("--source", "commits", "--repo", str(site.upstream.path), "--backend", "wasm")
    case = transpose(tmp_path / "case")
    statuses = [site.shell.run("check", sha, *words, "--case", case).status for sha in (first, bad, unbuildable)]
    assert statuses == [0, 1, 125]


def test_what_cannot_be_searched_is_said_before_anything_is_built(site: Site, tmp_path: Path) -> None:
    first = site.upstream.head
    site.publish(first)
    case = transpose(tmp_path / "case")
    aside = site.upstream.path
    site.upstream.git("checkout", "--quiet", "-b", "aside")
    branch = site.upstream.commit("On a branch", {"aside.txt": "\n"})
    site.upstream.git("checkout", "--quiet", "main")
    other = site.upstream.commit("On main", {"main.txt": "\n"})
    for good, bad, said in (
        (branch, other, "different branches"),
        ("0123456789", other, "0123456789"),
        ("--upload-pack=x", other, "upload-pack"),
        (first, first, "both"),
    ):
        done = site.run("--source", "commits", f"--good={good}", f"--bad={bad}", "--case", case)
        assert done.status == 2, done.err
        assert said in done.err
    assert not (site.shell.cache / "trees").exists() and shutil.which("git") and aside.exists()


def test_the_plan_names_candidates_and_whose_wasm_they_get(site: Site, tmp_path: Path) -> None:
    first, _, bad, newest = broken_history(site)
    version = site.publish(first)
    case = transpose(tmp_path / "case")
    done = site.run("--source", "commits", "--good", first, "--bad", newest, "--case", case, "--plan")
    assert done.status == 0, done.err
    assert "6 commits" in done.out and "4 candidates" in done.out
    assert f"{bad[:10]}" in done.out and f"that of {version}" in done.out
    assert "decides the order of the tests and never the answer" in done.out
    assert f"x1.0  {bad[:10]}: touches lib/planted.json: what execution providers share" in done.out
    assert not (site.shell.cache / "trees").exists()


def test_where_one_wasm_stands_in_for_all_a_cpp_commit_stays_open(site: Site, tmp_path: Path) -> None:
    first = changed(site.upstream, 1)
    kernel = site.upstream.cpp("Change a kernel")
    site.publish(first)
    done = site.run("--source", "commits", "--good", first, "--bad", kernel, "--case", transpose(tmp_path / "case"))
    assert done.status == 10, done.err + done.out
    report = site.shell.report()
    assert commits(report["boundary"]) == (first, kernel)
    assert [candidate["commits"] for candidate in report["candidates"]] == [[kernel]]
    assert report["matrix"] == [] and "nothing was tested" in report["cases"][0]["note"]


def test_commits_that_fail_in_another_way_do_not_answer_for_the_published_builds(site: Site, tmp_path: Path) -> None:
    first = changed(site.upstream, 1)
    throws = site.upstream.plant("Throw", throws=["Transpose"])
    wrong = site.upstream.plant("Be wrong", wrong=["Transpose"])
    old = site.publish(first)
    new = site.upstream.publish(site.shell.cache, throws, f"1.21.0-dev.20241201-{wrong[:10]}")
    site.registry.packages[new] = b"in the cache"
    done = site.run("--good", old, "--bad", new, "--case", transpose(tmp_path / "case"))
    assert done.status == 0, done.err + done.out
    report = site.shell.report()
    assert (report["boundary"]["last_old"]["version"], report["boundary"]["first_new"]["version"]) == (old, new)
    assert "fails in another way" in " ".join(report["warnings"])


def test_a_wasm_that_nobody_published_is_refused(site: Site, tmp_path: Path) -> None:
    first, newest = site.upstream.head, changed(site.upstream, 1)
    site.publish(first)
    words = ("--source", "commits", "--wasm", "nonsense", "--good", first, "--bad", newest)
    done = site.run(*words, "--case", transpose(tmp_path / "case"))
    assert done.status == 2 and "nonsense" in done.err
