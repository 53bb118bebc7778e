"""A report as Markdown that can be pasted into an issue on GitHub: the answer first, the rest folded away."""

from __future__ import annotations

from bisect_bot.model import Boundary, CellResult, Comparison, Report, Result, Revision, Target
from bisect_bot.reports.boundaries import changes_markdown, untold
from bisect_bot.reports.commits import culprits_markdown, several_markdown
from bisect_bot.reports.differences import difference_sentences
from bisect_bot.reports.drift import Pass, drift
from bisect_bot.reports.escaping import code_block, code_span, markdown, shorten, table
from bisect_bot.reports.failures import OtherKind, other_kinds
from bisect_bot.reports.groups import groups_sentence
from bisect_bot.reports.proved import proved
from bisect_bot.reports.rows import Row, by_cell, rows, shown_failure, side_marks, sides
from bisect_bot.reports.sentence import compare_link, headline, name, to_go_on, what_goes_on
from bisect_bot.reports.values import cost, max_abs_err, number, overview, short_list, times
from bisect_bot.reports.words import failure_words

_MESSAGE = 600  # characters of a message outside a table
_REASON = 160  # characters of a message in a cell
_PASSES = 100  # rows of the table of steps and frames
_KINDS = 50  # rows of the table of other failures


def to_markdown(report: Report) -> str:
    """`report` as GitHub-flavoured Markdown whose first line is the answer.

    Text from outside is shortened, and escaped: it makes no tags, tables, links or mentions of its own.
    """
    answer = report.cells[0] if report.cells else None
    parts = [f"**{markdown(headline(report))}**", markdown(groups_sentence(report))]
    parts += map(markdown, difference_sentences(report))
    if answer is not None:
        parts += [*_boundary(answer), *culprits_markdown(report), *several_markdown(answer)]
        parts += [*_verdicts(report, answer), *_failure(report, answer), *_drift(report, answer)]
    parts += [
        *changes_markdown(report),
        *_other_failures(report),
        *_notes(report),
        *_proofs(report),
        *_cases(report),
        _environment(report),
        _go_on(report),
        _reproduce(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _boundary(answer: CellResult) -> list[str]:
    if answer.boundary is None:
        return []
    old, new = side_marks(answer)
    pair = ((old, answer.boundary.last_old), (new, answer.boundary.first_new))
    builds = any(revision.version for _, revision in pair)
    header = ["", "revision", "its newest commit" if builds else "commit", "date", "title"]
    lines = [
        [mark, _id(r), code_span(r.commit or ""), _date(r), markdown(shorten(r.title or "", 100))] for mark, r in pair
    ]
    if not any(revision.title for _, revision in pair):
        header, lines = header[:-1], [cells[:-1] for cells in lines]
    parts = [table(header, lines)]
    link = compare_link(answer.boundary)
    sure = f"Confidence that both answers are right: {answer.confidence:.3g}." if answer.confidence is not None else ""
    open_question = "Every commit between the two builds may be the one." if builds else ""
    parts.append(" ".join(filter(None, [sure, open_question, f"What changed between them: {link}" if link else ""])))
    return parts


def _verdicts(report: Report, answer: CellResult) -> list[str]:
    tried = rows(report, answer.cell, answer)
    if not tried:
        return []
    said = table(["revision", "date", "verdict", "ran on", "max abs err", "reason"], [_verdict(row) for row in tried])
    return [f"### Verdicts for {code_span(str(answer.cell))}", said]


def _verdict(row: Row) -> list[str]:
    verdict = row.trial.verdict
    marks = f" ({', '.join(row.marks)})" if row.marks else ""
    error = max_abs_err(row.trial)
    return [
        f"{_id(row.revision)}{marks}",
        _date(row.revision),
        row.label + (f" ({len(row.trials)}×)" if row.outcome and len(row.trials) > 1 else ""),
        markdown(verdict.ran_on or ""),
        "" if error is None else number(error, 3),
        markdown(shorten(verdict.reason, _REASON)),
    ]


def _failure(report: Report, answer: CellResult) -> list[str]:
    parts = []
    if answer.signature is not None:
        message = code_span(shorten(answer.signature.message, _MESSAGE))
        words = markdown(failure_words(answer.signature))
        parts.append(f"How it fails: {words} ({answer.signature.kind.value}{': ' if message else ''}{message})")
    failure = shown_failure(report, answer)
    if failure is not None:
        revision, _, comparison = failure
        parts.append(_comparison(revision, comparison))
    return parts


def _comparison(revision: Revision, comparison: Comparison) -> str:
    step = f" in the step {code_span(comparison.step)}" if comparison.step else ""
    where = f"output {code_span(comparison.output)} of {code_span(comparison.data_set)}{step} with {_id(revision)}"
    if comparison.problem is not None:
        return f"Not comparable: {where}: {markdown(shorten(comparison.problem, _MESSAGE))}"
    told = overview(comparison)
    if not comparison.first:
        return f"{told}: {where}."
    first = comparison.first[0]
    shown = table(
        ["index", "actual", "expected"],
        [
            [str(list(m.index)), code_span(number(m.actual)), code_span(number(m.expected))]
            for m in comparison.first[:10]
        ],
    )
    summary = f"First mismatch: {where}, index {list(first.index)}: actual {code_span(number(first.actual))}, "
    summary += f"expected {code_span(number(first.expected))}. {told}."
    return f"{summary}\n\n{_folded('The first mismatches', shown)}"


def _drift(report: Report, answer: CellResult) -> list[str]:
    """The error from step to step and frame to frame on both sides, folded."""
    found = drift(report, answer)
    if found is None:
        return []
    header = ["", *(f"{_id(row.revision)}{f' ({mark})' if mark else ''}" for mark, row in found.columns)]
    shown = [[markdown(shorten(label, 100)), *(_pass(one) for one in line)] for label, line in found.lines[:_PASSES]]
    left = len(found.lines) - len(shown)
    more = f"\n\n… and {left} more, in `report.json`." if left else ""
    return [_folded("Largest absolute error by step and frame", table(header, shown) + more)]


def _pass(one: Pass | None) -> str:
    if one is None:
        return "not reached"
    told = [] if one.error is None else [number(one.error, 3)]
    told += [markdown(shorten(one.odd, 60))] if one.odd else []
    if one.cosine is not None and not one.matches:
        told.append(f"cosine {number(one.cosine, 3)}")
    return ("" if one.matches else "**wrong** ") + ", ".join(told)


def _notes(report: Report) -> list[str]:
    """Warnings, and what does not fit a history with one change and one failure."""
    notes = [markdown(shorten(warning, _MESSAGE)) for warning in report.warnings]
    for answer, own in by_cell(report):
        others = untold(own, answer)
        if others:
            pairs = "; ".join(_pair(boundary) for boundary in others[:5])
            notes.append(
                f"{code_span(str(answer.cell))}: the verdict changes more than once, so the answer is one of several. "
                f"It also changes between {pairs}{'; …' if len(others) > 5 else ''}."
            )
        if answer.note and answer.result not in (Result.FOUND, Result.RANGE):  # theirs repeats the tables
            notes.append(f"{code_span(str(answer.cell))}: {markdown(shorten(answer.note, _MESSAGE))}")
    return ["### Notes", _list(notes)] if notes else []


def _other_failures(report: Report) -> list[str]:
    """All other ways in which revisions failed, with how often; folded when there are many."""
    found = [(answer, kind) for answer, own in by_cell(report) for kind in other_kinds(own, answer)]
    if not found:
        return []
    header = ["how it fails", "revisions", "reason"]
    lines = [_kind(kind) for _, kind in found[:_KINDS]]
    if len(report.cells) > 1:
        header = ["case", *header]
        lines = [
            [code_span(shorten(str(answer.cell), 100)), *cells]
            for (answer, _), cells in zip(found[:_KINDS], lines, strict=True)
        ]
    shown = table(header, lines)
    if len(found) > len(lines):
        shown += f"\n\n… and {len(found) - len(lines)} more, in `report.json`."
    title = "Other failures met on the way"
    return [_folded(title, shown)] if len(found) > 5 else [f"### {title}", shown]


def _kind(kind: OtherKind) -> list[str]:
    message = code_span(shorten(kind.signature.message, _REASON))
    seen = [f"{code_span(shorten(revision, 100))}{times(count)}" for revision, count in kind.seen]
    return [
        f"{markdown(failure_words(kind.signature))}{': ' if message else ''}{message}",
        short_list(seen, 10),
        markdown(shorten(kind.reason, _REASON)),
    ]


def _pair(boundary: Boundary) -> str:
    return f"{_id(boundary.last_old)} and {_id(boundary.first_new)}"


def _proofs(report: Report) -> list[str]:
    lines = []
    for proof in proved(report):
        reason = f": {markdown(shorten(proof.reason, _MESSAGE))}" if proof.reason else ""
        lines.append(f"{markdown(proof.what)}: {proof.told}{reason}")
    return ["### Proofs", _list(lines)] if lines else []


def _cases(report: Report) -> list[str]:
    """All cells with their answers, when there is more than one."""
    if len(report.cells) < 2:
        return []
    shown = []
    for answer in report.cells:
        pair = (answer.boundary.last_old, answer.boundary.first_new) if answer.boundary else None
        old, new = sides(answer.direction)
        shown.append(
            [
                code_span(str(answer.cell)),
                answer.result.value + (f" ({answer.direction.value})" if answer.direction else ""),
                f"{_id(pair[0])} ({old})" if pair else "",
                f"{_id(pair[1])} ({new})" if pair else "",
                answer.signature.kind.value if answer.signature else "",
            ]
        )
    return [_folded(f"All {len(shown)} cases", table(["case", "result", "older side", "newer side", "failure"], shown))]


def _environment(report: Report) -> str:
    lines = [_target(target) for target in report.targets]
    lines.append(f"expected outputs: {code_span(report.reference)}")
    lines += [f"{markdown(key)}: {code_span(value)}" for key, value in report.environment]
    lines.append(markdown(cost(report)))
    lines.append(f"session: {code_span(report.session)}")
    return _folded("Environment and cost", _list(lines))


def _target(target: Target) -> str:
    adapter = f"adapter {code_span(str(target.adapter))}" if target.adapter else "no adapter"
    flags = "".join(f" {code_span(flag)}" for flag in target.extra_args)
    extra = f", with{flags}" if flags else ""
    return (
        f"{code_span(target.name)} {code_span(target.version)} on {code_span(target.platform)}, {adapter} "
        f"(asked for: {code_span(target.wish)}, flags {code_span(target.flags)}{extra})"
    )


def _go_on(report: Report) -> str:
    command = to_go_on(report)
    step = f" (next would be {markdown(shorten(report.next_step, 200))})" if report.next_step else ""
    return f"{what_goes_on(report)}{step}:\n\n{code_block(command, 'sh')}" if command else ""


def _reproduce(report: Report) -> str:
    return f"Reproduce with:\n\n{code_block(report.reproduce, 'sh')}" if report.reproduce else ""


def _folded(title: str, body: str) -> str:
    """A block that GitHub shows as its title until it is opened; `title` is our own text."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _list(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _id(revision: Revision) -> str:
    return code_span(name(revision))


def _date(revision: Revision) -> str:
    return revision.date.isoformat() if revision.date else ""
