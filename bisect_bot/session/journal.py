"""The journal: every build, observation and verdict, on disk before it is used.

One SQLite file that several processes may write at once. A commit is one transaction, synced to the disk
before the call returns: a kill at any instant loses at most the action in flight. Rows are only added; what
changes is the state of a session, a remembered fact, and whether a control stood by an observation.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import secrets
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter

from bisect_bot import __version__
from bisect_bot.errors import UnknownSession
from bisect_bot.model import Observation, Outcome, Report, Request, Verdict
from bisect_bot.session.journal_content import restore, strip
from bisect_bot.session.journal_file import connect, named_damage, named_errors

T = TypeVar("T")

FILE_NAME = "journal.sqlite3"
MAX_TENSOR_BYTES = 4 * 1024 * 1024

REQUEST = TypeAdapter(Request)
REPORT = TypeAdapter(Report)
OBSERVATION = TypeAdapter(Observation)
VERDICT = TypeAdapter(Verdict)


# A verdict's place: its key and the how-manyeth of that key.
Place = tuple[str, int]


class Control(StrEnum):
    """What the control that came after an observation said of the machine."""

    DUE = "due"  # none came yet
    HEALTHY = "healthy"
    FAILED = "failed"


class SessionState(StrEnum):
    """How a session stands. All but `finished` can be taken up again."""

    RUNNING = "running"  # or its process was killed
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as the journal lists it; `version` is the tool's that began it."""

    id: str
    created: dt.datetime
    version: str
    state: SessionState
    request: Request


