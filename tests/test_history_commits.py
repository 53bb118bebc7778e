"""Commits of a range with the digests of their inputs, from real repositories; asked one by one they are the same."""

from __future__ import annotations

import os
import random
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from bisect_bot.errors import UnknownRevision, UsageError
from bisect_bot.history.commits import Inputs, commit, id_lengths, plan
from bisect_bot.history.ends import oldest_first
from bisect_bot.history.git import Git
from bisect_bot.model import Commit, Revision
from tests.limits import CLONE
from tests.repos import Repo, day, make_repo

INPUTS = Inputs(
    groups=(
        ("js", ("js/lib", "js/package.json", "!js/lib/test", "js/lib/test/kept")),
        ("wasm", ("core", "VERSION")),
        ("glue", ("core/wasm", "js/lib/types.ts")),
    ),
    markers=("js/lib", "js/esbuild.ts", "core/new.cc"),
)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


def planned(repo: Repo, old: str, new: str, inputs: Inputs = INPUTS) -> tuple[Commit, ...]:
    return plan(Git(repo.path), old, new, inputs)


def column(commits: tuple[Commit, ...], group: str) -> list[int]:
    """The digests of one group as small numbers, in the order in which they first appear; 0 for none."""
    seen = {"": 0}
    return [seen.setdefault(c.key(group), len(seen)) for c in commits]


def test_a_digest_changes_only_with_what_lies_below_its_paths(repo: Repo) -> None:
    first = repo.commit("start", {"js/lib/a.ts": "1", "core/x.cc": "1", "README": "1"})
    repo.commit("docs", {"README": "2"})
    repo.commit("js", {"js/lib/a.ts": "2"})
    repo.commit("C++", {"core/x.cc": "2"})
    last = repo.commit("both", {"js/lib/b.ts": "1", "core/x.cc": "3"})
    commits = planned(repo, first, last)
    assert column(commits, "js") == [1, 1, 2, 2, 3]
    assert column(commits, "wasm") == [1, 1, 1, 2, 3]
    assert column(commits, "glue") == [0, 0, 0, 0, 0]


def test_the_same_content_after_a_revert_has_the_same_digest(repo: Repo) -> None:
    first = repo.commit("start", {"js/lib/a.ts": "1", "js/lib/b.ts": "1"})
    repo.commit("change two", {"js/lib/a.ts": "2", "js/lib/b.ts": "2"})
    repo.commit("half back", {"js/lib/b.ts": "1"})
    last = repo.commit("back", {"js/lib/a.ts": "1"})
    assert column(planned(repo, first, last), "js") == [1, 2, 3, 1]


def test_contents_that_change_places_are_another_digest(repo: Repo) -> None:
    first = repo.commit("start", {"js/lib/a.ts": "1", "js/lib/b.ts": "2"})
    last = repo.commit("swap", {"js/lib/a.ts": "2", "js/lib/b.ts": "1"})
    assert column(planned(repo, first, last), "js") == [1, 2]


def test_what_an_exclamation_mark_leaves_out_changes_nothing_but_a_longer_path_counts_again(repo: Repo) -> None:
    first = repo.commit("start", {"js/lib/a.ts": "1"})
    repo.commit("left out", {"js/lib/test/a.ts": "1", "js/lib/test/deep/er.ts": "1"})
    repo.commit("in again", {"js/lib/test/kept/a.ts": "1"})
    last = repo.commit("only named alike", {"js/lib/testing.ts": "1"})
    assert column(planned(repo, first, last), "js") == [1, 1, 2, 3]


def test_a_path_may_be_a_file_a_folder_or_missing(repo: Repo) -> None:
    first = repo.commit("no inputs", {"README": "1"})
    repo.commit("a file where a folder is declared", {"core": "1"})
    repo.commit("now a folder", {"core": None, "core/x.cc": "1"})
    repo.commit("a file again", {"core/x.cc": None, "core": "1"})
    last = repo.commit("gone", {"core": None})
    commits = planned(repo, first, last)
    assert column(commits, "wasm") == [0, 1, 2, 1, 0]
    assert commits[0].keys[:3] == (("js", ""), ("wasm", ""), ("glue", ""))


def test_the_executable_bit_is_part_of_the_content(repo: Repo) -> None:
    first = repo.commit("start", {"js/lib/a.sh": "1"})
    repo.git("update-index", "--chmod=+x", "js/lib/a.sh")
    repo.git("commit", "-q", "-m", "executable")
    assert column(planned(repo, first, repo.git("rev-parse", "HEAD")), "js") == [1, 2]


