"""The place of builds in a clone: on main, beside it, or found by the sources in the package. Repositories are real."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bisect_bot.builds.package import blob_id
from bisect_bot.cli.app import make_app
from bisect_bot.errors import UsageError
from bisect_bot.history.ancestry import Evidence, find
from bisect_bot.history.known import How, Known, load
from bisect_bot.history.published import named_commit
from tests.repos import Repo, day, make_repo


def lib(**files: str) -> dict[str, str | None]:
    return {f"js/web/lib/{name}.ts": text for name, text in files.items()}


def sources(**files: str) -> dict[str, str]:
    return {f"lib/{name}.ts": blob_id(text.encode()) for name, text in files.items()}


MANY = {f"same{n}": "x" for n in range(20)}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "onnxruntime")


@dataclass(frozen=True)
class History:
    repo: Repo
    main: tuple[str, ...]
    picked: str


@pytest.fixture
def history(repo: Repo) -> History:
    """Days 1 to 8 on main (number 1.2 from day 1, 1.3 from day 5), and a commit of day 9 on a branch from day 4."""
    main = [
        repo.commit("start", {"VERSION_NUMBER": "1.2.0\n", **lib(a="1", b="1", **MANY)}),
        repo.commit("change a", lib(a="2")),
        repo.commit("C++ only", {"core.cc": "1"}),
        repo.commit("change b", lib(b="2")),
        repo.commit("bump", {"VERSION_NUMBER": "1.3.0\n"}),
        repo.commit("change a again", lib(a="3")),
        repo.commit("back to the state of day 2", lib(a="2", b="1")),
        repo.commit("C++ again", {"core.cc": "2"}),
    ]
    repo.git("checkout", "-q", "-b", "rel-1.2", main[3])
    picked = repo.commit("picked [red]\x1b[31m", lib(a="picked"))
    repo.git("checkout", "-q", "main")
    return History(repo, tuple(main), picked)


def place(history: History, build: Evidence) -> Known:
    (known,) = find(history.repo.path, [build])
    return known


def test_a_commit_on_main_is_found_by_its_abbreviation(history: History) -> None:
    known = place(history, Evidence("1.2.0-dev.20231117-x", history.main[1][:9], day(2)))
    assert known == Known(
        version="1.2.0-dev.20231117-x",
        how=How.COMMIT,
        commit=history.main[1],
        date=day(2),
        title="change a",
        on_main=True,
        main_ancestor=history.main[1],
        ancestor_date=day(2),
    )


def test_a_commit_beside_main_is_found_with_its_nearest_commit_of_main(history: History) -> None:
    known = place(history, Evidence("1.2.0", history.picked[:10]))
    assert (known.how, known.on_main, known.main_ancestor) == (How.COMMIT, False, history.main[3])
    assert (known.date, known.ancestor_date) == (day(9), day(4))


def test_a_branch_that_merged_main_grew_from_the_newest_commit_merged(history: History) -> None:
    history.repo.git("checkout", "-q", "rel-1.2")
    history.repo.git("merge", "-q", "-s", "ours", "-m", "merge", history.main[5])
    merge = history.repo.git("rev-parse", "HEAD")
    history.repo.git("checkout", "-q", "main")
    assert place(history, Evidence("1.2.1", merge)).main_ancestor == history.main[5]


def test_what_came_to_main_by_a_merge_is_not_itself_on_main(history: History) -> None:
    history.repo.git("merge", "-q", "--no-ff", "-s", "ours", "-m", "merge", "rel-1.2")
    known = place(history, Evidence("1.2.0", history.picked[:10]))
    assert (known.on_main, known.main_ancestor) == (False, history.main[3])


def test_a_missing_commit_is_placed_by_the_sources_in_the_package(history: History) -> None:
    known = place(history, Evidence("1.2.0", "fedcba9876", sources=sources(a="2", b="2", **MANY)))
    assert (known.how, known.commit, known.title) == (How.SOURCES, "fedcba9876", None)
    assert (known.on_main, known.main_ancestor, known.ancestor_date) == (False, history.main[3], day(4))
    assert known.differing == 0


def test_a_run_of_equal_sources_is_given_with_both_ends(history: History) -> None:
    known = place(history, Evidence("1.2.0", sources=sources(a="2", b="1", **MANY)))
    assert (known.main_ancestor, known.main_until) == (history.main[1], history.main[2])


def test_sources_are_looked_for_where_main_had_the_builds_version_number(history: History) -> None:
    # The same sources as on day 2, which main had again on day 7, when it was called 1.3.
    same = sources(a="2", b="1", **MANY)
    assert place(history, Evidence("1.3.0", sources=same)).main_ancestor == history.main[6]
    assert place(history, Evidence("1.2.7", sources=same)).main_ancestor == history.main[1]


def test_a_picked_fix_counts_as_a_difference_and_hides_nothing(history: History) -> None:
    known = place(history, Evidence("1.2.1", sources=sources(a="2", b="2", new="fix", version="1.2.1", **MANY)))
    assert (known.main_ancestor, known.differing) == (history.main[3], 1)


def test_a_file_that_main_removed_counts_too(history: History) -> None:
    history.repo.commit("remove b", {"js/web/lib/b.ts": None})
    known = place(history, Evidence("1.3.0", sources=sources(a="2", **MANY)))
    assert (known.main_ancestor, known.differing) == (history.repo.git("rev-parse", "HEAD"), 0)


def test_sources_of_another_layout_fit_nothing(history: History) -> None:
    known = place(history, Evidence("1.2.0", sources=sources(x="1", y="2")))
    assert (known.how, known.main_ancestor, known.on_main) == (How.NONE, None, False)


def test_a_build_newer_than_the_clone_is_left_open(history: History) -> None:
    newer = place(history, Evidence("1.3.0", sources=sources(a="9", b="1", **MANY)))
    assert (newer.how, newer.main_ancestor) == (How.NONE, None)
    much_newer = place(history, Evidence("1.4.0-dev.20300101-x", "fedcba9876", dt.date(2030, 1, 1), sources(a="2")))
    assert (much_newer.how, much_newer.on_main) == (How.NONE, None)


def test_a_dev_build_of_the_clones_time_that_it_lacks_is_not_on_main(history: History) -> None:
    assert place(history, Evidence("1.2.0-dev.20231118-x", "fedcba9876", day(3))).on_main is False
    assert place(history, Evidence("1.2.0-dev.20231018-x", "fedcba9876", day(0))).on_main is None
    assert place(history, Evidence("1.2.0-dev.20231118.0")).on_main is None


def test_a_shallow_clone_says_what_it_can(history: History, tmp_path: Path) -> None:
    url = history.repo.path.as_uri()
    subprocess.run(["git", "clone", "-q", "--bare", "--depth", "3", url, str(tmp_path / "s")], check=True)
    shallow = History(Repo(tmp_path / "s"), history.main, history.picked)
    assert place(shallow, Evidence("1.3.0-dev.x", history.main[6], day(7))).on_main is True
    assert place(shallow, Evidence("1.2.0-dev.x", history.main[1], day(2))).on_main is None
    assert place(shallow, Evidence("1.3.0", sources=sources(a="2", b="1", **MANY))).main_ancestor == history.main[6]


def test_a_clone_without_blobs_is_enough_and_nothing_is_fetched(history: History, tmp_path: Path) -> None:
    history.repo.git("config", "uploadpack.allowFilter", "true")
    url = history.repo.path.as_uri()
    partial = tmp_path / "p"
    subprocess.run(["git", "clone", "-q", "--bare", "--filter=blob:none", url, str(partial)], check=True)
    history.repo.path.rename(tmp_path / "gone")
    known = place(History(Repo(partial), history.main, ""), Evidence("1.2.0", sources=sources(a="2", b="2", **MANY)))
    assert (known.how, known.main_ancestor) == (How.SOURCES, history.main[3])


def test_nothing_is_written_to_the_clone(history: History) -> None:
    def state() -> dict[str, float]:
        return {p.as_posix(): p.stat().st_mtime_ns for p in history.repo.path.rglob("*")}

    before = state()
    place(history, Evidence("1.2.0", history.picked[:10], sources=sources(a="2", b="2", **MANY)))
    place(history, Evidence("1.2.0", "fedcba9876", sources=sources(a="2", b="2", **MANY)))
    assert state() == before


def test_the_branch_of_upstream_goes_before_the_local_one(history: History) -> None:
    history.repo.git("update-ref", "refs/remotes/origin/main", history.main[2])
    assert place(history, Evidence("1.3.0-dev.x", history.main[5])).on_main is False
    (named,) = find(history.repo.path, [Evidence("1.3.0-dev.x", history.main[5])], main="refs/heads/main")
    assert named.on_main is True


def test_only_the_named_repository_is_read(history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError):
        find(history.repo.path / "js", [Evidence("1.2.0-dev.x", history.main[1])])
    other = Repo(tmp_path / "other")
    other.path.mkdir()
    other.git("init", "-q", "-b", "main")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    assert place(history, Evidence("1.2.0-dev.x", history.main[1])).on_main is True


@pytest.mark.parametrize("kind", ["missing", "no repository", "empty", "other project", "no such branch"])
def test_what_is_no_clone_of_onnxruntime_is_a_usage_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    main = "refs/heads/nope" if kind == "no such branch" else None
    if kind != "missing":
        path.mkdir()
    if kind in ("empty", "other project", "no such branch"):
        made = Repo(path)
        made.git("init", "-q", "-b", "main")
        if kind != "empty":
            made.commit("x", {"README": "x"})
    with pytest.raises(UsageError) as caught:
        find(path, [Evidence("1.2.0", "fedcba9876")], main)
    assert str(path) in str(caught.value)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept list of versions and no npm."""
    (tmp_path / "cache").mkdir()
    kept = ["1.20.1", "1.21.0-dev.20241024-d9ca84ef96", "1.99.0-dev.20300101-0123456789"]
    (tmp_path / "cache" / "versions.json").write_text(json.dumps(kept))
    monkeypatch.setenv("BISECT_BOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.usefixtures("offline")
def test_versions_prints_json_alone_on_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    result = CliRunner().invoke(make_app(), ["versions", "--json"], catch_exceptions=False)
    rows = json.loads(result.stdout)
    assert [row["version"] for row in rows] == [
        "1.20.1",
        "1.21.0-dev.20241024-d9ca84ef96",
        "1.99.0-dev.20300101-0123456789",
    ]
    assert [row["on_main"] for row in rows] == [False, True, None]
    assert rows[1]["commit"] == "d9ca84ef96bae72da9ebcac5c591faca8dd52e78"
    assert "kept from the last time" in result.stderr


@pytest.mark.usefixtures("offline")
def test_a_title_from_a_clone_can_do_nothing_to_the_terminal(history: History, tmp_path: Path) -> None:
    (tmp_path / "cache" / "versions.json").write_text(json.dumps([f"1.2.0-dev.20231124-{history.picked[:10]}"]))
    env = {"npm_config_registry": "http://127.0.0.1:9/", "npm_config_fetch_retries": "0"}
    result = CliRunner().invoke(
        make_app(), ["versions", "--repo", str(history.repo.path)], catch_exceptions=False, env=env
    )
    assert "picked [red]" in result.stdout
    assert "\x1b" not in result.stdout
    assert f"beside {history.main[3][:10]}" in result.stdout


def test_saving_needs_a_clone() -> None:
    with pytest.raises(UsageError, match="--save"):
        CliRunner().invoke(make_app(), ["versions", "--save"], catch_exceptions=False, standalone_mode=False)


@pytest.mark.clone
def test_the_shipped_table_is_what_a_real_clone_says() -> None:
    shipped = load()
    builds = [Evidence(version, *named_commit(version)) for version in shipped]
    found = {known.version: known for known in find(Path(os.environ["BISECT_BOT_TEST_CLONE"]), builds)}
    here = {version: known for version, known in found.items() if known.how is How.COMMIT}
    assert len(here) >= 30
    assert here == {version: shipped[version] for version in here}
    beside = [version for version, known in found.items() if "-dev." in version and known.on_main is False]
    assert "1.21.0-dev.20250203-75f394ca3e" in beside