class Journal:
    """An open journal. Use it as a context manager, and in the thread that opened it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        # What was recorded through this opening of the file: session and row, by place.
        self._own: dict[Place, tuple[str, int]] = {}

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens the journal at `path`, made when it is missing (with its folder).

        Raises JournalError when the file is not a journal, is corrupt, cannot be written, or comes from a
        newer version of the tool (it is never changed then), and DiskFull.
        """
        with named_errors(path):
            return cls(path, connect(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; what was recorded is already on the disk."""
        self._connection.close()

    # --- sessions -------------------------------------------------------------------------------

    def start_session(self, request: Request) -> str:
        """Records a new running session and returns its id, such as `20241130-101112-ab12` (in UTC)."""
        now = dt.datetime.now(dt.UTC)
        while True:
            session = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
            row = (session, now.timestamp(), __version__, _dump(REQUEST, request), SessionState.RUNNING)
            with self._transaction() as sql:
                added = sql.execute(
                    "INSERT INTO sessions (id, created, version, request, state) VALUES (?, ?, ?, ?, ?)"
                    " ON CONFLICT (id) DO NOTHING",
                    row,
                ).rowcount
            if added:
                return session

    def finish_session(self, session: str, state: SessionState, report: Report | None = None) -> None:
        """Records how `session` ended. A `report` of None keeps an earlier one. Raises UnknownSession."""
        with self._transaction() as sql:
            changed = sql.execute(
                "UPDATE sessions SET state = ?, report = coalesce(?, report) WHERE id = ?",
                (SessionState(state), None if report is None else _dump(REPORT, report), session),
            ).rowcount
        if not changed:
            raise self._unknown(f"there is no session {session!r}")

    def sessions(self) -> tuple[SessionRow, ...]:
        """All sessions, newest first."""
        rows = self._all("SELECT id, created, version, state, request FROM sessions ORDER BY number DESC")
        return tuple(self._session_row(*row) for row in rows)

    def unfinished_runs(self) -> tuple[SessionRow, ...]:
        """The runs that can be gone on with, newest first, at least one. Raises UnknownSession."""
        found = [row for row in self.sessions() if row.state is not SessionState.FINISHED and row.request.kind == "run"]
        if not found:
            raise self._unknown("there is no unfinished session")
        return tuple(found)

    def session(self, name: str | None = None) -> SessionRow:
        """The session with the id `name`, or the only one whose id begins so; None: the latest unfinished run.

        Raises UnknownSession, with the known sessions as advice, when there is none or more than one.
        """
        if name is None:
            return self.unfinished_runs()[0]
        known = self.sessions()
        found = [row for row in known if row.id == name] or [row for row in known if name and row.id.startswith(name)]
        if len(found) != 1:
            problem = f"{name!r} names {len(found)} sessions" if found else f"there is no session {name!r}"
            raise self._unknown(problem)
        return found[0]

    def latest_of(self, *kinds: str) -> SessionRow:
        """The latest session of one of these kinds of request, in any state. Raises UnknownSession."""
        found = next((row for row in self.sessions() if row.request.kind in kinds), None)
        if found is None:
            raise self._unknown(f"there is no {' and no '.join(kinds)}")
        return found

    def report(self, name: str | None) -> Report | None:
        """The report of a session, named as for `session`, or None while it has none. Raises UnknownSession."""
        query = "SELECT report FROM sessions WHERE id = ?"
        # A whole id needs no look at the other sessions.
        rows = self._all(query, name) or self._all(query, self.session(name).id)
        text = rows[0][0]
        return None if text is None else self._load(REPORT, text)

    # --- what was made and seen -----------------------------------------------------------------

    def record_build(self, session: str, revision: str, key: str, digest: str, seconds: float, *, reused: bool) -> None:
        """Records that `revision` became the artifact `digest` after `seconds`, or was taken from the cache."""
        row = (session, revision, key, digest, seconds, int(reused), time.time())
        with self._transaction() as sql:
            sql.execute(
                "INSERT INTO builds (session, revision, key, digest, seconds, reused, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def record(
        self,
        session: str,
        probe_key: str,
        attempt: int | None,
        revision: str,
        observation: Observation,
        verdict: Verdict,
        seconds: float,
        judge: int = 1,
    ) -> tuple[Observation, Verdict]:
        """Records one probe and its verdict, and returns what now stands for (`probe_key`, `attempt`).

        That is the given pair, unless there is one that a control confirmed or that `session` itself recorded here
        before: then that one stands and this one is dropped. One that waits for a control elsewhere gives way.
        An `infra` verdict, and one with the attempt None, is kept for the record but never recalled. `judge` is the
        version of the rules that gave the verdict. Tensors of more than 4 MiB together are kept without their data.
        """
        stripped, data = strip(observation)
        recallable = None if verdict.outcome is Outcome.INFRA else attempt
        row = (
            probe_key,
            recallable,
            session,
            revision,
            _dump(OBSERVATION, stripped),
            time.time(),
            seconds,
            Control.DUE,
        )
        judged = (judge, verdict.outcome, _dump(VERDICT, verdict))
        kept = bool(data) and sum(map(len, data)) <= MAX_TENSOR_BYTES
        # Compressed before the transaction: others wait for the lock.
        tensors = (json.dumps([len(piece) for piece in data]), zlib.compress(b"".join(data))) if kept else None
        with self._transaction() as sql:
            if recallable is not None:
                self._give_way(sql, session, (probe_key, recallable))
            cursor = sql.execute(
                "INSERT INTO observations"
                " (probe_key, attempt, session, revision, observation, created, seconds, control)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (probe_key, attempt) DO NOTHING",
                row,
            )
            if cursor.rowcount:
                number = cursor.lastrowid
                sql.execute(
                    "INSERT INTO verdicts (observation, judge, outcome, verdict) VALUES (?, ?, ?, ?)",
                    (number, *judged),
                )
                if tensors:
                    sql.execute("INSERT INTO tensors (observation, lengths, data) VALUES (?, ?, ?)", (number, *tensors))
        if cursor.rowcount:
            assert number is not None, "a row that was added has a number"
            if recallable is not None:
                self._own[probe_key, recallable] = (session, number)
            return observation, verdict
        assert attempt is not None, "nothing conflicts with a row that is never recalled"
        # Another process may have taken its place back by now.
        return self.recall(probe_key, attempt) or (observation, verdict)

    def recall(self, probe_key: str, attempt: int) -> tuple[Observation, Verdict] | None:
        """What was observed and judged (by the newest judge) at that attempt, or None.

        Where the tensors were too large to keep, those of the observation have no data, and `array()` of them
        raises ValueError. Raises JournalError when the row is damaged.
        """
        rows = self._all(
            "SELECT observation_row.observation, verdict, lengths, data FROM observations AS observation_row"
            " JOIN verdicts ON verdicts.observation = number"
            " LEFT JOIN tensors ON tensors.observation = number"
            " WHERE probe_key = ? AND attempt = ? ORDER BY judge DESC LIMIT 1",
            probe_key,
            attempt,
        )
        if not rows:
            return None
        stripped, verdict, lengths, blob = rows[0]
        observation = self._load(OBSERVATION, stripped)
        if blob is not None:
            with named_damage(self.path):
                observation = restore(observation, json.loads(lengths), zlib.decompress(blob))
        return observation, self._load(VERDICT, verdict)

    def recorded_by(self, probe_key: str, attempt: int) -> str | None:
        """The session that recorded what is recalled for that attempt; None where nothing is."""
        rows = self._all("SELECT session FROM observations WHERE probe_key = ? AND attempt = ?", probe_key, attempt)
        return rows[0][0] if rows else None

    def due(self, places: Iterable[Place]) -> list[Place]:
        """Those of `places` that were recorded here, and whose verdict no control has confirmed yet."""
        query = "SELECT 1 FROM observations WHERE number = ? AND attempt = ? AND control = ?"
        own = [place for place in places if place in self._own]
        return [place for place in own if self._all(query, self._own[place][1], place[1], Control.DUE)]

    def take_back(self, session: str, places: Iterable[Place]) -> None:
        """Makes those of `places` unknown that still wait for a control, and were not recorded by `session` here.

        Only who saw them could say later that the machine was healthy then; they are kept for the record.
        """
        query = "SELECT number FROM observations WHERE probe_key = ? AND attempt = ? AND control = ?"
        for place in places:
            waiting = [number for (number,) in self._all(query, *place, Control.DUE)]
            if any(self._own.get(place) != (session, number) for number in waiting):
                with self._transaction() as sql:
                    self._give_way(sql, session, place)

    def settle(self, places: Iterable[Place], *, healthy: bool) -> None:
        """Records what a control said of the verdicts at `places` that were recorded here and waited for one.

        Those of a machine that was not healthy are kept for the record, and never recalled again.
        """
        change = "control = ?" if healthy else "attempt = NULL, control = ?"
        said = Control.HEALTHY if healthy else Control.FAILED
        own = [self._own[place][1] for place in places if place in self._own]
        with self._transaction() as sql:
            sql.executemany(
                f"UPDATE observations SET {change} WHERE number = ? AND control = ?",
                [(said, number, Control.DUE) for number in own],
            )

    def _give_way(self, sql: sqlite3.Connection, session: str, place: Place) -> None:
        owner, number = self._own.get(place, ("", -1))
        sql.execute(
            "UPDATE observations SET attempt = NULL"
            " WHERE probe_key = ? AND attempt = ? AND control = ? AND number != ?",
            (*place, Control.DUE, number if owner == session else -1),
        )

    # --- small facts about this machine ---------------------------------------------------------

    def remember(self, kind: str, key: str, value: Any) -> None:
        """Keeps `value` (anything that JSON can hold) under (`kind`, `key`), in place of an earlier one."""
        with self._transaction() as sql:
            sql.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (kind, key, json.dumps(value)))

    def remembered(self, kind: str, key: str) -> Any:
        """The value last kept under (`kind`, `key`), or None."""
        rows = self._all("SELECT value FROM facts WHERE kind = ? AND key = ?", kind, key)
        with named_damage(self.path):
            return json.loads(rows[0][0]) if rows else None

    # --- the file -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its start, so that it cannot fail half-way for a lock."""
        with named_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                # SQLite has rolled back by itself after some errors, such as a full disk.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _all(self, query: str, *values: object) -> list[Any]:
        with named_errors(self.path):
            return self._connection.execute(query, values).fetchall()

    def _load(self, kind: TypeAdapter[T], text: str) -> T:
        with named_damage(self.path):
            return kind.validate_python(json.loads(text))

    def _session_row(self, name: str, created: float, version: str, state: str, request: str) -> SessionRow:
        when = dt.datetime.fromtimestamp(created, dt.UTC)
        return SessionRow(name, when, version, SessionState(state), self._load(REQUEST, request))

    def _unknown(self, problem: str) -> UnknownSession:
        rows = self._all("SELECT id, state FROM sessions ORDER BY number DESC LIMIT 10")
        listed = ", ".join(f"{name} ({state})" for name, state in rows)
        return UnknownSession(problem, f"known sessions, newest first: {listed}" if rows else "no session was run yet")


def _dump(kind: TypeAdapter[T], value: T) -> str:
    """`value`, one of the model's dataclasses, as ASCII JSON.

    json rather than pydantic writes the text: it keeps NaN, the infinities, and the lone surrogates that a
    page's messages may hold.
    """
    return json.dumps(kind.dump_python(value, mode="json"))
