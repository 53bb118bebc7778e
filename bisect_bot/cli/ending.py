"""How commands end: a report is shown and written, its result becomes the exit status."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from bisect_bot.errors import Exit
from bisect_bot.model import Report, Result
from bisect_bot.reports.files import write
from bisect_bot.reports.json_report import dumps
from bisect_bot.reports.terminal import summary

STATUS = {
    Result.FOUND: Exit.FOUND,
    Result.RANGE: Exit.RANGE,
    Result.SAME: Exit.SAME,
    Result.INCONCLUSIVE: Exit.INCONCLUSIVE,
    Result.STOPPED: Exit.STOPPED,
    Result.UNUSABLE: Exit.UNUSABLE,
    Result.TESTED: Exit.FOUND,
}
DEFAULT_OUT = "bisect-bot-reports"
SESSION = "{session}"


def out_folder(out: Path | None) -> str:
    """The folder of `--out` as an absolute path; unless told, one below the current folder by the session's name."""
    return str((out or Path(DEFAULT_OUT) / SESSION).absolute())


def finish(report: Report, out: str | None, *, as_json: bool) -> None:
    """Writes and prints `report`, and ends the command with the status of its result."""
    folder = Path((out or out_folder(None)).replace(SESSION, report.session))
    written = write(report, folder)
    if as_json:
        typer.echo(dumps(report))
    else:
        console = Console(highlight=False)
        console.print(summary(report), crop=False)
        console.print(f"report: {written[1]}", soft_wrap=True, markup=False)
    raise typer.Exit(STATUS[report.result])
