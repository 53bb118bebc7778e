"""`bisect-bot report`: print the report of a session again."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from bisect_bot import paths
from bisect_bot.errors import UnknownSession, UsageError
from bisect_bot.reports import matrix
from bisect_bot.reports.gitlog import to_gitlog
from bisect_bot.reports.html_report import to_html
from bisect_bot.reports.json_report import dumps
from bisect_bot.reports.junit import matrix_to_junit, to_junit
from bisect_bot.reports.markdown import to_markdown
from bisect_bot.session.journal import FILE_NAME, Journal


class Format(StrEnum):
    """The forms a report can take."""

    MD = "md"
    HTML = "html"
    JSON = "json"
    JUNIT = "junit"
    GITLOG = "gitlog"


# The kinds of sessions that make a report of their own.
REPORTED = ("run", "matrix")
WRITERS = {
    Format.MD: to_markdown,
    Format.HTML: to_html,
    Format.JSON: dumps,
    Format.JUNIT: to_junit,
    Format.GITLOG: to_gitlog,
}
MATRIX_WRITERS = {
    Format.MD: matrix.to_markdown,
    Format.HTML: matrix.to_html,
    Format.JSON: matrix.dumps,
    Format.JUNIT: matrix_to_junit,
}


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("report")(report)


def report(
    session: Annotated[
        str | None, typer.Argument(help="Its name or the beginning of it (default: the latest run or matrix).")
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="Form of the report.")] = Format.MD,
    case: Annotated[
        str, typer.Option(help="With gitlog: the case whose log it is (default: the first; git replays one at a time).")
    ] = "",
) -> None:
    """Print the report of a session.

    \b
    bisect-bot report
    bisect-bot report 20241130-1011 --format json
    bisect-bot report --format html > report.html
    bisect-bot report --format junit > junit.xml
    bisect-bot report --format gitlog --case conv > bisect.log
    """
    with Journal.open(paths.cache_root() / FILE_NAME) as journal:
        row = journal.session(session) if session else journal.latest_of(*REPORTED)
        found = journal.report(row.id)
    if found is None:
        again = {"run": f"bisect-bot resume {row.id}", "matrix": row.request.command}.get(row.request.kind)
        advice = f"Go on with it: {again}" if again else "A check has none."
        raise UnknownSession(f"session {row.id} has no report", advice)
    writers = MATRIX_WRITERS if row.request.kind == "matrix" else WRITERS
    if format_ not in writers:
        raise UsageError(f"a {row.request.kind} has no form {format_}", f"Forms: {', '.join(writers)}.")
    if case and format_ is not Format.GITLOG:
        raise UsageError(f"--case is for gitlog: the form {format_} has all cases", "Leave it out.")
    typer.echo(to_gitlog(found, case) if case else writers[format_](found))
