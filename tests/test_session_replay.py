"""Verdicts of a bisect log count as one answer each: they spare tests, and a wrong one is found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from bisect_bot.cli import app, options
from bisect_bot.errors import UsageError
from bisect_bot.history import Line
from bisect_bot.history.git import Git
from bisect_bot.model import Candidate, Failure, Outcome, Request, Result, Revision, Signature, Verdict
from bisect_bot.session.loop import Given, Hunt, run_hunts
from bisect_bot.session.replay import given, looked_up, sentences
from bisect_bot.session.watcher import Silent
from tests.repos import make_repo
from tests.test_session_loop import UNIT, Planted, cell

GOOD, BAD, SKIP = Outcome.GOOD, Outcome.BAD, Outcome.SKIP
LINE = tuple(Revision(f"{n:010x}", commit=f"{n:010x}{0:030}") for n in range(32))
RUNS = tuple(Candidate((revision,)) for revision in LINE)


def search(first_bad: int, told: Sequence[tuple[int, Outcome]], says: Planted | None = None) -> tuple[Hunt, Planted]:
    """A search over LINE that was given what `told` says of its places."""
    place = {revision.id: index for index, revision in enumerate(LINE)}
    bench = says or Planted({cell("a"): lambda revision: BAD if place[revision.id] >= first_bad else GOOD})
    hunt = Hunt(cell("a"), UNIT, LINE, LINE[-1].id, given=tuple((LINE[i].id, outcome) for i, outcome in told))
    run_hunts([hunt], Line((), ()), bench, Silent())
    return hunt, bench


def sides(hunt: Hunt) -> tuple[int | None, int | None]:
    conclusion = hunt.answer().conclusion
    assert conclusion is not None and conclusion.result is Result.FOUND
    return conclusion.last_old, conclusion.first_new


def test_verdicts_of_a_log_spare_tests_but_not_those_of_the_ends_and_the_boundary() -> None:
    told = [(0, GOOD), (31, BAD), (16, BAD), (8, GOOD), (12, GOOD)]
    hunt, bench = search(14, told)
    _, alone = search(14, [])
    assert sides(hunt) == (13, 14)
    searched = [name for name, purpose in bench.asked if purpose == "search"]
    assert len(searched) == len([name for name, purpose in alone.asked if purpose == "search"]) - 3
    asked = [int(name, 16) for name, _ in bench.asked]
    assert not {16, 8, 12} & set(asked)
    assert (asked.count(0), asked.count(31)) == (1, 1)
    assert asked.count(13) == asked.count(14) == 3


def test_a_boundary_that_is_all_the_logs_is_tested_on_both_sides() -> None:
    hunt, bench = search(14, [(0, GOOD), (31, BAD), (13, GOOD), (14, BAD)])
    assert sides(hunt) == (13, 14)
    asked = [int(name, 16) for name, _ in bench.asked]
    assert min(asked.count(13), asked.count(14)) >= 2 and set(asked) == {0, 31, 13, 14}


@pytest.mark.parametrize("wrong", [(20, GOOD), (14, GOOD), (5, BAD), (13, BAD)])
def test_one_wrong_verdict_of_the_log_is_found_out_and_said(wrong: tuple[int, Outcome]) -> None:
    hunt, _ = search(14, [(0, GOOD), (31, BAD), wrong])
    assert sides(hunt) == (13, 14)
    place, outcome = wrong
    (said,) = [text for text in sentences([(LINE[place].commit or "", outcome)], [(hunt, RUNS)]) if "speak" in text]
    assert said.startswith(f"{hunt.cell}: the log calls {LINE[place].id} {outcome}")


@pytest.mark.parametrize("end", [(0, BAD), (31, GOOD)])
def test_an_end_that_the_log_calls_otherwise_is_what_its_tests_say(end: tuple[int, Outcome]) -> None:
    assert sides(search(14, [end])[0]) == (13, 14)


@settings(deadline=None, max_examples=40)
@drawn(st.integers(1, 31), st.dictionaries(st.integers(0, 31), st.sampled_from([GOOD, BAD]), max_size=12))
def test_whatever_a_log_says_the_boundary_found_is_the_true_one(first_bad: int, told: dict[int, Outcome]) -> None:
    hunt, _ = search(first_bad, list(told.items()))
    conclusion = hunt.answer().conclusion
    assert conclusion is not None
    if conclusion.result is Result.FOUND:
        assert (conclusion.last_old, conclusion.first_new) == (first_bad - 1, first_bad)
    assert all((LINE[i].id, outcome) in hunt.given for i, outcome in told.items())


def test_a_skip_of_the_log_is_not_asked_first() -> None:
    _, bench = search(14, [(15, SKIP)])
    searched = [int(name, 16) for name, purpose in bench.asked if purpose == "search"]
    assert searched[0] != 15 == (0 + 31) // 2


def test_a_bad_one_of_the_log_that_fails_in_another_way_here_says_nothing() -> None:
    this, other = Signature(Failure.MISMATCH, "a", "y: all zero"), Signature(Failure.ERROR, "a", "something else")

    def verdict(revision: Revision) -> Verdict:
        place = int(revision.id, 16)
        if place >= 20:
            return Verdict(BAD, "", this)
        return Verdict(BAD, "", other) if place == 10 else Verdict(GOOD, "")

    hunt, _ = search(0, [(0, GOOD), (31, BAD), (10, BAD)], Planted({cell("a"): verdict}))
    assert sides(hunt) == (19, 20)


def test_a_revision_that_is_not_steady_keeps_the_logs_answer_beside_its_own() -> None:
    hunt = Hunt(cell("a"), UNIT, LINE, given=((LINE[5].id, BAD),))
    faces = iter([GOOD, GOOD, BAD])
    bench = Planted({cell("a"): lambda _: next(faces)})
    kept = []
    for _ in range(3):
        hunt.trials += bench.test(LINE[5], UNIT, "search")
        kept.append(bool(hunt.believed))
    assert kept == [False, False, True]
    assert [piece.outcome for piece in hunt.evidence] == [BAD, GOOD, GOOD, BAD]


# --- which candidates a log speaks of ---------------------------------------------------------------


def mark(place: int, word: str) -> tuple[str, str]:
    return LINE[place].commit or "", word


def of(*marks: tuple[str, str]) -> Given:
    """What `marks` say of three candidates: 0 to 2, 3 to 5, and 6."""
    return given(marks, (Candidate(LINE[0:3]), Candidate(LINE[3:6]), Candidate(LINE[6:7])))


def test_what_is_said_of_a_commit_is_said_once_of_the_candidate_that_holds_it() -> None:
    assert of(mark(1, "good"), mark(2, "good"), mark(5, "bad"), mark(9, "bad")) == (
        (LINE[0].id, GOOD),
        (LINE[3].id, BAD),
    )
    assert of(mark(1, "skip"), mark(2, "good")) == ((LINE[0].id, GOOD),)
    assert of(mark(6, "skip")) == ((LINE[6].id, SKIP),)


def test_a_log_that_tells_equal_artifacts_apart_says_nothing_of_them() -> None:
    marks = [mark(0, "good"), mark(2, "bad")]
    assert of(*marks) == ()
    hunt = Hunt(cell("a"), UNIT, LINE)
    assert "commits that give the same artifact" in " ".join(sentences(marks, [(hunt, (Candidate(LINE[0:3]),))]))


def test_the_report_says_what_was_not_tested_and_what_lies_outside() -> None:
    told = [(0, GOOD), (31, BAD), (16, BAD)]
    hunt, _ = search(14, told)
    marks = [mark(0, "good"), mark(31, "bad"), mark(16, "bad"), ("f" * 40, "good")]
    assert sentences(marks, [(hunt, RUNS)]) == [
        "Outside of what was searched, and ignored: 1 verdict of the bisect log (ffffffffff).",
        "Taken from the log and not tested here: 1 verdict of the bisect log (0000000010).",
    ]
    assert sentences([], [(hunt, RUNS)]) == [] == sentences(marks, [])


def test_marks_are_looked_up_and_the_older_end_decides_what_old_means(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    sha, other = repo.commit("one", {"a": "1"}), repo.commit("two", {"a": "2"})
    request = Request("", "", (), replay=((sha[:8], "old"), ("0" * 40, "new"), ("f" * 12, "skip"), (other, "good")))
    git = Git(repo.path)
    names = (sha, "0" * 40, "f" * 12, other)
    said = looked_up(request, git, old_is_good=False).replay
    assert said == tuple(zip(names, ("bad", "good", "skip", "good"), strict=True))
    assert [word for _, word in looked_up(request, git, old_is_good=True).replay] == ["good", "bad", "skip", "good"]


def test_a_commit_under_two_names_counts_once_and_cannot_be_both(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    sha = repo.commit("one", {"a": "1"})
    git, request = Git(repo.path), Request("", "", ())
    twice = replace(request, replay=((sha, "good"), (sha[:10], "skip"), (sha[:12], "old")))
    assert looked_up(twice, git, old_is_good=True).replay == ((sha, "good"),)
    with pytest.raises(UsageError, match=f"the log calls {sha[:10]} both good and bad"):
        looked_up(replace(request, replay=((sha, "good"), (sha[:10], "bad"))), git, old_is_good=True)


# --- the command line -------------------------------------------------------------------------------


def test_a_run_with_a_log_says_the_log_when_it_says_how_to_ask_again() -> None:
    request = Request("a", "b", ("c",), source="commits", replay=(("a", "good"),), replay_file="my log")
    assert options.command_of(request).endswith("--source commits --replay 'my log'")


@pytest.mark.parametrize(
    ("words", "log", "says"),
    [
        (["--good", "1.20.1"], None, "--bad is missing"),
        ([], None, "--good is missing"),
        ([], "git bisect start\n", "no commit for --good"),
        (["--good", "1.20.1"], f"git bisect start\ngit bisect good {'a' * 40}\n", "no commit for --bad"),
        (["--source", "published"], "git bisect start\n", "--replay is for commits"),
        ([], "git bisect begin\n", "line 1 of the bisect log"),
    ],
)
def test_without_two_ends_nothing_is_begun(
    words: list[str], log: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if log is not None:
        (tmp_path / "log").write_text(log)
        words = [*words, "--replay", str(tmp_path / "log")]
    assert app.main(["run", "--case", "x", *words]) == 2
    assert says in " ".join(capsys.readouterr().err.split())