def test_markers_say_what_exists(repo: Repo) -> None:
    first = repo.commit("start", {"js/lib/a.ts": "1"})
    repo.commit("new files", {"js/esbuild.ts": "1", "core/new.cc": "1", "js/lib/b.ts": "1"})
    last = repo.commit("gone", {"js/esbuild.ts": None, "js/lib/a.ts": None})
    commits = planned(repo, first, last)
    assert [c.key("has:js/lib") for c in commits] == ["1", "1", "1"]
    assert [c.key("has:js/esbuild.ts") for c in commits] == ["", "1", ""]
    assert [c.key("has:core/new.cc") for c in commits] == ["", "1", "1"]


def test_a_revision_carries_day_title_and_place(repo: Repo) -> None:
    first = repo.commit("start", {"a": "1"})
    second = repo.commit("größer: \x01 two\n\nbody", {"a": "2"})
    (_, last) = planned(repo, first, second)
    assert last.revision == Revision(second[:10], None, second, day(2), "größer: \x01 two", on_main=True)


def test_strange_file_names_are_read_as_they_are(repo: Repo) -> None:
    first = repo.commit("start", {"js/lib/a.ts": "1"})
    odd = repo.commit("odd", {"js/lib/ü\n:100644\x01 .ts": "1", "js/lib/ tab\t.ts": "1"})
    last = repo.commit("without", {"js/lib/ü\n:100644\x01 .ts": None, "js/lib/ tab\t.ts": None})
    assert column(planned(repo, first, last), "js") == [1, 2, 1]
    assert planned(repo, odd, odd)[0].keys == planned(repo, first, odd)[1].keys


def test_a_merge_counts_as_one_commit_with_all_that_it_brought(repo: Repo) -> None:
    first = repo.commit("start", {"js/lib/a.ts": "1"})
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("on the side", {"js/lib/b.ts": "1"})
    repo.commit("more of it", {"core/x.cc": "1"})
    repo.git("checkout", "-q", "main")
    second = repo.commit("on main", {"README": "1"})
    merge = repo.merge("side", "merged")
    commits = planned(repo, first, merge)
    assert [c.revision.commit for c in commits] == [first, second, merge]
    assert (column(commits, "js"), column(commits, "wasm")) == ([1, 1, 2], [0, 0, 1])


def test_a_range_may_begin_at_a_merge_or_be_one_commit(repo: Repo) -> None:
    repo.commit("start", {"js/lib/a.ts": "1"})
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("side", {"js/lib/b.ts": "1"})
    repo.git("checkout", "-q", "main")
    repo.commit("main", {"README": "1"})
    merge = repo.merge("side", "merged")
    last = repo.commit("after", {"js/lib/b.ts": "2"})
    commits = planned(repo, merge, last)
    assert [c.revision.commit for c in commits] == [merge, last]
    assert planned(repo, last, last) == commits[1:]
    assert commit(Git(repo.path), "HEAD~1", INPUTS) == commits[0]


@pytest.mark.parametrize("seed", range(4))
def test_digests_are_equal_exactly_where_git_says_that_the_inputs_are(repo: Repo, seed: int) -> None:
    ids = random_history(repo, random.Random(seed))
    commits = planned(repo, ids[0], ids[-1])
    assert [c.revision.commit for c in commits] == ids
    for group, paths in INPUTS.groups:
        naive = [listed(repo, sha, paths) for sha in ids]
        assert column(commits, group) == as_numbers(naive), group
        if not any(path.startswith("!") for path in paths):
            by_tree = [" ".join(found).strip() for found in tree_ids(repo, ids, paths)]
            assert column(commits, group) == as_numbers(by_tree), group
    for found, at_once in zip(tree_ids(repo, ids, INPUTS.markers), commits, strict=True):
        assert [at_once.key(f"has:{marker}") for marker in INPUTS.markers] == ["1" if oid else "" for oid in found]
    for sha, at_once in zip(ids[::12], commits[::12], strict=True):
        assert commit(Git(repo.path), sha, INPUTS) == at_once


def random_history(repo: Repo, draw: random.Random) -> list[str]:
    names = [
        "js/lib/a.ts",
        "js/lib/types.ts",
        "js/lib/test/x.ts",
        "js/lib/test/kept/y.ts",
        "js/package.json",
        "VERSION",
    ]
    names += ["js/esbuild.ts", "core/x.cc", "core/new.cc", "core/wasm/api.cc", "core/wasm/pre.js", "other/file"]
    there: set[str] = set()
    ids = []
    for step in range(25):
        files: dict[str, str | None] = {}
        for name in draw.sample(names, draw.randint(0, 3)):
            files[name] = None if name in there and draw.random() < 0.4 else str(draw.randint(0, 2))
        there = (there | {n for n, text in files.items() if text}) - {n for n, text in files.items() if text is None}
        ids.append(repo.commit(f"step {step}", files))
    return ids


