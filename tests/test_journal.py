"""The journal on a real disk: what was recorded is there, whoever is killed and whatever is full."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisect_bot.errors import DiskFull, JournalError, UnknownSession
from bisect_bot.model import (
    CellResult,
    Change,
    Comparison,
    Counts,
    Ending,
    Mismatch,
    Observation,
    Outcome,
    Report,
    Request,
    Result,
    Step,
    Tensor,
    Verdict,
)
from bisect_bot.paths import PACKAGE
from bisect_bot.session.journal import MAX_TENSOR_BYTES, Journal, SessionState

REQUEST = Request(good="1.20.1", bad="1.21.0", cases=("conv",))
GOOD = Verdict(Outcome.GOOD, "all outputs match")

# Records one row after another and says so after each; the row's data tells the writer.
WRITER = """
import sys
from pathlib import Path
from bisect_bot.model import Ending, Observation, Outcome, Request, Step, Tensor, Verdict
from bisect_bot.session.journal import Journal

path, key, name, rows = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
with Journal.open(path) as journal:
    session = journal.start_session(Request("1", "2", ("c",)))
    for attempt in range(rows):
        tensor = Tensor("y", "uint8", (5000,), bytes([attempt % 256]) * 5000)
        seen = Observation(name, "a", "b", "webgpu", Ending.COMPLETED, steps=(Step(outputs=((tensor,),)),))
        stands, _ = journal.record(session, key, attempt, "r", seen, Verdict(Outcome.GOOD, name), 0.1)
        print(attempt, stands.case, flush=True)
"""

# Makes one new journal after another.
MAKER = """
import sys
from pathlib import Path
from bisect_bot.session.journal import Journal

print("ready", flush=True)
sys.stdin.readline()
for number in range(100000):
    Journal.open(Path(sys.argv[1]) / str(number) / "journal.sqlite3").close()
    print(number, flush=True)
"""


def child(script: str, *words: object) -> subprocess.Popen[str]:
    """A process that runs `script`, waiting for a line before it touches the journal."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def rest_of(process: subprocess.Popen[str]) -> list[str]:
    """The complete lines that the process has still written, once it has ended."""
    assert process.stdout is not None
    text = process.stdout.read()
    process.communicate()
    return text[: text.rfind("\n") + 1].splitlines()


def seen(case: str = "conv", *data: bytes) -> Observation:
    outputs = (tuple(Tensor(f"y{i}", "uint8", (len(d),), d) for i, d in enumerate(data)),) if data else ()
    return Observation(
        case, "sha256:1", "ort.webgpu.min.mjs", "webgpu", Ending.COMPLETED, steps=(Step(outputs=outputs),)
    )


def report(session: str) -> Report:
    return Report(session, Result.SAME, (), (), (), (), (), Counts(), (), "onnxruntime", (), "bisect-bot run", 1.5)


