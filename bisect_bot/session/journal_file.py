"""The file under the journal: its tables, how it is opened, and what can be wrong with it."""

from __future__ import annotations

import contextlib
import errno
import shutil
import sqlite3
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from bisect_bot.errors import BisectBotError, DiskFull, JournalError

APPLICATION_ID = 0x62_69_73_62  # "bisb": tells our files from other programs' databases
SCHEMA_VERSION = 2
BUSY_TIMEOUT_S = 30.0
OLDEST_SQLITE = (3, 37)  # the first with STRICT tables

SCHEMA = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    created REAL NOT NULL,
    version TEXT NOT NULL,
    request TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'stopped', 'failed')),
    report TEXT
) STRICT;
CREATE TABLE builds (
    number INTEGER PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id),
    revision TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    seconds REAL NOT NULL,
    reused INTEGER NOT NULL,
    created REAL NOT NULL
) STRICT;
CREATE TABLE observations (
    number INTEGER PRIMARY KEY,
    probe_key TEXT NOT NULL,
    attempt INTEGER, -- NULL: the machine could not answer, so there is nothing to recall
    session TEXT NOT NULL REFERENCES sessions (id),
    revision TEXT NOT NULL,
    observation TEXT NOT NULL,
    created REAL NOT NULL,
    seconds REAL NOT NULL,
    control TEXT NOT NULL CHECK (control IN ('due', 'healthy', 'failed')),
    UNIQUE (probe_key, attempt)
) STRICT;
CREATE TABLE tensors (
    observation INTEGER PRIMARY KEY REFERENCES observations (number),
    lengths TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE TABLE verdicts (
    observation INTEGER NOT NULL REFERENCES observations (number),
    judge INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    verdict TEXT NOT NULL,
    PRIMARY KEY (observation, judge)
) STRICT;
CREATE TABLE facts (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT;
"""
# What makes a file of the version that is named one of the next.
MIGRATIONS = {
    # Controls came with 2: what was believed before stays so.
    1: "ALTER TABLE observations ADD COLUMN control TEXT NOT NULL DEFAULT 'healthy'"
    " CHECK (control IN ('due', 'healthy', 'failed'))",
}

_MOVE_ASIDE = "move the file away to begin a new journal, or set BISECT_BOT_CACHE to another folder"
_FREE_SPACE = "free some space, or set BISECT_BOT_CACHE to a folder on another disk; what was recorded is kept"
_END_OTHER = "end the other bisect-bot, or whatever has the file open"
_CHECK_DISK = "check the disk, or set BISECT_BOT_CACHE to a folder on another one"
_PERMISSIONS = "make the file and its folder writable, or set BISECT_BOT_CACHE to a folder that is"


def connect(path: Path) -> sqlite3.Connection:
    """Opens the journal file, made when it is missing (with its folder), outside of any transaction.

    Raises JournalError for a file of another program or of a newer version; wants `named_errors` around it.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise JournalError(
            f"Python's SQLite is {sqlite3.sqlite_version}, the journal needs {'.'.join(map(str, OLDEST_SQLITE))}",
            "use a Python that comes with a newer SQLite",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        _refuse_others(path, connection)
        _configure(connection)
        _create(connection)
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_others(path: Path, connection: sqlite3.Connection) -> None:
    """Raises JournalError unless the file is empty or a journal that this version can read. Changes nothing."""
    if _is_empty(connection):
        return
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise JournalError(f"{path} is a database of another program, not a journal", _MOVE_ASIDE)
    version = _pragma(connection, "user_version")
    if version > SCHEMA_VERSION:
        raise JournalError(
            f"the journal {path} was written by a newer bisect-bot (format {version}, this one knows {SCHEMA_VERSION})",
            "upgrade bisect-bot, or set BISECT_BOT_CACHE to another folder",
        )


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    # The change to WAL does not wait for its lock as everything else does.
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _create(connection: sqlite3.Connection) -> None:
    """Makes the tables when the file is empty, all in one transaction."""
    if not _is_empty(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have made them while this one waited for the lock.
        if _is_empty(connection):
            for statement in SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _migrate(connection: sqlite3.Connection) -> None:
    """Brings a file of an older version to this one, all in one transaction."""
    if _pragma(connection, "user_version") == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        for version in range(_pragma(connection, "user_version"), SCHEMA_VERSION):
            connection.execute(MIGRATIONS[version])
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_empty(connection: sqlite3.Connection) -> bool:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    return tables == 0 and _pragma(connection, "application_id") == 0 == _pragma(connection, "user_version")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


# --- errors -------------------------------------------------------------------------------------

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def _code(error: sqlite3.Error) -> int:
    """The primary result code of an error of SQLite, without the extended part."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turns what the disk and SQLite can refuse into DiskFull and JournalError; bugs of ours pass through."""
    try:
        yield
    except sqlite3.Error as error:
        named = _named(path, error)
        if named is None:
            raise
        raise named from error
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DiskFull(f"no space is left for the journal {path}", _FREE_SPACE) from error
        raise JournalError(f"the journal {path} cannot be opened: {error.strerror}", _PERMISSIONS) from error


def _named(path: Path, error: sqlite3.Error) -> BisectBotError | None:
    code = _code(error)
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return DiskFull(f"no space is left for the journal {path}", _FREE_SPACE)
    busy = f"another process has held the journal {path} for more than {BUSY_TIMEOUT_S:.0f} s"
    unwritable = f"the journal {path} cannot be written ({error})"
    known = {
        sqlite3.SQLITE_NOTADB: (f"{path} is not a journal, or its beginning is damaged", _MOVE_ASIDE),
        sqlite3.SQLITE_CORRUPT: (f"the journal {path} is damaged ({error})", _MOVE_ASIDE),
        sqlite3.SQLITE_READONLY: (unwritable, _PERMISSIONS),
        sqlite3.SQLITE_CANTOPEN: (unwritable, _PERMISSIONS),
        sqlite3.SQLITE_PERM: (unwritable, _PERMISSIONS),
        sqlite3.SQLITE_BUSY: (busy, _END_OTHER),
        sqlite3.SQLITE_IOERR: (f"the disk failed under the journal {path} ({error})", _CHECK_DISK),
    }
    return JournalError(*known[code]) if code in known else None


def _is_full(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(path.parent).free < 1024 * 1024
    return False


@contextlib.contextmanager
def named_damage(path: Path) -> Iterator[None]:
    """Turns what undecodable content raises into JournalError."""
    try:
        yield
    except (ValueError, TypeError, StopIteration, zlib.error) as error:
        raise JournalError(f"the journal {path} holds a damaged row", _MOVE_ASIDE) from error
