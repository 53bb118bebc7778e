"""`bisect-bot verify`: is somebody's boundary one here, too?"""

from __future__ import annotations

import glob
import json
import shlex
from dataclasses import fields, replace
from pathlib import Path, PurePath
from typing import Annotated, Any

import typer
from rich.text import Text

from bisect_bot import paths
from bisect_bot.cases.folder import MODEL
from bisect_bot.cases.script import SCRIPT
from bisect_bot.cli import options, run
from bisect_bot.cli.console import PatientConsole
from bisect_bot.cli.show import LiveView
from bisect_bot.errors import Exit, UsageError
from bisect_bot.reports.claim import Claim, read_claim
from bisect_bot.reports.escaping import shorten, terminal
from bisect_bot.reports.sentence import UPSTREAM
from bisect_bot.session.journal import FILE_NAME, Journal
from bisect_bot.session.supply import COMMITS
from bisect_bot.session.verify import Answer, Finding, Verification, verify
from bisect_bot.session.workshop import open_workshop

STATUS = {Answer.AGREE: Exit.FOUND, Answer.DISAGREE: Exit.SAME, Answer.CANNOT_TELL: Exit.INCONCLUSIVE}
STYLES = {Answer.AGREE: "green", Answer.DISAGREE: "red", Answer.CANNOT_TELL: "yellow"}
ADAPTERS = ("any", "hardware", "software")
# A stranger's report may ask for this much, and no more.
MOST = {
    "case_timeout": 3600.0,
    "probe_timeout": 6 * 3600.0,
    "runs": 1000,
    "recreate": 1000,
    "sessions": 100,
    "fresh_page": 100,
    "frames": 10_000,
}
_SHOWN = 6


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("verify")(verify_report)