def is_whole(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "journal.sqlite3"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.open(path) as opened:
        yield opened


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with one mebibyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


# --- sessions -----------------------------------------------------------------------------------


def test_a_session_is_found_by_its_id_by_a_prefix_and_as_the_latest_unfinished(journal: Journal) -> None:
    first = journal.start_session(REQUEST)
    assert journal.session(first[:-1]).request == REQUEST
    second = journal.start_session(replace(REQUEST, seed=7))
    assert journal.session(first).request == REQUEST
    assert journal.session(second).request.seed == 7
    assert journal.session().id == second
    journal.finish_session(second, SessionState.FINISHED)
    assert journal.session().id == first
    assert [row.id for row in journal.sessions()] == [second, first]
    assert [row.state for row in journal.sessions()] == [SessionState.FINISHED, SessionState.RUNNING]


def test_an_unknown_session_lists_those_that_are_known(journal: Journal) -> None:
    known = journal.start_session(REQUEST)
    for ask in (lambda: journal.session("1999"), lambda: journal.report("1999"), lambda: journal.session("")):
        with pytest.raises(UnknownSession) as caught:
            ask()
        assert known in caught.value.advice
    with pytest.raises(UnknownSession):
        journal.finish_session("1999", SessionState.FAILED)


def test_a_prefix_of_several_sessions_names_none(journal: Journal) -> None:
    first, second = journal.start_session(REQUEST), journal.start_session(REQUEST)
    with pytest.raises(UnknownSession, match="names 2 sessions") as caught:
        journal.session("20")
    assert first in caught.value.advice
    assert second in caught.value.advice


def test_there_is_no_unfinished_session_in_a_new_journal(journal: Journal) -> None:
    with pytest.raises(UnknownSession, match="no unfinished session"):
        journal.session()


def test_the_latest_of_some_kinds_passes_over_the_others(journal: Journal) -> None:
    begun = [journal.start_session(Request("a", "b", ("case",), kind=kind)) for kind in ("run", "matrix", "check")]
    assert journal.latest_of("run", "matrix").id == begun[1]
    assert journal.latest_of("run").id == begun[0]
    with pytest.raises(UnknownSession, match="there is no verify and no demo"):
        journal.latest_of("verify", "demo")


def test_a_session_that_stopped_keeps_its_report_when_it_later_fails_without_one(journal: Journal) -> None:
    session = journal.start_session(REQUEST)
    assert journal.report(session) is None
    journal.finish_session(session, SessionState.STOPPED, report(session))
    journal.finish_session(session, SessionState.FAILED)
    assert journal.report(session) == report(session)
    assert journal.session().state is SessionState.FAILED


# --- observations -------------------------------------------------------------------------------


def test_what_was_recorded_is_recalled_by_another_opening_of_the_file(path: Path) -> None:
    observation = seen("conv", b"\x00\x01\xff", b"")
    with Journal.open(path) as journal:
        session = journal.start_session(REQUEST)
        assert journal.record(session, "key", 0, "1.20.1", observation, GOOD, 2.5) == (observation, GOOD)
    with Journal.open(path) as journal:
        assert journal.recall("key", 0) == (observation, GOOD)
        assert journal.recall("key", 1) is None
        assert journal.recall("other", 0) is None


def test_the_first_of_two_equal_attempts_stands(journal: Journal) -> None:
    session = journal.start_session(REQUEST)
    first, late = seen("first", b"1"), seen("late", b"2")
    journal.record(session, "key", 0, "r", first, GOOD, 1)
    assert journal.record(session, "key", 0, "r", late, Verdict(Outcome.BAD, "late"), 1) == (first, GOOD)
    assert journal.recall("key", 0) == (first, GOOD)


def test_an_infra_observation_is_kept_and_never_recalled(journal: Journal, path: Path) -> None:
    session = journal.start_session(REQUEST)
    for _ in range(2):
        journal.record(session, "key", 0, "r", seen("lost"), Verdict(Outcome.INFRA, "browser gone"), 1)
    assert journal.recall("key", 0) is None
    assert journal.record(session, "key", 0, "r", seen("real"), GOOD, 1) == (seen("real"), GOOD)
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT outcome FROM verdicts ORDER BY observation").fetchall()
    connection.close()
    assert rows == [("infra",), ("infra",), ("good",)]


def test_tensors_are_kept_up_to_the_limit_and_beyond_it_fail_loudly_instead_of_reading_as_empty(
    journal: Journal,
) -> None:
    session = journal.start_session(REQUEST)
    fits, over = seen("fits", bytes(MAX_TENSOR_BYTES)), seen("over", bytes(MAX_TENSOR_BYTES), b"1")
    journal.record(session, "fits", 0, "r", fits, GOOD, 1)
    journal.record(session, "over", 0, "r", over, GOOD, 1)
    recalled = journal.recall("fits", 0)
    assert recalled == (fits, GOOD)
    recalled = journal.recall("over", 0)
    assert recalled is not None
    tensor = recalled[0].outputs[0][0]
    assert (tensor.name, tensor.shape, tensor.data) == ("y0", (MAX_TENSOR_BYTES,), b"")
    with pytest.raises(ValueError, match="reshape"):
        tensor.array()


def test_the_newest_judge_is_recalled(journal: Journal, path: Path) -> None:
    session = journal.start_session(REQUEST)
    journal.record(session, "key", 0, "r", seen(), GOOD, 1, judge=2)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(
            "INSERT INTO verdicts SELECT observation, 1, 'bad', replace(verdict, 'good', 'bad') FROM verdicts"
        )
    connection.close()
    assert journal.recall("key", 0) == (seen(), GOOD)


def test_a_build_is_recorded_with_its_session_and_price(journal: Journal, path: Path) -> None:
    session = journal.start_session(REQUEST)
    journal.record_build(session, "1.20.1", "key", "sha256:1", 12.5, reused=False)
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT session, revision, key, digest, seconds, reused FROM builds").fetchall()
    connection.close()
    assert rows == [(session, "1.20.1", "key", "sha256:1", 12.5, 0)]


def test_nothing_is_recorded_under_a_session_that_does_not_exist(journal: Journal) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        journal.record("1999", "key", 0, "r", seen(), GOOD, 1)
    assert journal.recall("key", 0) is None


def test_of_a_remembered_fact_the_last_value_wins(journal: Journal, path: Path) -> None:
    assert journal.remembered("flags", "chrome") is None
    journal.remember("flags", "chrome", ["--a"])
    journal.remember("flags", "chrome", {"set": "vulkan", "tries": 2})
    journal.remember("adapter", "chrome", None)
    with Journal.open(path) as other:
        assert other.remembered("flags", "chrome") == {"set": "vulkan", "tries": 2}
        assert other.remembered("adapter", "chrome") is None


def test_every_commit_is_synced_to_the_disk_before_it_returns(journal: Journal) -> None:
    # What a kill cannot show: a power cut would lose what the system had only buffered.
    modes = [journal._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert modes == ["wal", 2]


# --- round trips --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    with Journal.open(tmp_path_factory.mktemp("round-trips") / "journal.sqlite3") as opened:
        yield opened


round_trip = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@round_trip
@given(request=st.from_type(Request))
def test_every_request_survives(shared: Journal, request: Request) -> None:
    assert repr(shared.session(shared.start_session(request)).request) == repr(request)


# A further change of a cell is told by an answer that has none itself: else there would be no end of them.
CHANGES = st.builds(Change, answer=st.builds(CellResult, others=st.just(())))
CELLS = st.builds(CellResult, others=st.lists(CHANGES, max_size=2).map(tuple))


@round_trip
@given(value=st.builds(Report, cells=st.lists(CELLS, max_size=3).map(tuple)))
def test_every_report_survives(shared: Journal, value: Report) -> None:
    # NaN differs from itself: the texts are compared, which tell 1 from 1.0 and True too.
    session = shared.start_session(REQUEST)
    shared.finish_session(session, SessionState.FINISHED, value)
    assert repr(shared.report(session)) == repr(value)


@round_trip
@given(observation=st.from_type(Observation), verdict=st.from_type(Verdict))
def test_every_observation_and_verdict_survives(shared: Journal, observation: Observation, verdict: Verdict) -> None:
    verdict = replace(verdict, outcome=Outcome.BAD)
    session = shared.start_session(REQUEST)
    shared.record(session, session, 0, "r", observation, verdict, 1)
    recalled = shared.recall(session, 0)
    assert recalled is not None
    assert repr(recalled) == repr((observation, verdict))
    assert recalled[0].outputs == observation.outputs


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -0.0, 1.0, 1, True, "NaN", "1", 10**30])
def test_a_mismatched_element_keeps_its_type_and_value(journal: Journal, value: float | int | bool | str) -> None:
    element = Mismatch((0,), value, value)
    session = journal.start_session(REQUEST)
    verdict = Verdict(Outcome.BAD, "differs", comparisons=(Comparison("0", "y", False, 1, first=(element,)),))
    journal.record(session, "key", 0, "r", seen(), verdict, 1)
    recalled = journal.recall("key", 0)
    assert recalled is not None
    assert repr(recalled[1].comparisons[0].first[0]) == repr(element)