def tree_ids(repo: Repo, commits: list[str], paths: tuple[str, ...]) -> list[list[str]]:
    """For each commit what git says that `commit:path` is, for each path; empty where there is nothing."""
    asked = "".join(f"{sha}:{path}\n" for sha in commits for path in paths)
    command = ["git", "-C", str(repo.path), "cat-file", "--batch-check=%(objectname)"]
    done = subprocess.run(command, input=asked, text=True, capture_output=True, check=True)
    found = ["" if row.endswith("missing") else row for row in done.stdout.splitlines()]
    return [found[at : at + len(paths)] for at in range(0, len(found), len(paths))]


def listed(repo: Repo, sha: str, paths: tuple[str, ...]) -> str:
    """The lines of `ls-tree` whose file is covered last by a path that counts."""
    kept = []
    for line in repo.git("ls-tree", "-r", sha).splitlines():
        name = line.split("\t")[1]
        covering = [p for p in paths if f"{name}/".startswith(p.removeprefix("!") + "/")]
        if covering and not max(covering, key=lambda p: len(p.removeprefix("!"))).startswith("!"):
            kept.append(line)
    return "\n".join(kept)


def as_numbers(contents: list[str]) -> list[int]:
    seen = {"": 0}
    return [seen.setdefault(content, len(seen)) for content in contents]


def test_ids_that_begin_alike_are_longer() -> None:
    a, b, c = "a" * 40, "a" * 12 + "b" * 28, "c" * 40
    assert id_lengths([a, b, c]) == {a: 13, b: 13, c: 10}


# --- what is wrong with two ends ----------------------------------------------------------------


def test_ends_the_wrong_way_around_are_said_to_be_so(repo: Repo) -> None:
    first, second = repo.commit("first", {"a": "1"}), repo.commit("second", {"a": "2"})
    with pytest.raises(UsageError, match=f"{first[:10]} .*first.* is older than {second[:10]}") as told:
        planned(repo, second, first)
    assert "other way around" in told.value.advice


def test_ends_on_two_branches_name_the_commit_where_these_part(repo: Repo) -> None:
    base = repo.commit("base", {"a": "1"})
    repo.git("checkout", "-q", "-b", "side")
    side = repo.commit("side", {"a": "2"})
    repo.git("checkout", "-q", "main")
    main = repo.commit("main", {"a": "3"})
    with pytest.raises(UsageError, match=f"different branches, which part at {base[:10]}"):
        planned(repo, side, main)
    with pytest.raises(UsageError, match="different branches"):
        oldest_first(Git(repo.path), side, main)


def test_a_commit_of_a_merged_branch_is_said_to_be_beside_the_line(repo: Repo) -> None:
    base = repo.commit("base", {"a": "1"})
    repo.git("checkout", "-q", "-b", "side")
    side = repo.commit("side", {"b": "2"})
    repo.git("checkout", "-q", "main")
    repo.commit("main", {"a": "3"})
    merge = repo.merge("side", "merged it")
    last = repo.commit("last", {"a": "4"})
    with pytest.raises(UsageError, match=f"{side[:10]} .*side branch.*{merge[:10]}.*merged it") as told:
        planned(repo, side, last)
    assert base[:10] in told.value.advice


def test_histories_that_have_nothing_in_common_are_said_to_have_nothing(repo: Repo) -> None:
    first = repo.commit("first", {"a": "1"})
    repo.git("checkout", "-q", "--orphan", "other")
    other = repo.commit("other", {"a": "2"})
    with pytest.raises(UsageError, match="no common ancestor"):
        planned(repo, first, other)


def test_the_older_of_two_commits_is_told(repo: Repo) -> None:
    first, second = repo.commit("first", {"a": "1"}), repo.commit("second", {"a": "2"})
    assert oldest_first(Git(repo.path), second, first) == (first, second) == oldest_first(Git(repo.path), first, second)


@pytest.mark.parametrize("name", ["-x", "--all", "nothing", "f" * 40, "a\nb"])
def test_an_end_that_the_clone_lacks_is_unknown(repo: Repo, name: str) -> None:
    first = repo.commit("first", {"a": "1"})
    with pytest.raises(UnknownRevision):
        planned(repo, name, first)


