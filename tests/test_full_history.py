"""`--full-history`: a commit on a merged branch is found, and a merge is named only where it made the change itself."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_bot import paths
from bisect_bot.builds import fetch
from tests.command import make_shell
from tests.npm_registry import serve
from tests.test_commits import DECEMBER, OCTOBER, Site, commits, transpose
from tests.upstream import PLANTED, Upstream

pytestmark = [pytest.mark.network, pytest.mark.browser]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site whose first commit has the bundle of October, and is published."""
    old, new = (fetch(version, cache=paths.cache_root())[0].directory for version in (OCTOBER, DECEMBER))
    with serve(tmp_path, monkeypatch) as registry:
        made = Site(make_shell(tmp_path), Upstream(tmp_path / "upstream", old), registry, new)
        made.publish(made.upstream.head)
        yield made


def touch(upstream: Upstream, name: str) -> str:
    """A commit that changes a file of the build that no other line changes, and nothing that it answers."""
    return upstream.commit(f"Touch {name}", {f"js/web/lib/{name}.ts": f"// {secrets.token_hex(8)}\n"})


def branch(upstream: Upstream, name: str) -> None:
    upstream.git("checkout", "--quiet", "-b", name)


def merge(upstream: Upstream, into: str, other: str, **files: str) -> str:
    """Merges `other` into the branch `into`, with further changes of `files` that neither has."""
    upstream.git("checkout", "--quiet", into)
    upstream.git("merge", "--quiet", "--no-ff", "--no-commit", other)
    return upstream.commit(f"Merge {other}", {PLANTED if name == "planted" else name: t for name, t in files.items()})


def run(site: Site, good: str, bad: str, case: str, *words: str) -> tuple[int, str]:
    done = site.run("--source", "commits", "--good", good, "--bad", bad, "--case", case, *words)
    return done.status, done.out + done.err


def test_the_commit_is_found_on_a_branch_that_a_branch_brought(site: Site, tmp_path: Path) -> None:
    upstream, case = site.upstream, transpose(tmp_path / "case")
    first = upstream.head
    branch(upstream, "outer")
    touch(upstream, "outer-one")
    branch(upstream, "inner")
    before = touch(upstream, "inner-one")
    culprit = upstream.plant("Break Transpose (#7)", wrong=["Transpose"])
    touch(upstream, "inner-two")
    upstream.git("checkout", "--quiet", "outer")
    touch(upstream, "outer-two")
    inner = merge(upstream, "outer", "inner")
    upstream.git("checkout", "--quiet", "main")
    left = touch(upstream, "main-one")
    outer = merge(upstream, "main", "outer")
    newest = touch(upstream, "main-two")

    status, told = run(site, first, newest, case)
    assert status == 0, told
    report = site.shell.report()
    assert commits(report["boundary"]) == (left, outer)
    said = " ".join(report["warnings"])
    assert f"{outer[:10]} is a merge: the 3 commits that it brought were not searched" in said
    assert "add --full-history" in said

    status, told = run(site, first, newest, case, "--full-history")
    assert status == 0, told
    report = site.shell.report()
    assert (report["result"], commits(report["boundary"])) == ("found", (before, culprit))
    assert (report["culprit"]["commit"], report["culprit"]["pull_request"]) == (culprit, 7)
    said = " ".join(report["warnings"])
    assert f"{culprit[:10]} came in with the merge {inner[:10]}" in said
    assert f"{inner[:10]} came in with the merge {outer[:10]}" in said
    assert "--full-history" in report["reproduce"]
    # git comes to the same commit from what was tested.
    log = tmp_path / "replayed.log"
    log.write_text(report["git_bisect_log"])
    replayed = upstream.git("bisect", "replay", str(log))
    assert f"{culprit} is the first bad commit" in replayed

    # Ends on different branches: what both grew from is tested instead.
    upstream.git("bisect", "reset")
    upstream.git("checkout", "--quiet", "-b", "release", left)
    released = touch(upstream, "release")
    status, told = run(site, released, newest, case)
    assert status == 2 and "different branches" in told
    status, told = run(site, released, newest, case, "--full-history")
    assert status == 0, told
    report = site.shell.report()
    assert commits(report["boundary"]) == (before, culprit)
    assert f"in its place {left[:10]}" in " ".join(report["warnings"])


def test_a_merge_whose_sides_are_both_well_is_the_culprit_itself(site: Site, tmp_path: Path) -> None:
    upstream, case = site.upstream, transpose(tmp_path / "case")
    first = upstream.head
    branch(upstream, "topic")
    touch(upstream, "topic-one")
    tip = touch(upstream, "topic-two")
    upstream.git("checkout", "--quiet", "main")
    left = touch(upstream, "main-one")
    evil = merge(upstream, "main", "topic", planted='{"wrong": ["Transpose"]}\n')
    status, told = run(site, first, evil, case, "--full-history")
    assert status == 0, told
    report = site.shell.report()
    assert commits(report["boundary"]) == (left, evil)
    said = " ".join(report["warnings"])
    assert f"each side of the merge {evil[:10]} alone is good ({left[:10]}, {tip[:10]}): it is the merge" in said
