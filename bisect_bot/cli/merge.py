"""`bisect-bot merge`: the reports of several machines as one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bisect_bot.cli.ending import DEFAULT_OUT, out_folder, tell
from bisect_bot.reports.files import write_texts
from bisect_bot.reports.gathered import gather
from bisect_bot.reports.merge_junit import to_junit
from bisect_bot.reports.merge_texts import dumps, summary, write
from bisect_bot.reports.merging import merge

FOLDER = Path(DEFAULT_OUT) / "merge"


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("merge")(merge_reports)


def merge_reports(
    reports: Annotated[
        list[Path], typer.Argument(metavar="REPORT.json...", help="The report.json of a matrix or a run, one or more.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder for the table (default: bisect-bot-reports/merge).")] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the table as JUnit XML to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print merge.json to stdout instead of a summary.")] = False,
) -> None:
    """Make one table of the reports of several machines, and say for which cases their environments differ.

    An environment is a browser with its GPU adapter, on one system: a computer may have several.

    Cases are the same when their content is: one name with two contents is told apart. The session of a report is
    counted once. Nothing in the reports is run.

    \b
    bisect-bot merge office/report.json lab/report.json
    bisect-bot merge */report.json --out ./all

    \b
    Exit status:
    0   the table was made, whatever it says
    2   wrong usage, or no report
    1   a bug of ours
    """
    folder = Path(out_folder(out or FOLDER))
    merged = merge([gather(path) for path in reports])
    if junit is not None:
        write_texts({junit.name: to_junit(merged)}, junit.absolute().parent, "the same command")
    tell(lambda: dumps(merged), lambda: summary(merged), write(merged, folder), as_json=as_json)
