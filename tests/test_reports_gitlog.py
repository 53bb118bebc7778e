"""The git bisect log, given to a real git."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import git
import pytest
from syrupy.assertion import SnapshotAssertion

from bisect_bot.errors import UsageError
from bisect_bot.history.bisect_log import read_bisect_log
from bisect_bot.model import Boundary, CellResult, Direction, Report, Result, Revision, Suspect
from bisect_bot.reports.gitlog import to_gitlog
from tests.test_reports_samples import POOL, RESIZE, SAMPLES, found_regression, history, hostile

LENGTH = 6
_AUTHOR = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture
def repo(tmp_path: Path) -> git.Repo:
    """A repository with six commits in a row."""
    return repository(tmp_path, LENGTH)


def repository(folder: Path, length: int) -> git.Repo:
    """A repository with `length` commits in a row."""
    made = git.Repo.init(folder / "repo")
    author = git.Actor("A", "a@example.org")
    for number in range(length):
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
    # Where only skipped commits are left, git says which and ends with 2.
    status, _, _ = repo.git.bisect("replay", str(log), with_extended_output=True, with_exceptions=False)
    assert status == (2 if report.result is Result.RANGE else 0)
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
    assert commands(log)[0] == "git bisect start '--term-old=broken' '--term-new=fixed' '--first-parent'"
    assert f"# first fixed commit: [{report.revisions[3].id}] commit 3" in log
    assert commands(log) == commands(to_gitlog(report))


def test_git_replays_a_history_whose_verdict_changes_more_than_once(repo: git.Repo, tmp_path: Path) -> None:
    report = report_of(repo, "gbgb-b", (2, 3), Direction.REGRESSION)
    assert f"# bad: [{report.revisions[1].id}] commit 1 (the verdict changes more than once)" in to_gitlog(report)
    assert f"# first bad commit: [{report.revisions[3].id}]" in replay(repo, report, tmp_path)


@pytest.mark.parametrize(("direction", "letters"), [(Direction.REGRESSION, "gsgb-b"), (Direction.FIX, "b-bg-g")])
def test_our_own_log_can_be_gone_on_with(repo: git.Repo, direction: Direction, letters: str) -> None:
    report = report_of(repo, letters, (2, 3), direction)
    read = read_bisect_log(to_gitlog(report))
    words = {"g": "good", "b": "bad", "s": "skip"}
    told = {r.commit: words[letter] for r, letter in zip(report.revisions, letters, strict=True) if letter in words}
    assert dict(read.verdicts()) == told
    old, new = report.revisions[0].commit, report.revisions[-1].commit
    assert read.ends() == ((old, new) if direction is Direction.REGRESSION else (new, old))


def test_published_builds_that_were_tried_before_their_commits_do_not_hide_these(
    repo: git.Repo, tmp_path: Path
) -> None:
    report = report_of(repo, "g-gb-b", (2, 3), Direction.REGRESSION)
    # As a search lists them that came from builds to commits: builds first, although one is of a newer commit.
    builds = tuple(
        replace(commit, version=version, id=version)
        for commit, version in ((report.revisions[0], "1.0.0-dev"), (report.revisions[5], "1.1.0-dev"))
    )
    tried = history(POOL, "gb", builds)
    report = replace(report, revisions=(*builds, *report.revisions), trials=(*tried, *report.trials))
    assert f"# first bad commit: [{report.revisions[5].id}]" in replay(repo, report, tmp_path)
    assert "(as a published build, before its commits were searched)" in to_gitlog(report)
    assert "changes more than once" not in to_gitlog(report)


def test_a_title_cannot_add_a_command(repo: git.Repo, tmp_path: Path) -> None:
    report = report_of(repo, "g-gb-b", (2, 3), Direction.REGRESSION)
    evil = tuple(replace(r, title=f"x\ngit bisect good {report.revisions[5].id}\r") for r in report.revisions)
    forged = replace(report, revisions=evil)
    assert commands(to_gitlog(forged)) == commands(to_gitlog(report))
    assert len(commands(to_gitlog(hostile()))) == len({*commands(to_gitlog(hostile()))})
    assert f"# first bad commit: [{report.revisions[3].id}]" in replay(repo, forged, tmp_path)


def runs_of(repo: git.Repo, letters: str, pair: tuple[int, int], direction: Direction, *, skipped: int = 0) -> Report:
    """A search among the runs of two commits each of `repo`, of which the first was tested for both."""
    made = report_of(repo, "".join(f"{letter}-" for letter in letters), (2 * pair[0] + 1, 2 * pair[1]), direction)
    between = [made.revisions[2 * run : 2 * run + 2] for run in range(pair[0] + 1, pair[1])]
    suspects = tuple(Suspect(run, 0.5, skipped=True) for run in between)
    tested = (made.revisions[2 * pair[0]].id, made.revisions[2 * pair[1]].id)
    result = Result.RANGE if skipped else Result.FOUND
    assert len(between) == skipped
    answer = replace(made.cells[0], result=result, tested=tested, suspects=suspects)
    return replace(made, result=result, cells=(answer,))


@pytest.mark.parametrize(
    ("direction", "letters", "term"), [(Direction.REGRESSION, "gsgb", "bad"), (Direction.FIX, "b-bg", "fixed")]
)
def test_git_names_the_commit_that_a_search_among_runs_of_commits_found(
    tmp_path: Path, direction: Direction, letters: str, term: str
) -> None:
    repo = repository(tmp_path, 8)
    report = runs_of(repo, letters, (2, 3), direction)
    log = to_gitlog(report)
    assert f"(the same artifact as {report.revisions[4].id})" in log
    assert f"# first {term} commit: [{report.revisions[6].id}] commit 6" in replay(repo, report, tmp_path)


def test_git_comes_to_the_same_range_where_runs_of_commits_were_skipped(tmp_path: Path) -> None:
    repo = repository(tmp_path, 8)
    report = runs_of(repo, "g-sb", (1, 3), Direction.REGRESSION, skipped=1)
    told = replay(repo, report, tmp_path)
    assert "# only skipped commits left to test" in told
    possible = [text.split("[")[1][:40] for text in told.splitlines() if text.startswith("# possible first bad")]
    assert sorted(possible) == sorted(revision.id for revision in report.revisions[4:7])


def test_git_does_not_look_for_what_came_with_a_merge_beyond_it(tmp_path: Path) -> None:
    repo = repository(tmp_path, 2)
    repo.git.checkout("-b", "aside")
    author = git.Actor("A", "a@example.org")
    for number in range(4):
        repo.index.commit(f"aside {number}", author=author, committer=author)
    repo.git.checkout("-")
    repo.git.merge("--no-ff", "-m", "merge", "aside", env=_AUTHOR)
    merge = repo.head.commit
    line = tuple(Revision(c.hexsha, None, c.hexsha, None, str(c.summary), True) for c in (merge.parents[0], merge))
    answer = CellResult(POOL, Result.FOUND, Direction.REGRESSION, Boundary(*line))
    report = replace(found_regression(), cells=(answer,), revisions=line, trials=history(POOL, "gb", line))
    assert f"# first bad commit: [{merge.hexsha}] merge" in replay(repo, report, tmp_path)


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


def test_of_several_culprits_each_has_a_log_that_git_replays_to_it(repo: git.Repo, tmp_path: Path) -> None:
    first = report_of(repo, "gbbbbb", (0, 1), Direction.REGRESSION)
    second = report_of(repo, "g-sgbb", (3, 4), Direction.REGRESSION)
    cell = replace(second.cells[0], cell=RESIZE)
    trials = (*first.trials, *(replace(trial, cell=RESIZE) for trial in second.trials))
    report = replace(first, cells=(*first.cells, cell), trials=trials)
    one, two = report.revisions[1].id, report.revisions[4].id

    told = to_gitlog(report)
    (hint,) = [text for text in told.splitlines() if text.startswith(f"# first bad commit for {RESIZE}: [{two}]")]
    assert f"bisect-bot report {report.session} --format gitlog --case '{RESIZE}'" in hint
    for case, named in (("", one), (RESIZE.case, two), (str(RESIZE), two)):
        log = tmp_path / "bisect.log"
        log.write_text(to_gitlog(report, case), encoding="utf-8")
        repo.git.bisect("replay", str(log))
        assert f"# first bad commit: [{named}]" in repo.git.bisect("log")
    with pytest.raises(UsageError, match="no case 'else'"):
        to_gitlog(report, "else")
