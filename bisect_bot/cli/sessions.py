"""`bisect-bot sessions`: what was run here."""

from __future__ import annotations

import typer
from rich.table import Table

from bisect_bot import paths
from bisect_bot.cli.console import PatientConsole
from bisect_bot.reports.escaping import terminal
from bisect_bot.session.journal import FILE_NAME, Journal, SessionState


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("sessions")(sessions)


def sessions() -> None:
    """List the sessions in the journal, newest first.

    \b
    bisect-bot sessions
    """
    with Journal.open(paths.cache_root() / FILE_NAME) as journal:
        rows = [(row, journal.report(row.id)) for row in journal.sessions()]
    table = Table("session", "state", "result", "command", box=None, pad_edge=False)
    for row, report in rows:
        state = "unfinished" if row.state is SessionState.RUNNING else row.state.value
        table.add_row(row.id, state, report.result.value if report else "", terminal(row.request.command))
    PatientConsole().print(table if rows else "no session was run yet")
