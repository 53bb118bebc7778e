"""What a report says of commits: who made the culprit, and which may be it where one cannot be told from the others."""

from __future__ import annotations

from bisect_bot.model import CellResult, Culprit, Result, Revision
from bisect_bot.reports.escaping import code_span, markdown, shorten
from bisect_bot.reports.sentence import UPSTREAM, name
from bisect_bot.reports.values import short_list

_LISTED = 100
_FILES = 20


def several(answer: CellResult | None) -> tuple[Revision, ...]:
    """The commits of which any may be the one; none where the answer names one, or speaks of builds."""
    if answer is None:
        return ()
    named = tuple(revision for suspect in answer.suspects for revision in suspect.revisions)
    is_open = answer.result is Result.RANGE and len(answer.suspects) > 1
    return named if is_open and named[0].version is None else ()


def culprit_lines(culprit: Culprit) -> list[tuple[str, str]]:
    """Label and plain text for each fact about the culprit."""
    number = culprit.pull_request
    return [
        ("author", f"{culprit.author}, {culprit.date[:10]}"),
        *([("pull request", f"{UPSTREAM}/pull/{number}")] if number else []),
        ("files", short_list(culprit.files, _FILES)),
    ]


def culprit_markdown(culprit: Culprit | None) -> list[str]:
    """The culprit as a part of the Markdown report; nothing where none is known."""
    if culprit is None:
        return []
    lines = [f"- {label}: {markdown(shorten(text, 1000))}" for label, text in culprit_lines(culprit)]
    title = markdown(shorten(culprit.title, 200))
    return [f"### {code_span(culprit.commit[:10])} {title}\n\n" + "\n".join(lines)]


def several_markdown(answer: CellResult | None) -> list[str]:
    """The commits that may be the one, as a part of the Markdown report."""
    found = several(answer)
    if not found:
        return []
    lines = [
        f"- {code_span(name(revision))} {revision.date or ''} {markdown(shorten(revision.title or '', 120))}"
        for revision in found[:_LISTED]
    ]
    lines += [f"- … and {len(found) - _LISTED} more, in `report.json`"] if len(found) > _LISTED else []
    return [f"### Any of these {len(found)} commits may be the one\n\n" + "\n".join(lines)]
