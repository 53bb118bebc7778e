"""`bisect-bot cache`: what lies in the cache, whether it is whole, and making room in it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from bisect_bot import paths
from bisect_bot.builds.disk import disk_errors
from bisect_bot.builds.housekeeping import Stock, take_stock
from bisect_bot.builds.housekeeping_check import Checked, check
from bisect_bot.builds.housekeeping_clear import Doomed, Limits, choose, remove
from bisect_bot.builds.in_use import sweep_all, used_since
from bisect_bot.cases.pin import digest_of
from bisect_bot.cli import cache_output as output
from bisect_bot.cli.console import PatientConsole, print_patiently
from bisect_bot.cli.show import LiveView
from bisect_bot.errors import Exit
from bisect_bot.session.journal import FILE_NAME, Journal, SessionState

DAY_S = 86400
JsonOption = Annotated[bool, typer.Option("--json", help="Print the same as JSON to stdout.")]


def register(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    group = typer.Typer(help="Look at, check and clear the cache.", no_args_is_help=True)
    for command in (ls, gc, verify):
        group.command()(command)
    app.add_typer(group, name="cache")


def ls(as_json: JsonOption = False) -> None:
    """List what lies in the cache: its size on disk, when it was made and last used; the largest first.

    \b
    bisect-bot cache ls
    bisect-bot cache ls --json
    """
    root = paths.cache_root()
    with LiveView() as view:
        view.doing(f"measuring {root}")
        listing = output.listing(_stock(root))
    if as_json:
        print_patiently(output.dumps(listing))
    else:
        PatientConsole().print(output.tables(listing, time.time()))


def gc(
    keep_days: Annotated[
        float | None, typer.Option(min=0, help="Remove what was not used for so many days.", metavar="N")
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(help="Remove what was not used longest, until the cache is no larger.", metavar="20GB"),
    ] = None,
    only_told: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and stop.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make room in the cache.

    Builds, pinned cases, clones, checkouts, packages and logs are removed, what was not used longest first: all of that
    can be had again. The journal and the records of builds stay, and so does what a running bisect-bot may use and what
    an unfinished session needs. Without a limit, only what nobody can use goes: what killed processes left behind.

    \b
    bisect-bot cache gc --max-size 20GB --dry-run
    bisect-bot cache gc --keep-days 30
    """
    root = paths.cache_root()
    limits = Limits(
        keep_s=None if keep_days is None else keep_days * DAY_S,
        max_bytes=None if max_size is None else output.size_of(max_size),
    )
    done: list[Doomed] = []
    with LiveView() as view:
        view.doing(f"measuring {root}")
        swept = 0 if only_told else _sweep(root)
        stock = _stock(root)
        choice = choose(stock, limits, now=time.time(), since=used_since(root), kept=_needed(root))
        try:
            for each in choice.doomed if only_told else remove(root, choice.doomed):
                view.doing(f"removing {each.entry.path.relative_to(root)}")
                done.append(each)
        finally:
            # Who types Ctrl-C, too, is told what is gone.
            report = output.cleared(stock, choice, done, swept, dry_run=only_told)
            view.say(output.freed(report))
    if as_json:
        print_patiently(output.dumps(report))
    elif report.removed:
        PatientConsole().print(output.removed(report, time.time()))


def verify(as_json: JsonOption = False) -> None:
    """Read every byte of the builds and cases in the cache, and remove what is damaged.

    What is removed is built, fetched or pinned again when it is needed. What killed processes left half made is
    removed, too.

    \b
    bisect-bot cache verify

    \b
    Exit status:
    0   everything is as it was stored
    14  something was damaged: look at this machine's disk and memory
    13  interrupted
    1   a bug of ours
    """
    root = paths.cache_root()
    bad: list[Checked] = []
    count = 0
    with LiveView() as view:
        swept = _sweep(root)
        view.doing(f"measuring {root}")
        for count, one in enumerate(check(_stock(root), digest_of), start=1):
            view.doing(f"{count} read: {one.path.relative_to(root)}")
            if one.problem:
                bad.append(one)
                view.say(output.damage(one, root))
        report = output.verified(root, count, bad, swept)
        view.say(output.verdict(report))
    if as_json:
        print_patiently(output.dumps(report))
    raise typer.Exit(Exit.UNUSABLE if bad else Exit.FOUND)


def _stock(root: Path) -> Stock:
    with disk_errors(root):
        return take_stock(root)


def _sweep(root: Path) -> int:
    with disk_errors(root):
        return sweep_all(root)


def _needed(root: Path) -> frozenset[Path]:
    """The pinned cases that sessions need which can still be gone on with: nobody else may have their files."""
    if not (root / FILE_NAME).is_file():
        return frozenset()
    with Journal.open(root / FILE_NAME) as journal:
        open_ones = [row.request for row in journal.sessions() if row.state is not SessionState.FINISHED]
    pinned = (pin for request in open_ones for pin in (*request.pinned, *request.pinned_between))
    return frozenset(root / "cases" / digest for _, digest in pinned)
