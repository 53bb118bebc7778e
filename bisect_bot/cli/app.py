"""The application: the commands together, and how errors become exit statuses."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from bisect_bot import __version__, bootstrap
from bisect_bot.cli import (
    cache,
    check,
    demo,
    doctor,
    matrix,
    merge,
    minimise,
    report,
    resume,
    run,
    sessions,
    verify,
    versions,
)
from bisect_bot.cli.console import PatientConsole
from bisect_bot.errors import BisectBotError, CheckExit, Exit
from bisect_bot.reports.escaping import line

COMMANDS = {
    "demo": demo,
    "run": run,
    "check": check,
    "matrix": matrix,
    "merge": merge,
    "verify": verify,
    "minimise": minimise,
    "resume": resume,
    "sessions": sessions,
    "report": report,
    "versions": versions,
    "doctor": doctor,
    "cache": cache,
}
# What typer makes of Ctrl-C inside a command.
TYPER_INTERRUPTED = 130
CHECK_STATUS = {Exit.BUG: CheckExit.BUG, Exit.USAGE: CheckExit.USAGE, Exit.STOPPED: CheckExit.INTERRUPTED}


def make_app() -> typer.Typer:
    """The typer application with all commands."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Find the onnxruntime commit, or published build, that broke (or fixed) onnxruntime-web.",
    )
    app.callback()(_global_options)
    for module in COMMANDS.values():
        module.register(app)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit status. Every error a user can meet is one line and an advice."""
    words = list(sys.argv[1:] if argv is None else argv)
    # What the output's encoding lacks is shown as "?": a name in a table is no reason to fail.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # A supervisor's or a closing terminal's signal ends us as Ctrl-C does: with a report, and no browser left.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    is_check = bootstrap.is_check(words)
    try:
        return _run(words, is_check)
    except BaseException:
        # A closed pipe or a full disk under stdout or stderr: rich and typer leave with 1, which git reads as bad.
        if is_check:
            os._exit(CheckExit.BUG)
        raise


def _run(words: list[str], is_check: bool) -> int:
    """Runs the command that `words` name; returns its exit status."""
    try:
        # Commands end by typer.Exit, whose status is what is returned here.
        status = int(make_app()(words or ["--help"], standalone_mode=False) or 0)
        if status == TYPER_INTERRUPTED:
            raise KeyboardInterrupt
        return status if words else Exit.USAGE
    except (KeyboardInterrupt, typer.Abort):
        status = Exit.STOPPED
        complain("interrupted")
    except typer.TyperException as error:
        command = words[0] if words[0] in COMMANDS else ""
        complain(error.format_message(), " ".join(f"See: bisect-bot {command} --help".split()))
        status = Exit.USAGE
    except BisectBotError as error:
        complain(str(error), error.advice)
        status = error.exit_status
    except Exception:
        traceback.print_exc()
        complain("this is a bug of bisect-bot", "Please report it with the text above.")
        status = Exit.BUG
    return CHECK_STATUS.get(status, CheckExit.UNUSABLE) if is_check else status


def complain(problem: str, advice: str = "") -> None:
    """Prints an error on stderr as one line, and on a second one what to do."""
    console = PatientConsole(stderr=True, soft_wrap=True)
    console.print(Text("error: ", style="bold red").append(line(problem), style="default"))
    if advice:
        console.print(Text(line(advice)))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bisect-bot {__version__}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and stop.")
    ] = False,
) -> None:
    """Options before the command."""
