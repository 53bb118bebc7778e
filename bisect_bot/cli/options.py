"""Options that several commands share, each defined once, and the request they make."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import shlex
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bisect_bot.builds.eras import WISHES
from bisect_bot.errors import UsageError
from bisect_bot.model import Request

BACKENDS = ("webgpu", "wasm", "webgl")
AGAINST = ("reference", "wasm", "good-end")
SOURCES = ("auto", "published", "commits")
DRIVERS = ("harness", "upstream")
INITIAL_STATES = ("given", "zeros", "dynamic")
ASKED = "asked"
AFTER_PLAN = "nothing was done for this plan; to start it: the same command without --plan"

_PLAN = "Run the same case more than once"
_JUDGING = "What counts as failing"
_INPUTS = "Inputs and outputs"
_MACHINE = "Browser and machine"
_COMMITS = "Commits"

OutOption = Annotated[Path | None, typer.Option(help="Folder for the reports (default: bisect-bot-reports/SESSION).")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print report.json to stdout instead of a summary.")]


@dataclass(frozen=True)
class CaseOptions:
    """What is run, how, and what counts as failing: the options of every command that tests something."""

    case: Annotated[
        list[str],
        typer.Option(
            "--case",
            "-c",
            help="What must hold: a folder with model.onnx and test_data_set_*, a .zip of such, a .onnx model, an op "
            "manifest (x.jsonc or x.jsonc#case name), REV:path/x.jsonc of --repo, suite-test-list.jsonc, a repro.mjs, "
            "or a pattern such as 'tests/*.onnx'. Repeatable.",
        ),
    ]
    target: Annotated[
        list[str],
        typer.Option(
            "--target",
            "-t",
            help="Browser: chrome, edge, electron, electron:28, chrome:canary, NAME:/path/to/executable. Repeatable.",
        ),
    ] = field(default_factory=lambda: ["chrome"])
    backend: Annotated[
        list[str], typer.Option("--backend", "-b", help=f"Execution provider: {', '.join(BACKENDS)}. Repeatable.")
    ] = field(default_factory=lambda: ["webgpu"])
    bundle: Annotated[
        str, typer.Option(help=f"Which bundle of a build is loaded: {', '.join(WISHES)}.", rich_help_panel=_MACHINE)
    ] = "default"
    adapter: Annotated[
        str,
        typer.Option(
            help="GPU adapter wanted: any, hardware, software, or a regex over its names.", rich_help_panel=_MACHINE
        ),
    ] = "any"
    browser_arg: Annotated[
        list[str],
        typer.Option(
            "--browser-arg",
            help="Extra flag for the browser, as --browser-arg=--flag. Repeatable.",
            rich_help_panel=_MACHINE,
        ),
    ] = field(default_factory=list)
    case_timeout: Annotated[
        float, typer.Option(help="Seconds that one case may take.", min=1, rich_help_panel=_MACHINE)
    ] = 60.0
    probe_timeout: Annotated[
        float, typer.Option(help="Seconds that all cases together may take.", min=1, rich_help_panel=_MACHINE)
    ] = 600.0
    repo: Annotated[
        str | None,
        typer.Option(
            help="Clone of onnxruntime, a folder or an address: its commits can be named, and are searched after the "
            "published builds; REV:path in --case is read from it. It is only read.",
            rich_help_panel=_COMMITS,
        ),
    ] = None
    source: Annotated[
        str,
        typer.Option(
            help=f"What a revision is: {', '.join(SOURCES)} (auto: a published build, else a commit of --repo).",
            rich_help_panel=_COMMITS,
        ),
    ] = "auto"
    wasm: Annotated[
        str,
        typer.Option(
            help="Where a commit's WebAssembly comes from: auto, build (from source), or the version of a published "
            "build that lends its own.",
            rich_help_panel=_COMMITS,
        ),
    ] = "auto"
    driver: Annotated[
        str,
        typer.Option(
            help=f"What runs the cases: {', '.join(DRIVERS)} (upstream: the test runner of each commit).",
            rich_help_panel=_COMMITS,
        ),
    ] = "harness"
    dim: Annotated[
        list[str],
        typer.Option(
            "--dim",
            help="Size of a free dimension of a .onnx model, as name=size. Repeatable.",
            rich_help_panel=_INPUTS,
        ),
    ] = field(default_factory=list)
    seed: Annotated[
        int, typer.Option(help="Seed of the inputs made for a .onnx model.", min=0, rich_help_panel=_INPUTS)
    ] = 0
    frames: Annotated[
        int,
        typer.Option(
            help="Run the model frame by frame this many times, as one recurrent run.", min=0, rich_help_panel=_INPUTS
        ),
    ] = 0
    feed: Annotated[
        list[str],
        typer.Option(
            "--feed",
            help="With --frames: feed an output back to an input, as output=input. Repeatable.",
            rich_help_panel=_INPUTS,
        ),
    ] = field(default_factory=list)
    initial_state: Annotated[
        str,
        typer.Option(
            help=f"With --feed: what the fed inputs are in the first frame: {', '.join(INITIAL_STATES)}.",
            rich_help_panel=_INPUTS,
        ),
    ] = "given"
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Give every case a page of its own.", rich_help_panel=_PLAN)
    ] = False
    runs: Annotated[int, typer.Option(help="Run each session this many times.", min=1, rich_help_panel=_PLAN)] = 1
    recreate: Annotated[
        int,
        typer.Option(help="Release the session and create it again this often.", min=0, rich_help_panel=_PLAN),
    ] = 0
    sessions: Annotated[
        int, typer.Option(help="Keep this many sessions of the model alive at once.", min=1, rich_help_panel=_PLAN)
    ] = 1
    fresh_page: Annotated[
        int, typer.Option(help="Do all of it again in this many fresh pages.", min=0, rich_help_panel=_PLAN)
    ] = 0
    between: Annotated[
        str,
        typer.Option(help="Create and run another case's model between two runs.", rich_help_panel=_PLAN),
    ] = ""
    against: Annotated[
        str,
        typer.Option(
            help=f"What outputs are compared with: {', '.join(AGAINST)} (the same build's wasm; the good end).",
            rich_help_panel=_JUDGING,
        ),
    ] = "reference"
    require_provider: Annotated[
        str,
        typer.Option(
            help="A node that ran elsewhere is a failure: webgpu, or webgpu:Conv,MatMul for these operators only.",
            rich_help_panel=_JUDGING,
        ),
    ] = ""
    foreground: Annotated[
        list[str],
        typer.Option(
            "--foreground",
            help="Report the share of an output above a threshold, as 'mask>0.5'. Repeatable.",
            rich_help_panel=_JUDGING,
        ),
    ] = field(default_factory=list)
    any_failure: Annotated[
        bool,
        typer.Option(
            "--any-failure",
            help="Every failure counts as bad, not only the one that the bad end shows.",
            rich_help_panel=_JUDGING,
        ),
    ] = False

    def request(self, **rest: Any) -> Request:
        """The request that the options mean, with `rest` for its other fields. Raises UsageError."""
        self._check()
        return Request(
            **{"good": "", "bad": "", "source": self.source, **rest},
            cases=tuple(self.case),
            targets=tuple(dict.fromkeys(self.target)),
            backends=tuple(dict.fromkeys(self.backend)),
            adapter=self.adapter,
            bundle=self.bundle,
            dims=tuple(parse_dim(text) for text in self.dim),
            seed=self.seed,
            isolate=self.isolate,
            case_timeout_s=self.case_timeout,
            probe_timeout_s=self.probe_timeout,
            browser_args=tuple(self.browser_arg),
            repo=self.repo,
            runs=self.runs,
            recreate=self.recreate,
            sessions=self.sessions,
            fresh_pages=self.fresh_page,
            between=self.between,
            frames=self.frames,
            feed=tuple(parse_feed(text) for text in self.feed),
            initial_state=self.initial_state,
            against=self.against,
            require_provider=self.require_provider,
            foreground=tuple(self.foreground),
            any_failure=self.any_failure,
            wasm=self.wasm,
            driver=self.driver,
        )

    def _check(self) -> None:
        if not self.case:
            raise UsageError("no case was named", "Name a folder or an .onnx model with --case.")
        for what, said, known in (
            ("backend", self.backend, BACKENDS),
            ("bundle", [self.bundle], WISHES),
            ("--against", [self.against], AGAINST),
            ("source", [self.source], SOURCES),
            ("--driver", [self.driver], DRIVERS),
            ("--initial-state", [self.initial_state], INITIAL_STATES),
        ):
            unknown = [name for name in said if name not in known]
            if unknown:
                raise UsageError(f"unknown {what} {unknown[0]!r}", f"Known: {', '.join(known)}.")
        if "webgl" in self.backend and self.adapter != "any":
            raise UsageError(
                "--adapter cannot be asked for with webgl: nothing tells which one it uses", "Leave it out."
            )
        if self.feed and not self.frames:
            raise UsageError("--feed needs --frames", "For example: --frames 13 --feed stateN=state")
        if self.initial_state != "given" and not self.feed:
            raise UsageError("--initial-state needs --feed", "For example: --frames 13 --feed stateN=state")
        try:
            re.compile(self.adapter)
        except re.error as error:
            raise UsageError(f"--adapter {self.adapter!r} is no regular expression: {error}") from error


def takes(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator for commands: the parameter `asked` becomes one option for each field of the dataclass `kind`.

    typer reads a command's options from its signature, and many options of several commands are the same. A parameter
    of the command that is called as a field stands in for that field's option, and the command gets it too.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(kind, include_extras=True)
        own = typing.get_type_hints(command, include_extras=True)
        fields = dataclasses.fields(kind)

        @functools.wraps(command)
        def with_options(*args: object, **options: Any) -> None:
            asked = kind(**{each.name: options[each.name] for each in fields})
            command(*args, **{name: options[name] for name in named}, **{ASKED: asked})

        mine = [p for p in inspect.signature(command).parameters.values() if p.name != ASKED]
        named = {p.name for p in mine}
        parameters = [p.replace(annotation=own[p.name], kind=p.KEYWORD_ONLY) for p in mine] + [
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=_default(each), annotation=hints[each.name]
            )
            for each in fields
            if each.name not in named
        ]
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {p.name: p.annotation for p in parameters}
        return with_options

    return decorate


def _default(each: dataclasses.Field[Any]) -> Any:
    if each.default_factory is not dataclasses.MISSING:
        return each.default_factory()
    return inspect.Parameter.empty if each.default is dataclasses.MISSING else each.default


def parse_dim(text: str) -> tuple[str, int]:
    """`name=size` as a pair. Raises UsageError for anything else, and for sizes below 1."""
    name, _, size = text.rpartition("=")
    if not name or not re.fullmatch(r"0*[1-9][0-9]{0,17}", size):
        raise UsageError(f"--dim {text!r} is not name=size", "For example: --dim batch=1")
    return name, int(size)


def parse_feed(text: str) -> tuple[str, str]:
    """`output=input` as a pair. Raises UsageError for anything else."""
    output, sign, name = text.partition("=")
    if not (output and sign and name):
        raise UsageError(f"--feed {text!r} is not output=input", "For example: --feed stateN=state")
    return output, name


def _one_revision(request: Request) -> list[str]:
    return [request.good, *_named_cases(request)]


def _named_cases(request: Request) -> list[str]:
    return [word for case in request.cases for word in ("--case", case)]


# How the command lines of other commands than `check` begin.
_HEADS: Mapping[str, Callable[[Request], list[str]]] = {
    "run": lambda request: ["--good", request.good, "--bad", request.bad, *_named_cases(request)],
    "matrix": lambda request: [*request.revisions, *_named_cases(request)],
    "minimise": lambda request: [*request.cases, "--at", request.good],
}


def command_of(request: Request, command: str = "run") -> str:
    """The command line that asks `request` again, with every option that is not the default."""
    default = Request(good="", bad="", cases=())
    words = ["bisect-bot", command]
    words += _HEADS.get(command, _one_revision)(request)
    for option, values, usual in (
        ("--target", request.targets, default.targets),
        ("--backend", request.backends, default.backends),
        ("--dim", tuple(f"{name}={size}" for name, size in request.dims), ()),
        ("--feed", tuple(f"{output}={name}" for output, name in request.feed), ()),
        ("--foreground", request.foreground, ()),
    ):
        words += [word for value in values for word in (option, value)] if values != usual else []
    for option, value, standard in (
        ("--source", request.source, default.source),
        ("--repo", request.repo, default.repo),
        ("--wasm", request.wasm, default.wasm),
        ("--driver", request.driver, default.driver),
        ("--adapter", request.adapter, default.adapter),
        ("--bundle", request.bundle, default.bundle),
        ("--seed", request.seed, default.seed),
        ("--frames", request.frames, default.frames),
        ("--initial-state", request.initial_state, default.initial_state),
        ("--runs", request.runs, default.runs),
        ("--recreate", request.recreate, default.recreate),
        ("--sessions", request.sessions, default.sessions),
        ("--fresh-page", request.fresh_pages, default.fresh_pages),
        ("--between", request.between, default.between),
        ("--against", request.against, default.against),
        ("--require-provider", request.require_provider, default.require_provider),
        ("--confidence", request.confidence, default.confidence),
        ("--flaky", request.rarest, default.rarest),
        ("--replay", request.replay_file, default.replay_file),
        ("--budget", request.budget_s, default.budget_s),
        ("--max-builds", request.max_builds, default.max_builds),
        ("--max-probes", request.max_probes, default.max_probes),
        ("--case-timeout", request.case_timeout_s, default.case_timeout_s),
        ("--probe-timeout", request.probe_timeout_s, default.probe_timeout_s),
    ):
        words += [option, f"{value:g}" if isinstance(value, float) else str(value)] if value != standard else []
    words += ["--isolate"] if request.isolate else []
    words += ["--any-failure"] if request.any_failure else []
    words += [] if request.prefetch else ["--no-prefetch"]
    words += ["--all-boundaries"] if request.all_boundaries else []
    words += ["--full-history"] if request.full_history else []
    words += [f"--browser-arg={flag}" for flag in request.browser_args]
    return shlex.join(words)


def with_command(request: Request, command: str = "run") -> Request:
    """`request` with the command that asks it again."""
    return replace(request, command=command_of(request, command), kind=command)