def verify_report(
    report: Annotated[Path, typer.Argument(metavar="REPORT.json", help="The report.json of a run.")],
    case: Annotated[
        list[str] | None,
        typer.Option("--case", "-c", help="The report's case, where it lies here. Repeatable; replaces those in it."),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", help="Browser (default: chrome). Repeatable.")
    ] = None,
    adapter: Annotated[
        str | None, typer.Option(help="GPU adapter wanted (default: the report's any, hardware or software).")
    ] = None,
    browser_arg: Annotated[
        list[str] | None, typer.Option("--browser-arg", help="Extra flag for the browser. Repeatable.")
    ] = None,
    repo: Annotated[
        str | None,
        typer.Option(
            help="Clone of onnxruntime, a folder or an address: the commits of the report are built from it, and "
            "REV:path in --case is read from it (default: that of the session, if it was run on this machine)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Test the two revisions of somebody's report again, here, and say whether it holds.

    Options are read from the command that the report gives; it is never run. Browsers, browser flags, clones and
    patterns of files are not taken from it: name them yourself where they matter.

    \b
    bisect-bot verify report.json
    bisect-bot verify report.json --case ./their_model_test

    \b
    Exit status:
    0   agree: both revisions are here what the report says
    11  disagree: one of them is not
    12  cannot tell: skipped, flaky, or failing in another way
    13  stopped
    14  this machine cannot run it
    2   wrong usage, or no report with a boundary
    1   a bug of ours
    """
    claim = read_claim(report)
    asked, notes = claimed_options(claim.reproduce)
    typed = ["bisect-bot", "verify", str(report)]
    for option, words in (("--case", case), ("--target", target), ("--adapter", [adapter] if adapter else [])):
        typed += [word for said in words or () for word in (option, said)]
    typed += [f"--browser-arg={flag}" for flag in browser_arg or ()] + ["--json"] * as_json
    if claim.of_commits:
        repo, more = _clone(claim, repo, typed)
        # A commit that a build was published of is meant as the commit.
        asked, notes = replace(asked, source=COMMITS), (*notes, *more)
    backends = list(dict.fromkeys(cell.backend for cell in claim.cells))
    asked = replace(
        asked,
        backend=backends,
        case=case or asked.case,
        target=target or asked.target,
        adapter=adapter or asked.adapter,
        browser_arg=browser_arg or asked.browser_arg,
        repo=repo,
    )
    _require_files([*(() if case else asked.case), asked.between], claim, repo)
    request = replace(asked.request(), kind="verify", command=shlex.join([*typed, *(["--repo", repo] if repo else [])]))
    with LiveView() as view, open_workshop(view) as workshop:
        found = verify(claim, request, workshop)
    found = replace(found, notes=(*notes, *found.notes))
    if as_json:
        typer.echo(json.dumps(to_json(found), indent=2))
    else:
        PatientConsole(soft_wrap=True).print(told(found, claim))
    raise typer.Exit(STATUS[found.answer])


def _clone(claim: Claim, repo: str | None, typed: list[str]) -> tuple[str, tuple[str, ...]]:
    """The clone that the commits of `claim` are built from, and what to say of it.

    `typed` are the words of this command. Raises UsageError, with the command to type, where no clone is known.
    The report's own word for it is not taken; that of our own session, if the report is of one, is.
    """
    if repo is not None:
        return repo, ()
    journal_file = paths.cache_root() / FILE_NAME
    if journal_file.is_file() and claim.session:
        with Journal.open(journal_file) as journal:
            mine = [row.request for row in journal.sessions() if row.id == claim.session]
        if mine and mine[0].repo:
            return mine[0].repo, (f"the clone is that of the session {claim.session} here: {mine[0].repo}",)
    raise UsageError(
        f"the report's boundary lies between two commits ({claim.old[:10]} and {claim.new[:10]}), which take a clone"
        " of onnxruntime to be built",
        f"Type: {shlex.join([*typed, '--repo', UPSTREAM])} (or name the folder of a clone with --repo).",
    )


def claimed_options(command: str) -> tuple[options.CaseOptions, tuple[str, ...]]:
    """The options in the command line of a report, by our own parser, and a sentence for each that is not taken.

    A stranger wrote them: what names a program, a flag of one or a repository is left out, and sizes have limits.
    Raises UsageError when it is no command line of `run`.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"the report's command cannot be read: {error}") from error
    if words[:2] != ["bisect-bot", "run"]:
        raise UsageError("the report's command is not one of `bisect-bot run`", "Was it changed by hand?")
    app = typer.Typer(add_completion=False)
    app.command("run", add_help_option=False)(options.takes(options.CaseOptions)(run.run))
    try:
        said = typer.main.get_command(app).make_context("run", words[2:]).params
    except typer.TyperException as error:
        raise UsageError(f"the report's command cannot be read: {error}", "Which version made it?") from error
    usual = options.CaseOptions(case=[])
    known: dict[str, Any] = {each.name: said[each.name] for each in fields(options.CaseOptions)}
    for name, most in MOST.items():
        if not known[name] <= most:
            raise UsageError(f"the report asks for --{name.replace('_', '-')} {known[name]:g}", f"At most: {most:g}.")
    notes = []
    for name in ("target", "browser_arg", "repo"):
        if known[name] != getattr(usual, name):
            notes.append(f"not taken from the report: --{name.replace('_', '-')} {_words(known[name])}")
            known[name] = getattr(usual, name)
    if known["adapter"] not in ADAPTERS:
        notes.append(f"not taken from the report: --adapter {_words(known['adapter'])}")
        known["adapter"] = usual.adapter
    return options.CaseOptions(**known), tuple(notes)


def told(found: Verification, claim: Claim) -> Text:
    """The answer for each revision in a line, with why; then what has to be known about it."""
    text = Text()
    for revision in found.revisions:
        answer, findings = found.of(revision)
        telling = [finding for finding in findings if finding.answer is answer]
        text.append(f"{answer.value:<11} ", style=STYLES[answer]).append(terminal(revision, "bold")).append("  ")
        text.append(terminal(_why(telling[0]) if len(telling) == 1 else f"{len(telling)} of {len(findings)} cells"))
        text.append("\n")
        for finding in telling[:_SHOWN] if len(telling) > 1 else ():
            text.append("            ").append(terminal(_why(finding))).append("\n")
        if len(telling) > _SHOWN:
            text.append(f"            and {len(telling) - _SHOWN} more\n")
    for note in found.notes:
        text.append("note: ", style="bold").append(terminal(note)).append("\n")
    if claim.others:
        rest = "answer of the report has" if claim.others == 1 else "answers of the report have"
        tense = "was" if claim.others == 1 else "were"
        text.append(f"{claim.others} more {rest} another boundary and {tense} not tested.\n")
    return text.append(found.answer.value, style=f"bold {STYLES[found.answer]}")


def to_json(found: Verification) -> dict[str, Any]:
    """The answer in a form that other programs read; keys are only ever added."""
    return {
        "schema": 1,
        "kind": "verify",
        "session": found.session,
        "answer": found.answer.value,
        "revisions": [
            {
                "revision": revision,
                "answer": found.of(revision)[0].value,
                "cells": [
                    {
                        "case": finding.cell.case,
                        "backend": finding.cell.backend,
                        "target": finding.target,
                        "said": finding.said.value,
                        "answer": finding.answer.value,
                        "why": finding.why,
                    }
                    for finding in found.of(revision)[1]
                ],
            }
            for revision in found.revisions
        ],
        "notes": list(found.notes),
    }


def _why(finding: Finding) -> str:
    place = f"{finding.cell.case} on {finding.target}/{finding.cell.backend}"
    return f"{shorten(place, 200)}: {shorten(finding.why, 400)}"


def _require_files(cases: list[str], claim: Claim, repo: str | None) -> None:
    """Raises UsageError when a case of the report is not one file or folder with a case that is here.

    A stranger wrote these: nothing is looked for below folders, in archives, or by patterns and lists. `REV:path` is
    looked for in the clone `repo`, where one was named.
    """
    names = ", ".join(dict.fromkeys(cell.case for cell in claim.cells))
    advice = f"Give the files of {shorten(names, 200)} with --case."
    for text in cases:
        if text and not text.startswith("builtin:") and (why := _not_taken(text, repo)):
            raise UsageError(f"the report's case {shorten(text, 200)} {why}", advice)


def _not_taken(text: str, repo: str | None) -> str:
    """Why the case `text` of a stranger's report is not looked at; empty where it is."""
    file = text.partition("#")[0]
    if glob.has_magic(file):
        return "is a pattern"
    if PurePath(file).name.lower().startswith("suite-test-list"):
        return "is a list of many"
    try:
        # On Windows a path that begins so makes it log in to a stranger's server.
        path = None if text.startswith(("\\\\", "//")) else Path(file).expanduser()
        if path is not None and path.is_dir():
            return "" if any((path / name).is_file() for name in (MODEL, SCRIPT)) else "is a folder without a case"
        if path is not None and path.is_file():
            return "is an archive" if path.suffix.lower() == ".zip" else ""
    except (OSError, ValueError, RuntimeError):
        return "is not here"
    return "" if repo and ":" in text else "is not here"


def _words(value: object) -> str:
    words = " ".join(value) if isinstance(value, list) else str(value)
    return shorten(words, 200)
