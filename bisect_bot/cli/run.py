"""`bisect-bot run`: find the revision between two where the verdict changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bisect_bot.cli import options
from bisect_bot.cli.ending import finish, out_folder
from bisect_bot.cli.show import LiveView
from bisect_bot.errors import UsageError
from bisect_bot.model import Request
from bisect_bot.session.budget import seconds_of
from bisect_bot.session.planning import plan
from bisect_bot.session.replay import read_log
from bisect_bot.session.run import run_request
from bisect_bot.session.supply import COMMITS, PUBLISHED
from bisect_bot.session.workshop import open_workshop


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("run")(options.takes(options.CaseOptions)(run))


def run(
    asked: options.CaseOptions,
    good: Annotated[
        str, typer.Option(help="A revision where the case is good: version, commit, tag, branch or day.")
    ] = "",
    bad: Annotated[str, typer.Option(help="A revision where the case is bad.")] = "",
    replay: Annotated[
        Path | None,
        typer.Option(
            help="What `git bisect log` printed: its verdicts count as one answer each, and its commits are the ends "
            "where --good or --bad is left out. Searches commits. Of terms other than good/bad and fixed/broken, "
            "the older one is that of the older end.",
            rich_help_panel="Commits",
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="How sure the answer must be; else the search is inconclusive.", min=0.5, max=0.9999)
    ] = 0.95,
    flaky: Annotated[
        float,
        typer.Option(
            help="The case fails only sometimes where it is bad, at least at this rate (0.2: one run in five).",
            min=0.01,
            max=1,
        ),
    ] = 1.0,
    all_boundaries: Annotated[
        bool,
        typer.Option(
            "--all-boundaries",
            help="Histories break, mend and break again: search for every change that the tests (or the log of "
            "--replay) come across, not only for the one nearest to the new end. A search tests few revisions: where "
            "two neighbouring ones answer alike, a change and its way back between them stay unseen. Further cases, or "
            "a log, give more hints; ends that answer alike get one look in the middle.",
        ),
    ] = False,
    full_history: Annotated[
        bool,
        typer.Option(
            "--full-history",
            help="Where a merge is found, search the branch that it brought. Of ends on different branches, one is "
            "replaced by the commit where they part.",
            rich_help_panel="Commits",
        ),
    ] = False,
    budget: Annotated[str, typer.Option(help="Stop after this long, such as 30m or 8h.")] = "",
    max_builds: Annotated[int, typer.Option(help="Stop before more builds than these (0: no limit).", min=0)] = 0,
    max_probes: Annotated[int, typer.Option(help="Stop before more browser runs than these (0: no limit).", min=0)] = 0,
    no_prefetch: Annotated[
        bool,
        typer.Option(
            "--no-prefetch",
            help="Make no builds ahead while the browser runs: for machines whose timings count.",
        ),
    ] = False,
    out: options.OutOption = None,
    only_plan: Annotated[bool, typer.Option("--plan", help="Say what would be searched, and stop.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Find the revision that broke (or fixed) a case.

    Which end is older follows from history, and whether it is a regression or a fix from what is seen there.

    \b
    bisect-bot run --good 1.20.1 --bad 1.21.0 --case ./my_model_test
    bisect-bot run --bad 1.20.1 --good 1.30.0 --case model.onnx --dim batch=1
    bisect-bot run --good 1.20.1 --bad 2025-02-06 --case a/ --case b/
    bisect-bot run --repo ~/onnxruntime --bad 6a295eb75b --good d3ad76b2cf --case matmul.jsonc
    bisect-bot run --repo ~/onnxruntime --replay bisect.log --case matmul.jsonc

    \b
    Exit status:
    0   the boundary was found
    10  narrowed to a range: the rest cannot be tested
    11  the two ends do not differ
    12  inconclusive
    13  stopped, or out of budget: go on with `bisect-bot resume`
    14  this machine cannot run it
    2   wrong usage
    1   a bug of ours
    """
    limits = {"budget_s": seconds_of(budget) if budget else 0.0, "max_builds": max_builds, "max_probes": max_probes}
    request = asked.request(good=good, bad=bad, out=out_folder(out), confidence=confidence, rarest=flaky, **limits)
    request = replace(request, all_boundaries=all_boundaries, prefetch=not no_prefetch, full_history=full_history)
    request = options.with_command(_with_log(request, replay))
    if only_plan and as_json:
        raise UsageError("--plan has no JSON form", "Leave out --json, or --plan.")
    with LiveView() as view, open_workshop(view) as workshop:
        if only_plan:
            for text in plan(request, workshop):
                typer.echo(text)
            typer.echo(options.AFTER_PLAN)
            return
        report = run_request(request, workshop)
    finish(report, request.out, as_json=as_json)


def _with_log(request: Request, log: Path | None) -> Request:
    """`request` with the verdicts of the bisect log in the file `log`, and the ends of it that were not named.

    Raises UsageError.
    """
    if log is None:
        lacking = [option for option, said in (("--good", request.good), ("--bad", request.bad)) if not said]
        if lacking:
            raise UsageError(f"{lacking[0]} is missing", "Name a good and a bad revision, or a log with --replay.")
        return request
    if request.source == PUBLISHED:
        raise UsageError("--replay is for commits: a published build has none of its verdicts", "Leave out --source.")
    bisection = read_log(log)
    good, bad = (said or own for said, own in zip((request.good, request.bad), bisection.ends(), strict=True))
    for option, end in (("--good", good), ("--bad", bad)):
        if not end:
            raise UsageError(f"--replay {log}: the log has no commit for {option}", f"Name one with {option}.")
    marks = bisection.verdicts()
    return replace(request, good=good, bad=bad, source=COMMITS, replay=marks, replay_file=str(log))
