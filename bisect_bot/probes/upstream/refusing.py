"""What upstream's test runner cannot be asked, told before anything is built."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bisect_bot.cases.text import one_line
from bisect_bot.errors import UsageError
from bisect_bot.model import Case, CaseKind, Request

_BUNDLES = ("default", "all")
_PUBLISHED = "published"
_ADVICE = "Leave out --driver upstream: our own page can."


def refuse_upstream(request: Request, cases: Sequence[Case]) -> None:
    """Raises UsageError, naming what it is, where `request` asks of `cases` what upstream's runner cannot do."""
    for asked, what in (*_asked(request), *_of(cases)):
        if asked:
            raise UsageError(f"upstream's test runner cannot do it: {what}", _ADVICE)


def _asked(request: Request) -> tuple[tuple[bool, str], ...]:
    return (
        (os.name == "nt", "on Windows its browser cannot be given flags"),
        (request.source == _PUBLISHED, f"--source {_PUBLISHED} (no published build has its files)"),
        (request.bundle not in _BUNDLES, f"--bundle {request.bundle} (it builds and loads ort.all.js)"),
        (request.runs > 1, "--runs: it runs each case once"),
        (request.recreate > 0, "--recreate: it makes one session a case"),
        (request.sessions > 1, "--sessions: it makes one session a case"),
        (request.fresh_pages > 0, "--fresh-page: it runs each case once"),
        (bool(request.between), "--between: it runs each case once"),
        (request.frames > 0 or bool(request.feed), "frames that feed one another"),
        (request.against != "reference", f"--against {request.against}: it compares with the case's own outputs"),
        (bool(request.require_provider), "--require-provider: it does not tell where nodes ran"),
        (bool(request.foreground), "--foreground: it tells no outputs that are right"),
    )


def _of(cases: Sequence[Case]) -> tuple[tuple[bool, str], ...]:
    def named(case: Case, why: str) -> str:
        return f"{one_line(case.name, 80)} {why}"

    return tuple(
        (asked, named(case, why))
        for case in cases
        for asked, why in (
            (case.kind is CaseKind.SCRIPT, "is a script"),
            (bool(case.feed), "is a recurrent run"),
            (bool(case.external), "keeps weights beside its model"),
        )
    )
