"""`bisect-bot matrix`: the table of revision × case × target × backend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bisect_bot.cli import options
from bisect_bot.cli.ending import SESSION, STATUS, out_folder, tell
from bisect_bot.cli.show import LiveView
from bisect_bot.errors import UsageError
from bisect_bot.reports.matrix import dumps, summary, write
from bisect_bot.session.matrix import matrix_request, plan
from bisect_bot.session.workshop import open_workshop


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("matrix")(options.takes(options.CaseOptions)(matrix))


def matrix(
    revisions: Annotated[
        list[str],
        typer.Argument(
            metavar="REV...",
            help="Revisions: version, commit of a build, or date; A..B is all builds of main from A to B.",
        ),
    ],
    asked: options.CaseOptions,
    out: options.OutOption = None,
    only_plan: Annotated[bool, typer.Option("--plan", help="Say what would be tested, and stop.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Test every revision with every case, target and backend, and print the table.

    A backend that a revision does not have is a skip. What this machine cannot answer is infra, and the rest goes on.
    Nothing is tested twice: the same command after Ctrl-C goes on where it was.

    \b
    bisect-bot matrix 1.18.0 1.20.1 1.30.0 --case model.onnx --backend webgpu --backend wasm
    bisect-bot matrix 1.20.1..1.22.0 --case ./my_model_test

    \b
    Exit status:
    0   the table was made, whatever it says
    13  stopped: the same command goes on
    14  this machine cannot test any of it
    2   wrong usage
    1   a bug of ours
    """
    if only_plan and as_json:
        raise UsageError("--plan has no JSON form", "Leave out --json, or --plan.")
    folder = out_folder(out)
    request = options.with_command(asked.request(revisions=tuple(revisions), out=folder), "matrix")
    with LiveView() as view, open_workshop(view) as workshop:
        if only_plan:
            for text in plan(request, workshop):
                typer.echo(text)
            typer.echo(options.AFTER_PLAN)
            return
        report = matrix_request(request, workshop)
    written = write(report, Path(folder.replace(SESSION, report.session)))
    tell(lambda: dumps(report), lambda: summary(report), written, as_json=as_json)
    raise typer.Exit(STATUS[report.result])
