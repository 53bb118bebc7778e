"""What a report.json says, trial by trial: on which machine each verdict was given, and of which content."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from bisect_bot.model import Outcome, Result, Revision
from bisect_bot.reports.escaping import line, shorten
from bisect_bot.reports.reading import Name, case_digests, read_report
from bisect_bot.reports.rows import ASIDE

_REASON = 300
_WORD = 200
# How targets of one browser are told apart in a report: the second is `chrome-2`.
_NUMBERED = re.compile(r"-\d+$")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where verdicts were given, in one line each; equal for what cannot be told apart.

    `browser` is the target's name and `version` its own. `adapter` is vendor and architecture of the GPU adapter, empty
    where none was used, `device` what else it says of itself. `flags` is what the user added to the browser's.
    """

    browser: str
    version: str = ""
    platform: str = ""
    adapter: str = ""
    device: str = ""
    driver: str = ""
    software: bool = False
    flags: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """One verdict. `digest` is that of the case's content, empty where the report does not tell."""

    machine: Machine
    backend: str
    case: str
    digest: str
    revision: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """One report. `revisions` are in the order of history; `reproduce` is text, never to be run."""

    source: str
    session: str
    result: Result
    revisions: tuple[Revision, ...]
    said: tuple[Said, ...]
    reproduce: str


class _Revision(BaseModel):
    id: Name
    version: Name | None = None
    commit: Name | None = None
    commit_prefix: Name | None = None
    date: dt.date | None = None
    title: str | None = None


class _Adapter(BaseModel):
    vendor: str = ""
    architecture: str = ""
    device: str = ""
    description: str = ""
    driver: str | None = None
    fallback: bool = False
    software: bool = False


class _Target(BaseModel):
    name: Name
    version: str = ""
    platform: str = ""
    extra_args: tuple[str, ...] = ()
    adapter: _Adapter | None = None


class _Trial(BaseModel):
    revision: Name
    target: Name
    case: Name
    backend: Name
    verdict: Outcome
    reason: str = ""
    purpose: str = ""


class _Report(BaseModel):
    schema_: Literal[1] = Field(alias="schema")
    result: Result
    session: str = ""
    targets: tuple[_Target, ...]
    revisions: tuple[_Revision, ...] = ()
    matrix: tuple[_Trial, ...]
    environment: dict[str, object] = {}
    reproduce: str


def gather(path: Path) -> Gathered:
    """What the report.json at `path` says. Raises UsageError when it is none of schema 1, or cannot be read."""
    report = read_report(_Report, path)
    machines = _machines(report)
    digests = case_digests(report.environment)
    said = tuple(
        Said(
            machines.get(trial.target) or Machine(_word(trial.target), platform=_platform(report, "")),
            trial.backend,
            trial.case,
            digests.get(trial.case, ""),
            trial.revision,
            trial.verdict,
            shorten(trial.reason, _REASON),
        )
        for trial in report.matrix
        if trial.purpose not in ASIDE
    )
    revisions = tuple(Revision(r.id, r.version, r.commit or r.commit_prefix, r.date, r.title) for r in report.revisions)
    return Gathered(str(path), report.session, report.result, revisions, said, report.reproduce)


def _machines(report: _Report) -> dict[str, Machine]:
    """The machine of each target, by the target's name there."""
    found = {target.name: _machine(target, _platform(report, target.platform)) for target in report.targets}
    alike = Counter(found.values())
    # Two targets that describe themselves alike were two executables all the same.
    return {
        name: replace(machine, browser=_word(name)) if alike[machine] > 1 else machine
        for name, machine in found.items()
    }


def _machine(target: _Target, platform: str) -> Machine:
    adapter = target.adapter
    return Machine(
        browser=_word(_NUMBERED.sub("", target.name)),
        version=_word(target.version),
        platform=platform,
        adapter=_words([adapter.vendor, adapter.architecture]) or "unnamed adapter" if adapter else "",
        device=_words([adapter.device, adapter.description]) if adapter else "",
        driver=_word(adapter.driver or "") if adapter else "",
        software=bool(adapter and (adapter.software or adapter.fallback)),
        flags=_words(target.extra_args),
    )


def _platform(report: _Report, target: str) -> str:
    """What the report says of its system as a whole: more than a target does."""
    said = report.environment.get("platform")
    return _word(said if isinstance(said, str) and said else target)


def _words(parts: Sequence[str]) -> str:
    return _word(" ".join(part for part in parts if part))


def _word(text: str) -> str:
    return shorten(line(text), _WORD)
