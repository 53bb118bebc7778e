"""Which process works on a session: one at a time, or two would test the same and count it twice."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator

from bisect_bot.errors import BisectBotError, UsageError
from bisect_bot.processes import started_at
from bisect_bot.session.journal import Journal, SessionRow

_OWNER = "owner"


@contextlib.contextmanager
def owned(journal: Journal, session: str) -> Iterator[None]:
    """Holds `session` for this process. Raises UsageError while another one of this machine works on it."""
    pid = owner_of(journal, session)
    if pid is not None:
        raise UsageError(
            f"session {session} is being worked on by the process {pid}",
            f"Wait for it, or stop it with Ctrl-C there; then: bisect-bot resume {session}",
        )
    journal.remember(_OWNER, session, [platform.node(), os.getpid(), started_at(os.getpid())])
    try:
        yield
    finally:
        # A full disk was said already; a dead owner is none.
        with contextlib.suppress(BisectBotError):
            journal.remember(_OWNER, session, None)


def owner_of(journal: Journal, session: str) -> int | None:
    """The other process of this machine that works on `session`; None where there is none (any longer)."""
    node, pid, started = journal.remembered(_OWNER, session) or ("", 0, None)
    alive = node == platform.node() and pid != os.getpid() and started is not None and started_at(pid) == started
    return int(pid) if alive else None


def latest_left(journal: Journal) -> SessionRow:
    """The latest unfinished run that nobody works on. Raises UnknownSession, and UsageError where all are taken."""
    rows = journal.unfinished_runs()
    owners = [owner_of(journal, row.id) for row in rows]
    left = next((row for row, owner in zip(rows, owners, strict=True) if owner is None), None)
    if left is not None:
        return left
    raise UsageError(
        f"session {rows[0].id} is being worked on by the process {owners[0]}",
        "There is no other unfinished session.",
    )
