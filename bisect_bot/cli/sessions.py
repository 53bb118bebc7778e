"""`bisect-bot sessions`: what was run here."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from bisect_bot import paths
from bisect_bot.reports.escaping import terminal
from bisect_bot.session.journal import FILE_NAME, Journal


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("sessions")(sessions)


def sessions() -> None:
    """List the sessions in the journal, newest first.

    \b
    bisect-bot sessions
    """
    with Journal.open(paths.cache_root() / FILE_NAME) as journal:
        rows = journal.sessions()
    table = Table("session", "started", "state", "command", box=None)
    for row in rows:
        started = row.created.astimezone().strftime("%Y-%m-%d %H:%M")
        table.add_row(row.id, started, row.state.value, terminal(row.request.command))
    Console(highlight=False).print(table if rows else "no session was run yet")