def test_a_message_that_is_no_valid_unicode_survives(journal: Journal) -> None:
    observation = replace(seen(), console=("half a pair: \ud83d", "a NUL: \x00"))
    session = journal.start_session(REQUEST)
    journal.record(session, "key", 0, "r", observation, GOOD, 1)
    assert journal.recall("key", 0) == (observation, GOOD)


# --- several processes, and killed ones ---------------------------------------------------------


def test_a_writer_killed_at_any_instant_leaves_every_row_that_it_had_reported(path: Path) -> None:
    instants = random.Random(1)
    reported = 0
    for number in range(6):
        writer = child(WRITER, path, f"round {number}", "writer", 100_000)
        begin(writer)
        time.sleep(instants.uniform(0.0, 0.4))
        writer.kill()
        lines = rest_of(writer)
        assert not path.exists() or is_whole(path)
        with Journal.open(path) as journal:
            for line in lines:
                attempt = int(line.split()[0])
                recalled = journal.recall(f"round {number}", attempt)
                assert recalled is not None, f"row {attempt} was reported and is gone"
                assert recalled[0].outputs[0][0].data == bytes([attempt % 256]) * 5000
        reported += len(lines)
    assert reported > 0


def test_a_process_killed_while_it_makes_a_journal_leaves_one_that_opens(tmp_path: Path) -> None:
    instants = random.Random(2)
    for number in range(4):
        folder = tmp_path / str(number)
        maker = child(MAKER, folder)
        begin(maker)
        time.sleep(instants.uniform(0.05, 0.3))
        maker.kill()
        made = len(rest_of(maker))
        last = folder / str(made) / "journal.sqlite3"
        with Journal.open(last) as journal:
            assert journal.sessions() == ()
        assert is_whole(last)


