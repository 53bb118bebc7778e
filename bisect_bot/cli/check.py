"""`bisect-bot check`: one revision, one answer, in the exit status that `git bisect run` reads."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from bisect_bot.cli import options
from bisect_bot.cli.show import LiveView
from bisect_bot.errors import CheckExit
from bisect_bot.model import Outcome, Trial
from bisect_bot.session.run import check_request
from bisect_bot.session.workshop import open_workshop


class Expect(StrEnum):
    """On which side of the change a good verdict is expected."""

    OLD = "old"
    NEW = "new"


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("check")(options.takes(options.CaseOptions)(check))


def check(
    revision: Annotated[str, typer.Argument(help="The revision: version, commit, tag, branch or day.")],
    asked: options.CaseOptions,
    expect: Annotated[Expect, typer.Option(help="Which side of the change a good verdict means.")] = Expect.OLD,
) -> None:
    """Test one revision. Good only when every case is good.

    \b
    bisect-bot check 1.20.1 --case ./my_model_test
    bisect-bot check 1.21.0-dev.20241205-d27fecd3d3 --case model.onnx --backend wasm
    git bisect run sh -c 'bisect-bot check $(git rev-parse HEAD) --source commits --repo . --case matmul.jsonc'

    With `git bisect start --term-old=broken --term-new=fixed`, use --expect new: git reads status 0 as old.

    \b
    Exit status:
    0    good
    1    bad
    125  skip: this revision cannot answer
    128  a bug of ours              (at 128 and above `git bisect run` stops)
    129  wrong usage
    130  this machine cannot run it
    131  interrupted
    """
    request = options.with_command(
        asked.request(good=revision, bad=revision),
        "check",
    )
    with LiveView() as view, open_workshop(view) as workshop:
        trials = check_request(request, workshop)
    outcome = together(trials)
    typer.echo(outcome.value)
    raise typer.Exit(status_of(outcome, expect))


def together(trials: Sequence[Trial]) -> Outcome:
    """The outcome of all trials as one: bad when any is, else skip when any is, else good."""
    outcomes = {trial.verdict.outcome for trial in trials}
    return next(o for o in (Outcome.BAD, Outcome.SKIP, Outcome.GOOD) if o in outcomes)


def status_of(outcome: Outcome, expect: Expect) -> CheckExit:
    """The exit status of a verdict: git reads 0 as the old side, 1 as the new one."""
    if outcome is Outcome.SKIP:
        return CheckExit.SKIP
    old_side = Outcome.GOOD if expect is Expect.OLD else Outcome.BAD
    return CheckExit.GOOD if outcome is old_side else CheckExit.BAD
