"""`bisect-bot resume`: go on with a session that was stopped or killed."""

from __future__ import annotations

from typing import Annotated

import typer

from bisect_bot.cli import options
from bisect_bot.cli.ending import finish, out_folder
from bisect_bot.cli.show import LiveView
from bisect_bot.session.run import resume_session
from bisect_bot.session.workshop import open_workshop


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("resume")(resume)


def resume(
    session: Annotated[
        str | None, typer.Argument(help="Its name or the beginning of it (default: the latest unfinished run).")
    ] = None,
    out: options.OutOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Go on with a session that was stopped: what it had finished is not done again.

    \b
    bisect-bot resume
    bisect-bot resume 20241130-1011
    """
    with LiveView() as view, open_workshop(view) as workshop:
        request, report = resume_session(session, workshop)
    finish(report, out_folder(out) if out else request.out, as_json=as_json)