def test_two_processes_that_make_and_write_a_journal_at_once_lose_no_row(path: Path) -> None:
    rows = 60
    writers = [child(WRITER, path, "key", name, rows) for name in ("one", "two")]
    for writer in writers:
        begin(writer)
    stands = [rest_of(writer) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    wanted = [[f"{attempt} {name}" for attempt in range(rows)] for name in ("one", "two")]
    assert stands == wanted, "no control has confirmed what the other one saw"
    with Journal.open(path) as journal:
        assert len(journal.sessions()) == 2
        for attempt in range(rows):
            recalled = journal.recall("key", attempt)
            assert recalled is not None
            assert recalled[0].case == recalled[1].reason
    connection = sqlite3.connect(path)
    kept = connection.execute("SELECT count(*), count(attempt) FROM observations").fetchone()
    connection.close()
    assert kept == (2 * rows, rows)
    assert is_whole(path)


def test_a_journal_that_another_process_is_just_making_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ["COMMIT"])
    release.start()
    with Journal.open(path) as journal:
        assert journal.sessions() == ()
    release.join()
    other.close()


# --- what the disk refuses ----------------------------------------------------------------------


def fill(journal: Journal, session: str) -> int:
    """Records rows that do not compress until the disk is full; the number of rows recorded."""
    noise = random.Random(3)
    for attempt in range(1000):
        try:
            journal.record(session, "key", attempt, "r", seen("conv", noise.randbytes(20_000)), GOOD, 1)
        except DiskFull as error:
            assert "free some space" in error.advice
            return attempt
    raise AssertionError("the disk never was full")


