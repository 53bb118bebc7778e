"""What a merge brought, and which commits stand for ends that no first-parent line leads through."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_bot.history.git import Git
from bisect_bot.history.merges import Merge, Side, merge_at, on_one_line
from bisect_bot.session.merges import not_searched_further
from tests.repos import Repo, make_repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


def commit(repo: Repo, name: str) -> str:
    return repo.commit(name, {f"{name}.txt": name})


def branch(repo: Repo, name: str, at: str = "HEAD") -> None:
    repo.git("checkout", "-q", "-b", name, at)


def merge(repo: Repo, into: str, other: str) -> str:
    repo.git("checkout", "-q", into)
    return repo.merge(other, f"Merge {other}")


def test_a_commit_with_one_parent_or_none_is_no_merge(repo: Repo) -> None:
    first, second = commit(repo, "a"), commit(repo, "b")
    assert merge_at(Git(repo.path), first) is None
    assert merge_at(Git(repo.path), second) is None


def test_a_merge_brought_the_line_of_its_branch_down_to_where_it_left(repo: Repo) -> None:
    fork = commit(repo, "fork")
    branch(repo, "topic")
    commit(repo, "one")
    tip = commit(repo, "two")
    repo.git("checkout", "-q", "main")
    before = commit(repo, "main")
    found = merge(repo, "main", "topic")
    assert merge_at(Git(repo.path), found) == Merge(found, before, (Side(tip, fork, 2),))


def test_merges_within_a_branch_are_found_level_by_level(repo: Repo) -> None:
    fork = commit(repo, "fork")
    branch(repo, "outer")
    outer = commit(repo, "outer-1")
    branch(repo, "inner")
    inner = commit(repo, "inner-1")
    repo.git("checkout", "-q", "outer")
    between = commit(repo, "outer-2")
    inner_merge = merge(repo, "outer", "inner")
    repo.git("checkout", "-q", "main")
    before = commit(repo, "main-1")
    outer_merge = merge(repo, "main", "outer")
    git = Git(repo.path)
    # The inner branch's commits are not on the line of the outer one.
    assert merge_at(git, outer_merge) == Merge(outer_merge, before, (Side(inner_merge, fork, 3),))
    assert merge_at(git, inner_merge) == Merge(inner_merge, between, (Side(inner, outer, 1),))


def test_a_branch_that_took_main_in_since_is_followed_past_that_to_where_it_began(repo: Repo) -> None:
    fork = commit(repo, "fork")
    branch(repo, "topic")
    commit(repo, "one")
    repo.git("checkout", "-q", "main")
    commit(repo, "newer")
    taken = merge(repo, "topic", "main")
    tip = commit(repo, "two")
    repo.git("checkout", "-q", "main")
    before = commit(repo, "newest")
    found = merge(repo, "main", "topic")
    git = Git(repo.path)
    # git's own merge base is what the branch took in, which is not on its line.
    assert git.read("merge-base", before, tip).strip() != fork
    assert merge_at(git, found) == Merge(found, before, (Side(tip, fork, 3),))
    assert merge_at(git, taken) is not None


def test_an_octopus_brought_several_branches(repo: Repo) -> None:
    fork = commit(repo, "fork")
    tips = []
    for name in ("a", "b"):
        branch(repo, name, fork)
        tips.append(commit(repo, f"on-{name}"))
    repo.git("checkout", "-q", "main")
    before = commit(repo, "main")
    repo.git("merge", "-q", "--no-ff", "-m", "Both", "a", "b")
    found = merge_at(Git(repo.path), repo.git("rev-parse", "HEAD"))
    assert found is not None and (found.into, [side.tip for side in found.sides]) == (before, tips)
    assert {side.fork for side in found.sides} == {fork}


def test_a_history_that_shares_nothing_has_no_fork(repo: Repo) -> None:
    before = commit(repo, "main")
    repo.git("checkout", "-q", "--orphan", "alien")
    alien = commit(repo, "alien")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "--allow-unrelated-histories", "-m", "Join", "alien")
    found = merge_at(Git(repo.path), repo.git("rev-parse", "HEAD"))
    assert found is not None and found.sides == (Side(alien, None, 1),) and found.into == before
    assert on_one_line(Git(repo.path), before, alien) == (before, alien, "")


def test_ends_on_one_line_stay_what_they_are_in_either_direction(repo: Repo) -> None:
    old = commit(repo, "old")
    commit(repo, "middle")
    new = commit(repo, "new")
    git = Git(repo.path)
    assert on_one_line(git, old, new) == (old, new, "")
    assert on_one_line(git, new, old) == (new, old, "")


def test_an_old_end_on_a_merged_branch_is_replaced_by_where_that_left_the_line(repo: Repo) -> None:
    fork = commit(repo, "fork")
    branch(repo, "topic")
    aside = commit(repo, "aside")
    commit(repo, "later")
    repo.git("checkout", "-q", "main")
    commit(repo, "main")
    merge(repo, "main", "topic")
    new = commit(repo, "new")
    git = Git(repo.path)
    good, bad, said = on_one_line(git, aside, new)
    assert (good, bad) == (fork, new)
    assert f"{aside[:10]} (2023-11-17, aside) is on a side branch of {new[:10]}" in said and fork[:10] in said
    assert on_one_line(git, new, aside)[:2] == (new, fork)


def test_of_ends_on_two_branches_the_good_one_is_replaced_by_where_they_part(repo: Repo) -> None:
    fork = commit(repo, "fork")
    branch(repo, "release")
    good = commit(repo, "release-1")
    repo.git("checkout", "-q", "main")
    bad = commit(repo, "main-1")
    found = on_one_line(Git(repo.path), good, bad)
    assert found[:2] == (fork, bad) and "lie on different branches" in found[2]
    # git bisect tests the merge base for its old, good end, too.
    assert on_one_line(Git(repo.path), bad, good)[:2] == (fork, good)


def test_a_further_change_that_a_merge_made_is_said_to_be_one(repo: Repo) -> None:
    repo.commit("one", {"a": "1"})
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit("on topic", {"b": "1"})
    repo.git("checkout", "-q", "main")
    into = repo.commit("two", {"a": "2"})
    merge = repo.merge("topic", "Merge topic")
    assert not_searched_further(Git(repo.path), into) is None
    said = not_searched_further(Git(repo.path), merge) or ""
    assert said.startswith(f"{merge[:10]} is a merge: the 1 commit that it brought was not searched.")
    assert f"the ends {into[:10]} and {merge[:10]}" in said
