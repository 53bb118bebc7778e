"""`bisect-bot demo`: the main job on a real regression, no arguments needed."""

from __future__ import annotations

from dataclasses import replace

import typer

from bisect_bot.cli import options
from bisect_bot.cli.ending import finish, out_folder
from bisect_bot.cli.show import LiveView
from bisect_bot.model import Request
from bisect_bot.session.run import run_request
from bisect_bot.session.workshop import open_workshop

# AveragePool with ceil_mode (opset 19) went from right to wrong on WebGPU within these published builds.
DEMO = Request(good="1.20.1", bad="1.21.0", cases=("builtin:demo",), source="published")


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("demo")(demo)


def demo(out: options.OutOption = None, as_json: options.JsonOption = False) -> None:
    """Find a real regression among published builds: AveragePool with ceil_mode fails on WebGPU.

    Downloads five to seven builds (20 to 30 MB each) and needs a browser; takes a few minutes the first time.

    \b
    bisect-bot demo
    """
    request = replace(options.with_command(DEMO), out=out_folder(out))
    with LiveView() as view, open_workshop(view) as workshop:
        report = run_request(request, workshop)
    finish(report, request.out, as_json=as_json)