def test_a_full_disk_is_named_and_what_was_recorded_is_kept(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(200_000))
    path = small_disk / "journal.sqlite3"
    with Journal.open(path) as journal:
        session = journal.start_session(REQUEST)
        rows = fill(journal, session)
        assert rows > 0
        ballast.unlink()
        assert journal.recall("key", rows) is None
        journal.record(session, "key", rows, "r", seen(), GOOD, 1)
    with Journal.open(path) as journal:
        assert all(journal.recall("key", attempt) for attempt in range(rows + 1))
    assert is_whole(path)


def test_a_disk_without_room_for_a_new_journal_is_named(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(1024 * 1024 - 4096))
    with pytest.raises(DiskFull):
        Journal.open(small_disk / "journal.sqlite3").start_session(REQUEST)


def test_a_database_that_cannot_grow_is_a_full_disk_and_the_transaction_leaves_nothing(journal: Journal) -> None:
    session = journal.start_session(REQUEST)
    journal._connection.execute("PRAGMA max_page_count = 60")
    rows = fill(journal, session)
    journal._connection.execute("PRAGMA max_page_count = 1000000")
    assert journal.recall("key", rows) is None
    assert not journal._connection.in_transaction
    journal.record(session, "key", rows, "r", seen(), GOOD, 1)
    assert all(journal.recall("key", attempt) for attempt in range(rows + 1))


def test_a_journal_on_a_read_only_disk_is_named(small_disk: Path) -> None:
    path = small_disk / "journal.sqlite3"
    Journal.open(path).close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(JournalError, match="cannot be written") as caught:
        Journal.open(path).start_session(REQUEST)
    assert "BISECT_BOT_CACHE" in caught.value.advice
    assert str(path) in str(caught.value)


def test_a_cache_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal.open(tmp_path / "cache" / "journal.sqlite3")


# --- files that are not ours --------------------------------------------------------------------


def refused(path: Path, problem: str) -> JournalError:
    """The error of opening `path`, which must stay as it is."""
    before = path.read_bytes()
    with pytest.raises(JournalError, match=problem) as caught:
        Journal.open(path)
    assert path.read_bytes() == before
    assert str(path) in str(caught.value)
    return caught.value


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    path.write_text("shopping list\n" * 100)
    assert "move the file away" in refused(path, "is not a journal").advice


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    assert "move the file away" in refused(path, "another program").advice


