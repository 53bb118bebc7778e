"""`bisect-bot doctor`: what works on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bisect_bot.cli.console import PatientConsole
from bisect_bot.cli.show import LiveView
from bisect_bot.doctor import Examination, State, examine
from bisect_bot.doctor.compared import Keep, nothing_kept
from bisect_bot.errors import DiskFull, Exit, JournalError
from bisect_bot.model import Target
from bisect_bot.paths import cache_root
from bisect_bot.reports.escaping import terminal
from bisect_bot.session.adapters import AdapterMemory
from bisect_bot.session.journal import FILE_NAME, Journal
from bisect_bot.targets.browsers import Browser, load_config

STYLES = {State.OK: "green", State.WARNING: "yellow", State.MISSING: "red"}


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("doctor")(doctor)


def doctor(
    target: Annotated[
        list[str] | None,
        typer.Option(help="Browser to look at instead of all that are found, as in other commands; several times."),
    ] = None,
    repo: Annotated[Path | None, typer.Option(help="Clone of onnxruntime to look at too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Look at browsers, adapters, programs and disks, and say what works here.

    Starts each browser once for each set of flags; installs nothing. Which flags give which adapter is remembered for
    the next search.

    \b
    bisect-bot doctor
    bisect-bot doctor --repo ~/onnxruntime --json
    bisect-bot doctor --target chrome --target chrome:canary

    \b
    Exit status:
    0   the main job can run here
    14  it cannot: something that it needs is missing
    2   wrong usage
    1   a bug of ours
    """
    with LiveView() as view, _memory() as keep:
        found = examine(repo, view.doing, target or (), keep)
    if as_json:
        typer.echo(found.model_dump_json(indent=2, by_alias=True, ensure_ascii=True))
    else:
        PatientConsole().print(shown(found))
    raise typer.Exit(Exit.FOUND if found.ready else Exit.UNUSABLE)


@contextmanager
def _memory() -> Iterator[Keep]:
    """What remembers the adapters that were found, in the cache; nothing where that cannot be written."""
    cache = cache_root()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        opened = Journal.open(cache / FILE_NAME)
    except (JournalError, DiskFull, OSError):
        yield nothing_kept
        return
    with opened as journal:
        memory = AdapterMemory(journal, load_config())

        def keep(browser: Browser, gave: Mapping[str, Target]) -> tuple[str, ...]:
            try:
                return memory.learn(browser, gave)
            except (JournalError, DiskFull):
                return ()

        yield keep


def shown(found: Examination) -> RenderableType:
    """What was found in a form that rich prints: a line for each, with what it means, and what to do about it."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for item in found.items:
        told = terminal(item.value).append("  ").append(terminal(f"({item.means})", "dim"))
        if item.do:
            told.append("\n→ ").append(terminal(item.do))
        table.add_row(Text(item.state.value, style=STYLES[item.state]), terminal(item.key), told)
    lacking = [item.key for item in found.items if item.needed and item.state is State.MISSING]
    style = "bold green" if found.ready else "bold red"
    answer = "The main job can run here." if found.ready else f"The main job cannot run here: {', '.join(lacking)}."
    return Group(table, terminal(answer, style))
