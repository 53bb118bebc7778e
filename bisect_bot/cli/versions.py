"""`bisect-bot versions`: the published builds and their place in upstream's history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from bisect_bot import paths
from bisect_bot.builds import published
from bisect_bot.builds.disk import disk_errors, write_whole
from bisect_bot.builds.npm import Npm, listing
from bisect_bot.cli.console import PatientConsole
from bisect_bot.errors import BuildUnusable, UsageError
from bisect_bot.history import ancestry, load_ancestry, order_revisions
from bisect_bot.history.known import How, Known, dump, merge
from bisect_bot.history.published import named_commit
from bisect_bot.model import Revision
from bisect_bot.reports.escaping import line, shorten, terminal

DATA_FILE = "published.toml"
WIDE = 200
LEGEND = Text(
    "In the order of versions. main: built from a commit of main. beside: from a release or side branch that left\n"
    "main at that commit; ≈ marks what was worked out from the sources. unknown: the commit was in no clone looked at."
)


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("versions")(versions)


def versions(
    repo: Annotated[
        Path | None, typer.Option(help="A clone of onnxruntime: says more of builds that this tool does not know yet.")
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="With --repo: fetch what is needed and update configs/published.toml.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list to stdout instead of a table.")] = False,
) -> None:
    """List the published builds with commit, date and place in history, oldest first.

    \b
    bisect-bot versions
    bisect-bot versions --repo ~/src/onnxruntime --json
    """
    if save and (repo is None or paths.checkout() is None):
        raise UsageError(
            "--save updates the data that ships with bisect-bot, from a clone of onnxruntime.",
            "Run it in a checkout of bisect-bot, with --repo CLONE.",
        )
    errors = PatientConsole(stderr=True, soft_wrap=True)
    cache = paths.cache_root()
    listed = listing(None, cache)
    if listed.warning:
        errors.print(terminal(f"warning: {listed.warning}"))
    known = load_ancestry()
    if repo is not None:
        known = merge(known, look_up(repo, listed.versions, cache, errors if save else None))
    builds = order_revisions(listed.versions, known)
    if save:
        _save(known)
    if as_json:
        typer.echo(json.dumps([as_row(build, known.get(build.id)) for build in builds], indent=1))
    else:
        # A pipe has no width: titles are then written out.
        console = PatientConsole()
        console.width = console.width if console.is_terminal else WIDE
        console.print(_table(builds, known, console.width))
        console.print(LEGEND)


def look_up(repo: Path, names: Sequence[str], cache: Path, fetching: PatientConsole | None) -> tuple[Known, ...]:
    """The place of the builds `names` in the clone `repo`.

    With a console to say so on, fetches the packages of those whose commit the clone lacks, to compare their
    sources; without, only packages in the folder `cache` are looked into. Raises UsageError, NpmError, DiskFull.
    """
    found = ancestry.find(repo, [_evidence(name, cache) for name in names])
    lacking = [known.version for known in found if known.how is not How.COMMIT]
    if fetching is None or not lacking:
        return found
    npm = Npm.find()
    for number, name in enumerate(lacking, start=1):
        fetching.print(Text(f"{number}/{len(lacking)}: looking into the package of {line(name)}"))
        try:
            published.fetch(name, cache=cache, npm=npm)
        except BuildUnusable as error:
            fetching.print(terminal(f"{name} is left out: {error}"))
    return ancestry.find(repo, [_evidence(name, cache) for name in names])


def as_row(build: Revision, known: Known | None) -> dict[str, object]:
    """One build as the JSON list has it."""
    return {
        "version": build.version,
        "commit": build.commit,
        "date": build.date.isoformat() if build.date else None,
        "title": build.title,
        "on_main": build.on_main,
        "main_ancestor": build.main_ancestor,
        "how": known.how.value if known else How.NONE.value,
    }


def _evidence(name: str, cache: Path) -> ancestry.Evidence:
    commit, date = named_commit(name)
    record = published.record(name, cache)
    if record is None:
        return ancestry.Evidence(name, commit, date)
    return ancestry.Evidence(name, record.declared_commit or record.commit or commit, date, record.sources)


def _save(known: dict[str, Known]) -> None:
    path = paths.config_file(DATA_FILE)
    in_order = [known[build.id] for build in order_revisions(known, known)]
    with disk_errors(path.parent):
        write_whole(path, dump(in_order))


def _table(builds: Sequence[Revision], known: dict[str, Known], width: int) -> Table:
    rows = [
        (
            line(build.id),
            (build.commit or "")[:10],
            day_of(build, known.get(build.id)),
            place_of(build, known.get(build.id)),
        )
        for build in builds
    ]
    headings = ("version", "commit", "date", "place")
    # Where the terminal is narrow, the title alone gives way.
    taken = sum(max(len(row[column]) + 1 for row in (headings, *rows)) for column in range(len(headings)))
    table = Table(*headings, "title", box=None, padding=(0, 1, 0, 0))
    for build, row in zip(builds, rows, strict=True):
        title = shorten(line(build.title or ""), max(width - taken - 1, len("title")))
        table.add_row(*(Text(cell, no_wrap=True) for cell in (*row, title)))
    return table


def place_of(build: Revision, known: Known | None) -> str:
    """Where a build lies, in a few words: `main`, or beside which commit of it; `≈` when found by its sources."""
    if build.on_main:
        return "main"
    if build.main_ancestor is None or known is None:
        return "not on main" if build.on_main is False else "unknown"
    near = "≈" if known.how is How.SOURCES else ""
    return f"beside {near}{build.main_ancestor[:10]}"


def day_of(build: Revision, known: Known | None) -> str:
    """The day of a build's commit, or `≈` and that of the commit of main it is beside."""
    if build.date is not None or known is None or known.ancestor_date is None:
        return str(build.date or "")
    return f"≈{known.ancestor_date}"
