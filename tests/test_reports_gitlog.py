"""The git bisect log, given to a real git."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import git
import pytest
from syrupy.assertion import SnapshotAssertion

from bisect_bot.model import Boundary, CellResult, Direction, Report, Result, Revision
from bisect_bot.reports.gitlog import to_gitlog
from tests.test_reports_samples import POOL, SAMPLES, found_regression, history, hostile

LENGTH = 6


@pytest.fixture
def repo(tmp_path: Path) -> git.Repo:
    """A repository with six commits in a row."""
    made = git.Repo.init(tmp_path / "repo")
    author = git.Actor("A", "a@example.org")
    for number in range(LENGTH):
        made.index.commit(f"commit {number}", author=author, committer=author)
    return made


def report_of(
    repo: git.Repo, letters: str, boundary: tuple[int, int], direction: Direction, digits: int = 40
) -> Report:
    """A report on the commits of `repo` with one verdict each, as `history` reads `letters`."""
    commits = list(repo.iter_commits(reverse=True))
    revisions = tuple(
        Revision(c.hexsha, None, c.hexsha[:digits], dt.date(2024, 11, 7), str(c.summary), True) for c in commits
    )
    pair = Boundary(revisions[boundary[0]], revisions[boundary[1]])
    return replace(
        found_regression(),
        cells=(CellResult(POOL, Result.FOUND, direction, pair),),
        revisions=revisions,
        trials=history(POOL, letters, revisions),
    )


def replay(repo: git.Repo, report: Report, tmp_path: Path) -> str:
    """What `git bisect log` says after replaying the log of `report`."""
    log = tmp_path / "bisect.log"
    log.write_text(to_gitlog(report), encoding="utf-8")
    repo.git.bisect("replay", str(log))
    told: str = repo.git.bisect("log")
    return told


def commands(log: str) -> list[str]:
    return [text for text in log.splitlines() if text.startswith("git bisect ")]


@pytest.mark.parametrize("digits", [40, 10])
def test_git_replays_the_log_of_a_regression_and_names_the_same_commit(
    repo: git.Repo, tmp_path: Path, digits: int
) -> None:
    report = report_of(repo, "gsgb-b", (2, 3), Direction.REGRESSION, digits)
    first = report.revisions[3].id
    log = replay(repo, report, tmp_path)
    assert f"# first bad commit: [{first}] commit 3" in log
    assert f"git bisect skip {report.revisions[1].commit}" in log


def test_git_replays_the_log_of_a_fix_under_terms_that_it_accepts(repo: git.Repo, tmp_path: Path) -> None:
    report = report_of(repo, "b-bg-g", (2, 3), Direction.FIX)
    log = replay(repo, report, tmp_path)
    assert commands(log)[0] == "git bisect start '--term-old=broken' '--term-new=fixed'"
    assert f"# first fixed commit: [{report.revisions[3].id}] commit 3" in log
    assert commands(log) == commands(to_gitlog(report))


def test_git_replays_a_history_whose_verdict_changes_more_than_once(repo: git.Repo, tmp_path: Path) -> None:
    report = report_of(repo, "gbgb-b", (2, 3), Direction.REGRESSION)
    assert f"# bad: [{report.revisions[1].id}] commit 1 (the verdict changes more than once)" in to_gitlog(report)
    assert f"# first bad commit: [{report.revisions[3].id}]" in replay(repo, report, tmp_path)


def test_a_title_cannot_add_a_command(repo: git.Repo, tmp_path: Path) -> None:
    report = report_of(repo, "g-gb-b", (2, 3), Direction.REGRESSION)
    evil = tuple(replace(r, title=f"x\ngit bisect good {report.revisions[5].id}\r") for r in report.revisions)
    forged = replace(report, revisions=evil)
    assert commands(to_gitlog(forged)) == commands(to_gitlog(report))
    assert len(commands(to_gitlog(hostile()))) == len({*commands(to_gitlog(hostile()))})
    assert f"# first bad commit: [{report.revisions[3].id}]" in replay(repo, forged, tmp_path)


def test_builds_that_git_cannot_place_are_comments() -> None:
    log = to_gitlog(found_regression())
    assert commands(log) == [
        "git bisect start",
        "git bisect good 2b8fc5529b",
        "git bisect good d9ca84ef96",
        "git bisect bad d27fecd3d3",
    ]
    assert "# bad: [e0b66cad28] 1.21.0 (not on the main line" in log
    unknown = tuple(replace(r, commit=None) for r in found_regression().revisions)
    assert commands(to_gitlog(replace(found_regression(), revisions=unknown))) == ["git bisect start"]


@pytest.mark.parametrize("name", SAMPLES)
def test_git_log_of_each_sample(name: str, snapshot: SnapshotAssertion) -> None:
    assert to_gitlog(SAMPLES[name]) == snapshot
