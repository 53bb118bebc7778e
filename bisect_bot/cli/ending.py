"""How commands end: a report is shown and written, its result becomes the exit status."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import typer
from rich.console import RenderableType

from bisect_bot.cli.console import PatientConsole, print_patiently
from bisect_bot.errors import Exit, UsageError
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
    """The folder of `--out` as an absolute path; unless told, one below the current folder by the session's name.

    Raises UsageError when nothing could be written there: better now than after the search.
    """
    folder = (out or Path(DEFAULT_OUT) / SESSION).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"no reports can be written to {folder}: {there} is not writable", "Name another --out.")
    return str(folder)


def finish(report: Report, out: str | None, *, as_json: bool) -> None:
    """Writes and prints `report`, and ends the command with the status of its result."""
    folder = Path((out or out_folder(None)).replace(SESSION, report.session))
    written = write(report, folder)
    tell(lambda: dumps(report), lambda: summary(report), written[1], as_json=as_json)
    raise typer.Exit(STATUS[report.result])


def tell(text: Callable[[], str], shown: Callable[[], RenderableType], written: Path | str, *, as_json: bool) -> None:
    """Prints what was written: the JSON `text`, or what is `shown` of it and the path of the file for people."""
    if as_json:
        print_patiently(text().rstrip("\n"))
    else:
        console = PatientConsole()
        console.print(shown(), crop=False)
        console.print(f"report: {written}", soft_wrap=True, markup=False)