def test_an_end_beyond_the_point_where_a_clone_was_cut_off_says_to_deepen(repo: Repo, tmp_path: Path) -> None:
    ids = [repo.commit(f"{n}", {"js/lib/a.ts": f"{n}"}) for n in range(5)]
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "3", f"file://{repo.path}", str(shallow)], check=True)
    whole = plan(Git(shallow), ids[2], ids[4], INPUTS)
    assert [c.keys for c in whole] == [c.keys for c in planned(repo, ids[2], ids[4])]
    with pytest.raises(UsageError) as told:
        plan(Git(shallow), ids[0], ids[4], INPUTS)
    assert "fetch --unshallow" in told.value.advice


def test_commits_off_main_are_told_from_those_on_it(repo: Repo) -> None:
    first = repo.commit("first", {"a": "1"})
    repo.git("checkout", "-q", "-b", "side")
    side = repo.commit("side", {"a": "2"})
    assert [c.revision.on_main for c in planned(repo, first, side)] == [True, False]


def test_the_upstream_remote_is_main_and_not_a_stale_branch(repo: Repo) -> None:
    first = repo.commit("first", {"a": "1"})
    second = repo.commit("second", {"a": "2"})
    repo.git("update-ref", "refs/remotes/upstream/main", second)
    repo.git("reset", "-q", "--hard", first)
    assert [c.revision.on_main for c in planned(repo, first, second)] == [True, True]


def test_variables_of_a_hook_do_not_change_what_is_read(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = repo.commit("first", {"js/lib/a.ts": "1"})
    second = repo.commit("second", {"js/lib/a.ts": "2"})
    expected = planned(repo, first, second)
    other = make_repo(tmp_path / "other")
    other.commit("another project", {"x": "1"})
    for name in ("GIT_DIR", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(other.path / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git" / "objects"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git" / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_ICASE_PATHSPECS", "1")
    assert planned(repo, first, second) == expected


def test_the_user_s_configuration_does_not_change_what_is_read(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = repo.commit("first", {"js/lib/a.ts": "long enough to be found again\n" * 9})
    second = repo.commit("moved", {"js/lib/a.ts": None, "js/lib/b.ts": "long enough to be found again\n" * 9})
    expected = planned(repo, first, second)
    config = tmp_path / "config"
    config.write_text(
        "[diff]\nrenames = copies\nrelative = true\nnoprefix = true\nexternal = false\nignoreSubmodules = all\n"
        "[log]\nfollow = true\nshowRoot = false\ndecorate = short\nexcludeDecoration = refs/heads/*\ndate = iso\n"
        "[core]\nquotePath = true\nabbrev = 4\n[i18n]\nlogOutputEncoding = latin1\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert planned(repo, first, second) == expected


def test_three_git_processes_plan_a_range(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [repo.commit(f"{n}", {"js/lib/a.ts": f"{n}"}) for n in range(30)]
    traces = tmp_path / "traces"
    traces.mkdir()
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(traces))
    planned(repo, ids[0], ids[-1])
    assert 1 <= len(list(traces.iterdir())) <= 3


def test_each_commit_tells_the_files_of_each_group_that_it_changes(repo: Repo) -> None:
    first = repo.commit("start", {"js/lib/a.ts": "1", "core/x.cc": "1", "README": "1"})
    repo.commit("both", {"js/lib/a.ts": "2", "core/new.cc": "1", "core/wasm/api.h": "1", "README": "2"})
    repo.commit("nothing that is built", {"README": "3", "js/lib/test/t.ts": "1"})
    last = repo.commit("gone", {"core/x.cc": None})
    _, both, nothing, gone = planned(repo, first, last)
    assert both.files("js") == ("js/lib/a.ts",)
    assert both.files("wasm") == ("core/new.cc", "core/wasm/api.h")
    assert both.files("glue", "js") == ("core/wasm/api.h", "js/lib/a.ts")
    assert nothing.files("js", "wasm", "glue") == ()
    assert gone.files("wasm") == ("core/x.cc",)


@pytest.mark.clone
def test_the_range_of_the_first_report_has_two_changes_of_the_javascript() -> None:
    inputs = Inputs((("js", ("js/web/lib", "js/common/lib", "js/web/script")),))
    commits = plan(Git(Path(os.environ[CLONE])), "6a295eb75b", "d3ad76b2cf", inputs)
    assert len(commits) == 12
    changed = [b.revision.id for a, b in pairwise(commits) if a.keys != b.keys]
    assert len(changed) == 2
    assert "d9b91682f1" in changed
