"""`bisect-bot minimise`: the smallest part of a model that still fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bisect_bot.cases.anonymous import SMALL
from bisect_bot.cli import options
from bisect_bot.cli.show import LiveView
from bisect_bot.reports.escaping import line
from bisect_bot.session.minimise import Minimised, minimise
from bisect_bot.session.workshop import open_workshop


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("minimise")(options.takes(options.CaseOptions)(minimise_command))


def minimise_command(
    case: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="The failing model: an .onnx file or an ONNX test folder.")
    ],
    at: Annotated[str, typer.Option(help="A revision where it is bad: version, commit of a build, or date.")],
    asked: options.CaseOptions,
    out: Annotated[Path, typer.Option(help="Folder for the part that fails; made, or empty.")] = Path("minimised"),
) -> None:
    """Find the smallest part of a failing model, as an ONNX test folder.

    Every node runs alone first, fed with what onnxruntime on the CPU computed up to there; when none fails, the
    shortest run of nodes that does is looked for. Inputs and weights are replaced by random ones where it still fails
    with them, so that a report can be made without giving the model away.

    \b
    bisect-bot minimise model.onnx --at 1.20.1 --dim batch=1
    bisect-bot minimise ./my_test --at 1.21.0 --out ./for-the-report

    \b
    Exit status:
    0   the part was written
    2   wrong usage, or the model does not fail there
    13  stopped
    14  this machine cannot run it
    """
    request = options.with_command(replace(asked.request(good=at, bad=at), cases=tuple(case)), "minimise")
    with LiveView() as view, open_workshop(view) as workshop:
        found = minimise(request, out.expanduser().absolute(), workshop)
    for text in told(found, at, request.backends[0]):
        typer.echo(text)


def told(found: Minimised, at: str, backend: str) -> list[str]:
    """What was found, in lines."""
    count = found.last - found.first + 1
    part = f"node {found.first + 1}" if count == 1 else f"nodes {found.first + 1} to {found.last + 1}"
    lines = [
        f"{part} of {found.nodes} ({line(', '.join(found.operators))}): {line(found.verdict.reason)}",
        values(found),
    ]
    if count > 1 and count == found.nodes:
        lines.append("this is the whole model: no smaller part of it fails")
    if found.untested:
        lines.append(f"{found.untested} of its nodes could not be run alone")
    if found.others:
        lines.append(f"also failing alone: {line(', '.join(found.others))}")
    other = f" --backend {backend}" if backend != "webgpu" else ""
    return [*lines, f"written: {found.folder}", f"try it: bisect-bot check {at} --case {found.folder}{other}"]


def values(found: Minimised) -> str:
    """Whose the inputs, weights and names of the part are, in a line."""
    if not found.random:
        return "inputs, weights and names are the model's own: with random ones it does not fail"
    if found.left:
        return f"inputs and weights are random, but these are the model's own still: {line('; '.join(found.left))}"
    return (
        "inputs and weights are random and names neutral: the model's own are not needed to show it "
        f"(up to {SMALL} integers at once, such as shapes, and the operators' options stay)"
    )
