"""Options that several commands share, each defined once, and the request they make."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bisect_bot.builds.eras import WISHES
from bisect_bot.errors import UsageError
from bisect_bot.model import Request

BACKENDS = ("webgpu", "wasm", "webgl")

CaseOption = Annotated[
    list[str],
    typer.Option("--case", "-c", help="Folder with model.onnx and test_data_set_*, or a .onnx model. Repeatable."),
]
TargetOption = Annotated[
    list[str], typer.Option("--target", "-t", help="Browser: chrome, or chrome:/path/to/executable.")
]
BackendOption = Annotated[
    list[str], typer.Option("--backend", "-b", help=f"Execution provider: {', '.join(BACKENDS)}. Repeatable.")
]
AdapterOption = Annotated[
    str, typer.Option(help="GPU adapter wanted: any, hardware, software, or a regex over its names.")
]
BundleOption = Annotated[str, typer.Option(help=f"Which bundle of a build is loaded: {', '.join(WISHES)}.")]
DimOption = Annotated[
    list[str], typer.Option("--dim", help="Size of a free dimension of a .onnx model, as name=size. Repeatable.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of the inputs made for a .onnx model.", min=0)]
IsolateOption = Annotated[bool, typer.Option("--isolate", help="Give every case a page of its own.")]
CaseTimeoutOption = Annotated[float, typer.Option(help="Seconds that one case may take.", min=1)]
ProbeTimeoutOption = Annotated[float, typer.Option(help="Seconds that all cases together may take.", min=1)]
BrowserArgOption = Annotated[
    list[str], typer.Option("--browser-arg", help="Extra flag for the browser, as --browser-arg=--flag. Repeatable.")
]
OutOption = Annotated[
    Path | None, typer.Option(help="Folder for report.json and report.md (default: bisect-bot-reports/SESSION).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print report.json to stdout instead of a summary.")]


def make_request(
    *,
    good: str,
    bad: str,
    case: list[str],
    target: list[str],
    backend: list[str],
    adapter: str,
    bundle: str,
    dim: list[str],
    seed: int,
    isolate: bool,
    case_timeout: float,
    probe_timeout: float,
    browser_arg: list[str],
    source: str = "auto",
    out: str | None = None,
) -> Request:
    """The request that the options mean. Raises UsageError for what cannot be meant."""
    if not case:
        raise UsageError("no case was named", "Name a folder or an .onnx model with --case.")
    unknown = [name for name in backend if name not in BACKENDS]
    if unknown:
        raise UsageError(f"unknown backend {unknown[0]!r}", f"Known backends: {', '.join(BACKENDS)}.")
    if "webgl" in backend and adapter != "any":
        raise UsageError("--adapter cannot be asked for with webgl: nothing tells which one it uses", "Leave it out.")
    if bundle not in WISHES:
        raise UsageError(f"unknown bundle {bundle!r}", f"Known bundles: {', '.join(WISHES)}.")
    try:
        re.compile(adapter)
    except re.error as error:
        raise UsageError(f"--adapter {adapter!r} is no regular expression: {error}") from error
    return Request(
        good=good,
        bad=bad,
        cases=tuple(case),
        targets=tuple(dict.fromkeys(target)),
        backends=tuple(dict.fromkeys(backend)),
        source=source,
        adapter=adapter,
        bundle=bundle,
        dims=tuple(parse_dim(text) for text in dim),
        seed=seed,
        isolate=isolate,
        case_timeout_s=case_timeout,
        probe_timeout_s=probe_timeout,
        browser_args=tuple(browser_arg),
        out=out,
    )


def parse_dim(text: str) -> tuple[str, int]:
    """`name=size` as a pair. Raises UsageError for anything else, and for sizes below 1."""
    name, _, size = text.rpartition("=")
    if not name or not re.fullmatch(r"0*[1-9][0-9]{0,17}", size):
        raise UsageError(f"--dim {text!r} is not name=size", "For example: --dim batch=1")
    return name, int(size)


def command_of(request: Request, command: str = "run") -> str:
    """The command line that asks `request` again, with every option that is not the default."""
    default = Request(good="", bad="", cases=())
    words = ["bisect-bot", command]
    words += ["--good", request.good, "--bad", request.bad] if command == "run" else [request.good]
    words += [word for case in request.cases for word in ("--case", case)]
    for option, mine, usual in (
        ("--target", request.targets, default.targets),
        ("--backend", request.backends, default.backends),
    ):
        words += [word for value in mine for word in (option, value)] if mine != usual else []
    for option, value, standard in (
        ("--source", request.source, default.source),
        ("--adapter", request.adapter, default.adapter),
        ("--bundle", request.bundle, default.bundle),
        ("--seed", request.seed, default.seed),
        ("--case-timeout", request.case_timeout_s, default.case_timeout_s),
        ("--probe-timeout", request.probe_timeout_s, default.probe_timeout_s),
    ):
        words += [option, f"{value:g}" if isinstance(value, float) else str(value)] if value != standard else []
    words += [word for name, size in request.dims for word in ("--dim", f"{name}={size}")]
    words += ["--isolate"] if request.isolate else []
    words += [f"--browser-arg={flag}" for flag in request.browser_args]
    return shlex.join(words)


def with_command(request: Request, command: str = "run") -> Request:
    """`request` with the command that asks it again."""
    return replace(request, command=command_of(request, command), kind=command)