def test_a_journal_of_the_version_before_controls_is_read_on(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.record(journal.start_session(REQUEST), "key", 1, "1.20.1", seen(), GOOD, 1.0)
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE observations DROP COLUMN control")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    for _ in range(2):
        with Journal.open(path) as journal:
            assert journal.recall("key", 1) == (seen(), GOOD)
            assert journal.due([("key", 1)]) == [], "what was believed before stays so"
    with Journal.open(path) as journal:
        journal.record(journal.start_session(REQUEST), "key", 2, "1.20.1", seen(), GOOD, 1.0)
        assert journal.due([("key", 1), ("key", 2)]) == [("key", 2)]


def test_a_control_confirms_or_voids_what_waited_for_it(path: Path) -> None:
    with Journal.open(path) as journal:
        session = journal.start_session(REQUEST)
        for attempt in (1, 2, 3):
            journal.record(session, "key", attempt, "1.20.1", seen(), GOOD, 1.0)
        places = [("key", attempt) for attempt in (1, 2, 3)]
        assert journal.due([*places, ("key", 4), ("other", 1)]) == places
        journal.settle(places[:1], healthy=True)
        journal.settle(places[:2], healthy=False)
        assert journal.due(places) == places[2:]
        assert [journal.recall(*place) is None for place in places] == [False, True, False]
        fresh = Verdict(Outcome.BAD, "tested again")
        assert journal.record(session, "key", 2, "1.20.1", seen(), fresh, 1.0)[1] == fresh
        assert journal.recall("key", 2) == (seen(), fresh)
    connection = sqlite3.connect(path)
    kept = connection.execute("SELECT control, attempt FROM observations ORDER BY number").fetchall()
    connection.close()
    assert kept == [("healthy", 1), ("failed", None), ("due", 3), ("due", 2)], "a void row is kept for the record"


@pytest.mark.parametrize("same_process", [True, False])
@pytest.mark.parametrize("confirmed", [True, False])
def test_only_who_saw_it_can_have_it_confirmed_and_unconfirmed_it_is_unknown_elsewhere(
    path: Path, confirmed: bool, same_process: bool
) -> None:
    place, old, fresh = ("key", 1), Verdict(Outcome.BAD, "old"), Verdict(Outcome.GOOD, "fresh")
    with Journal.open(path) as first:
        earlier = first.start_session(REQUEST)
        first.record(earlier, *place, "1.20.1", seen(), old, 1.0)
        if confirmed:
            first.settle([place], healthy=True)
        first.take_back(earlier, [place])
        assert first.recall(*place) == (seen(), old), "its own session knows it in any case"
        with Journal.open(path) as second:
            journal = first if same_process else second
            # A resumed session has its old name, and is another process.
            session = journal.start_session(REQUEST) if same_process else earlier
            if not same_process:
                assert journal.due([place]) == []
                journal.settle([place], healthy=False)
                assert journal.recall(*place) == (seen(), old), "it is not for this one to settle"
            stands = journal.record(session, *place, "1.20.1", seen(), fresh, 1.0)[1]
            assert stands == (old if confirmed else fresh)
            journal.take_back(session, [place])
            assert journal.recall(*place) == (seen(), stands)
            journal.settle([place], healthy=True)
    with Journal.open(path) as third:
        third.take_back(earlier, [place])
        assert third.recall(*place) == (seen(), stands)


def test_what_waits_for_a_control_elsewhere_is_taken_back_and_kept_for_the_record(path: Path) -> None:
    with Journal.open(path) as journal:
        session = journal.start_session(REQUEST)
        journal.record(session, "key", 1, "1.20.1", seen(), GOOD, 1.0)
    with Journal.open(path) as journal:
        journal.take_back(session, [("key", 1), ("other", 1)])
        assert journal.recall("key", 1) is None
    connection = sqlite3.connect(path)
    kept = connection.execute("SELECT control, attempt FROM observations").fetchall()
    connection.close()
    assert kept == [("due", None)]


def test_a_journal_of_a_newer_version_says_to_upgrade(path: Path) -> None:
    Journal.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "upgrade" in refused(path, "newer bisect-bot").advice


def test_a_journal_with_overwritten_pages_is_named_as_damaged(path: Path) -> None:
    with Journal.open(path) as journal:
        session = journal.start_session(REQUEST)
        for attempt in range(50):
            journal.record(session, "key", attempt, "r", seen("conv", b"1" * 5000), GOOD, 1)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(JournalError, match="damaged") as caught:  # noqa: SIM117 - the opening may raise too
        with Journal.open(path) as journal:
            journal.recall("key", 1)
    assert "move the file away" in caught.value.advice
    assert path.read_bytes() == content


def test_a_row_with_altered_content_is_named_as_damaged(path: Path) -> None:
    with Journal.open(path) as journal:
        session = journal.start_session(REQUEST)
        for attempt in range(3):
            journal.record(session, "key", attempt, "r", seen("conv", b"1" * 5000), GOOD, 1)
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE tensors SET data = x'00' WHERE observation = 1")
            connection.execute("UPDATE observations SET observation = '{' WHERE number = 2")
            connection.execute("UPDATE tensors SET lengths = ? WHERE observation = 3", (json.dumps([4999]),))
        connection.close()
        for attempt in range(3):
            with pytest.raises(JournalError, match="damaged row"):
                journal.recall("key", attempt)
