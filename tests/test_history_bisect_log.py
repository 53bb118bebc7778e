"""What git's own bisect leaves behind is read as git reads it, and anything else is refused with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_bot.errors import UsageError
from bisect_bot.history.bisect_log import Bisection, Side, read_bisect_log
from bisect_bot.session.replay import read_log
from tests.repos import Repo, make_repo

A, B, C = "a" * 40, "b" * 40, "c" * 40
START = "git bisect start\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Eight commits in a row; the title of each looks like a command to whoever splits lines where git does not."""
    made = make_repo(tmp_path / "repo")
    for number in range(8):
        made.commit(f"commit {number} \u2028git bisect bad {A}", {"file": str(number)})
    return made


def commits(repo: Repo) -> list[str]:
    return repo.git("rev-list", "--reverse", "main").split()


def log_of(repo: Repo, *commands: str) -> Bisection:
    """What is read of the log that git keeps of `commands`."""
    for command in commands:
        repo.git("bisect", *command.split())
    return read_bisect_log(repo.git("bisect", "log") + "\n")


def test_a_half_done_bisect_is_read_with_its_skips(repo: Repo) -> None:
    line = commits(repo)
    read = log_of(repo, "start", f"bad {line[7]}", f"good {line[0]}", f"skip {line[3]}", f"bad {line[4]}")
    assert (read.old_term, read.new_term) == ("good", "bad")
    assert read.marks == ((line[7], Side.NEW), (line[0], Side.OLD), (line[3], Side.SKIP), (line[4], Side.NEW))
    assert read.verdicts() == ((line[7], "bad"), (line[0], "good"), (line[3], "skip"), (line[4], "bad"))
    assert read.ends() == (line[0], line[7])


def test_a_finished_bisect_is_read_too(repo: Repo) -> None:
    line = commits(repo)
    read = log_of(repo, "start", f"bad {line[2]}", f"good {line[0]}", f"bad {line[1]}")
    assert "first bad commit" in repo.git("bisect", "log")
    assert [commit for commit, _ in read.marks] == [line[2], line[0], line[1]]


def test_what_a_name_meant_when_the_bisect_began_is_what_counts(repo: Repo) -> None:
    line = commits(repo)
    read = log_of(repo, "start HEAD HEAD~6 HEAD~7")
    assert repo.git("rev-parse", "HEAD") != line[7], "HEAD is another by now"
    assert "git bisect start 'HEAD' 'HEAD~6' 'HEAD~7'" in repo.git("bisect", "log")
    assert read.marks == ((line[7], Side.NEW), (line[1], Side.OLD), (line[0], Side.OLD))


@pytest.mark.parametrize(
    ("start", "old", "new", "said", "good_is_old"),
    [
        ("start", "old", "new", ("old", "new"), True),
        ("start --term-old=broken --term-new=fixed", "broken", "fixed", ("bad", "good"), False),
        ("start --term-new broken --term-old fixed --first-parent", "fixed", "broken", ("good", "bad"), True),
        ("start --term-good=fast --term-bad=slow --no-checkout", "fast", "slow", ("old", "new"), True),
    ],
)
def test_the_words_for_the_two_sides_are_those_of_the_log(
    repo: Repo, start: str, old: str, new: str, said: tuple[str, str], good_is_old: bool
) -> None:
    line = commits(repo)
    read = log_of(repo, start, f"{new} {line[7]}", f"{old} {line[0]}")
    assert (read.old_term, read.new_term) == (old, new)
    assert read.verdicts() == ((line[7], said[1]), (line[0], said[0]))
    assert read.ends() == ((line[0], line[7]) if good_is_old else (line[7], line[0]))


def test_paths_that_a_bisect_was_limited_to_are_no_commits(repo: Repo) -> None:
    line = commits(repo)
    read = log_of(repo, f"start {line[7]} {line[0]} -- file")
    assert [commit for commit, _ in read.marks] == [line[7], line[0]]


@pytest.mark.parametrize("text", [f"{START}git bisect skip {A}\ngit bisect bad {A}", f"{START}git bisect bad {A}\n"])
def test_what_was_told_outweighs_that_it_was_skipped(text: str) -> None:
    assert read_bisect_log(f"{text}\ngit bisect skip {A}").marks == ((A, Side.NEW),)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (f"{START}git bisect good {A}\ngit bisect bad {A}", 3, "contradicts line 2"),
        (f"{START}{START}", 2, "second bisect"),
        (f"git bisect good {A}\n{START}", 1, "before `git bisect start`"),
        (f"{START}git bisect good {A} {B}", 2, "more than one"),
        (f"{START}git bisect good", 2, "no commit"),
        (f"{START}git bisect good --upload-pack=x", 2, "no commit"),
        (f"{START}git bisect good HEAD", 2, "no commit by its id"),
        (f"{START}git bisect good {A}\ngit bisect new {B}", 3, "'new', which is neither"),
        (f"git bisect start --term-old=x --term-new=y\ngit bisect good {A}", 2, "'good', which is neither"),
        ("git bisect start --term-old=x --term-new=x", 1, "no two words"),
        ("git bisect start --term-old", 1, "no word for"),
        ("git bisect start --exec=x", 1, "option"),
        (f"{START}git bisect run rm -rf /", 2, "'run', which is neither"),
        (f"{START}git bisect good '{A}", 2, "cannot be read"),
        (f"{START}git bisect", 2, "says nothing"),
        (f"{START}# fine\n\nrm -rf /", 4, "no command of git bisect: 'rm -rf /'"),
        ("\x00\x01" * 1000, 1, "no command of git bisect"),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        read_bisect_log(text)
    assert str(caught.value).startswith(f"line {line} of the bisect log ")
    assert len(str(caught.value)) < 400 and str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["", "\n", "# bad: [" + A + "] x\n"])
def test_a_log_without_a_start_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no `git bisect start`"):
        read_bisect_log(text)


WORDS = st.sampled_from(["git", "bisect", "start", "good", "bad", "skip", "old", A, B, "--term-old=x", "#", "'", "--"])


@given(st.one_of(st.text(), st.lists(st.lists(WORDS, max_size=6).map(" ".join), max_size=6).map("\n".join)))
def test_any_text_is_a_log_or_a_usage_error(text: str) -> None:
    try:
        read = read_bisect_log(text)
    except UsageError:
        return
    assert len({commit for commit, _ in read.marks}) == len(read.marks)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_log_is_read_from_a_file_as_shells_write_it(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "log").write_bytes(f"{START}# bad: [{C}] Größe\r\ngit bisect bad {C}\r\n".encode(encoding))
    assert read_log(tmp_path / "log").marks == ((C, Side.NEW),)


def test_a_file_that_can_be_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("#" * (1 << 21))
    for name, says in (("none", "No such file"), (".", "directory"), ("long", "that long")):
        with pytest.raises(UsageError, match=says):
            read_log(tmp_path / name)
