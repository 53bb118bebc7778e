"""A session belongs to one process at a time, which may be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_bot.errors import UsageError
from bisect_bot.model import Request
from bisect_bot.session.journal import Journal
from bisect_bot.session.ownership import latest_left, owned, owner_of

OTHER = """\
import sys
from pathlib import Path
from bisect_bot.session.journal import Journal
from bisect_bot.session.ownership import owned
with Journal.open(Path(sys.argv[1])) as journal, owned(journal, sys.argv[2]):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A fresh journal."""
    with Journal.open(tmp_path / "journal.sqlite3") as opened:
        yield opened


@pytest.fixture
def session(journal: Journal) -> str:
    """A session of it."""
    return journal.start_session(Request("a", "b", ("case",)))


@pytest.fixture
def other(tmp_path: Path, journal: Journal, session: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, which works on that session until its input ends."""
    argv = [sys.executable, "-c", OTHER, str(tmp_path / "journal.sqlite3"), session]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "mine\n"
        yield process
        process.kill()


def test_a_session_that_another_process_works_on_is_not_taken(
    journal: Journal, session: str, other: subprocess.Popen[str]
) -> None:
    assert owner_of(journal, session) == other.pid
    with pytest.raises(UsageError, match=f"being worked on by the process {other.pid}"), owned(journal, session):
        pass
    with pytest.raises(UsageError, match=session):
        latest_left(journal)
    left = journal.start_session(Request("a", "c", ("case",)))
    assert latest_left(journal).id == left
    assert latest_left(journal).id != session


def test_the_latest_that_nobody_works_on_is_gone_on_with(
    journal: Journal, session: str, other: subprocess.Popen[str]
) -> None:
    assert owner_of(journal, session) == other.pid
    other.kill()
    other.wait()
    assert owner_of(journal, session) is None, "a process that was killed works on nothing"
    assert latest_left(journal).id == session


def test_an_owner_that_is_done_lets_go(journal: Journal, session: str, other: subprocess.Popen[str]) -> None:
    assert owner_of(journal, session) == other.pid
    other.communicate("")
    with owned(journal, session):
        assert owner_of(journal, session) is None, "this very process"
