"""The ground of a search among commits: which are one artifact, and whose WebAssembly each gets."""

from __future__ import annotations

from bisect_bot.model import Commit, PartKind, Revision
from bisect_bot.session.ground import Ground, Source


def commits(*keys: str) -> tuple[Commit, ...]:
    """One commit for each `js wasm glue` triple of letters."""
    return tuple(
        Commit(
            Revision(f"c{place}", commit=f"{place:040x}"),
            (("js", triple[0]), ("wasm", triple[1]), ("glue", triple[2])),
        )
        for place, triple in enumerate(keys)
    )


def runs(ground: Ground, guilty: PartKind | None = None) -> list[list[str]]:
    return [[revision.id for revision in run.revisions] for run in ground.candidates(guilty)]


def test_commits_that_give_the_same_artifact_are_one_candidate() -> None:
    line = commits("aag", "abg", "acg", "bcg", "bdg")
    assert runs(Ground(line, 0, 4, (Source("old", 0),))) == [["c0", "c1", "c2"], ["c3", "c4"]]


def test_where_the_wasm_is_built_each_change_of_it_is_a_candidate() -> None:
    line = commits("aag", "abg", "acg", "bcg", "bcg")
    assert runs(Ground(line, 0, 4, builds_wasm=True)) == [["c0"], ["c1"], ["c2"], ["c3", "c4"]]
    assert Ground(line, 0, 4, builds_wasm=True).choices(1) == ()


def test_a_build_of_the_same_inputs_comes_first_then_the_nearest_with_the_same_glue() -> None:
    line = commits("aag", "abg", "acg", "adg", "adg", "aeh")
    ground = Ground(line, 0, 5, (Source("first", 0), Source("own", 4), Source("last", 5)))
    assert [source.version for source in ground.choices(3)] == ["own", "first", "last"]
    assert ground.is_exact(3, Source("own", 4)) and not ground.is_exact(3, Source("first", 0))
    assert [source.version for source in ground.choices(1)] == ["first", "own", "last"]


def test_of_builds_with_other_glue_a_later_one_is_tried_before_an_earlier_one() -> None:
    line = commits("aag", "bbh", "bci", "bdi")
    ground = Ground(line, 0, 3, (Source("before", 0), Source("after", 3)))
    assert [source.version for source in ground.choices(1)] == ["after", "before"]


def test_a_change_of_glue_parts_candidates_even_where_nothing_else_changes() -> None:
    line = commits("aag", "aag", "aah", "aah")
    assert runs(Ground(line, 0, 3, (Source("only", 0),))) == [["c0", "c1"], ["c2", "c3"]]


def test_once_the_javascript_is_guilty_only_its_changes_are_candidates() -> None:
    line = commits("aag", "abg", "bbg", "bbg", "bcg")
    ground = Ground(line, 0, 4, (Source("old", 0), Source("new", 4)))
    assert runs(ground, PartKind.JS) == [["c0", "c1"], ["c2", "c3", "c4"]]


def test_a_run_never_holds_two_artifacts_where_the_webassembly_may_be_guilty() -> None:
    line = commits("aag", "abg", "bbg", "bbg", "bcg")
    ground = Ground(line, 0, 4, (Source("old", 0), Source("new", 4)))
    assert runs(ground, PartKind.WASM) == runs(ground)
    built = Ground(line, 0, 4, builds_wasm=True)
    assert runs(built, PartKind.JS) == runs(built, PartKind.WASM) == [["c0"], ["c1"], ["c2", "c3"], ["c4"]]


def test_what_stands_in_lacks_the_changes_between() -> None:
    line = commits("aag", "abg", "abg", "acg", "adg")
    ground = Ground(line, 0, 4, (Source("old", 0), Source("new", 4)))
    assert [c.revision.id for c in ground.unseen(2, Source("old", 0))] == ["c1"]
    assert [c.revision.id for c in ground.unseen(2, Source("new", 4))] == ["c3", "c4"]
    assert ground.unseen(0, Source("old", 0)) == ()
    assert [c.revision.id for c in ground.wasm_changes(4, 0)] == ["c1", "c3", "c4"]


def test_a_lender_of_an_unknown_place_is_never_exact_and_comes_last() -> None:
    line = commits("aag", "abg")
    ground = Ground(line, 0, 1, (Source("unknown"), Source("old", 0)))
    assert [source.version for source in ground.choices(0)] == ["old", "unknown"]
    assert not ground.is_exact(0, Source("unknown")) and ground.unseen(0, Source("unknown")) == ()


def test_only_the_searched_commits_are_candidates() -> None:
    line = commits("aag", "bag", "cag", "dag")
    assert runs(Ground(line, 1, 2, (Source("old", 0),))) == [["c1"], ["c2"]]
