"""A report for the terminal: the answer, the verdicts that led to it, what to do with them.

Colour only repeats what words say, and nothing is wider than 80 columns need.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bisect_bot.model import CellResult, Outcome, Report, Result
from bisect_bot.reports.boundaries import changes_lines, untold
from bisect_bot.reports.commits import culprit_lines, culprits, several
from bisect_bot.reports.differences import difference_sentences
from bisect_bot.reports.escaping import shorten, terminal
from bisect_bot.reports.failures import other_kinds
from bisect_bot.reports.groups import MOST_GROUPS, groups
from bisect_bot.reports.proved import proved
from bisect_bot.reports.rows import OTHER_FAILURE, Row, rows, shown_failure
from bisect_bot.reports.sentence import compare_link, headline, name, to_go_on, what_goes_on
from bisect_bot.reports.values import cost, max_abs_err, number, overview, short_list, times
from bisect_bot.reports.words import failure_words, told

_STYLES = {Outcome.GOOD: "green", Outcome.BAD: "red", Outcome.SKIP: "yellow", Outcome.INFRA: "magenta"}
_MESSAGE = 300
_SUSPECTS = 100  # commits that may be the one
_KINDS = 3  # other failures that are told here


def summary(report: Report) -> RenderableType:
    """`report` in a form that rich prints; text from outside neither moves the cursor nor is read as markup.

    To be printed with `crop=False`: the link and the command are left to the terminal to wrap, so that they can be
    copied in one piece.
    """
    answer = report.cells[0] if report.cells else None
    parts: list[RenderableType] = [_answer(report, answer)]
    parts += [_labelled(group.who, group.answer) for group in groups(report)[:MOST_GROUPS]]
    parts += [terminal(text) for text in difference_sentences(report)]
    parts += [_labelled(label, text) for label, text in _changes(report)]
    link = compare_link(answer.boundary if answer else None)
    if link:
        parts.append(_to_copy("commits between them", link))
    found = culprits(report)
    for each in found:
        parts += [_labelled("culprit", f"{each.culprit.commit[:10]} {each.culprit.title}")] if len(found) > 1 else []
        parts += [_labelled(label, text) for label, text in culprit_lines(each)]
    suspects = several(answer)
    if suspects:
        named = short_list([name(revision) for revision in suspects], _SUSPECTS)
        parts.append(_labelled(f"one of {len(suspects)} commits", named, limit=4000))
    if answer is not None:
        tried = rows(report, answer.cell, answer)
        if tried:
            parts += [_table(tried, f"Verdicts for {answer.cell}"), *_reasons(tried), *_failure(report, answer)]
        parts += [Text(note) for note in _odd(report, answer)]
    if len(report.cells) > 1:
        parts.append(_cases(report))
    parts += [_labelled("warning", warning, "yellow") for warning in report.warnings]
    for proof in proved(report):
        said = f"{proof.told}: {proof.reason}" if proof.reason else proof.told
        parts.append(_labelled(f"proof by {proof.what}", said))
    for target in report.targets:
        adapter = str(target.adapter) if target.adapter else "no adapter"
        parts.append(_labelled(target.name, f"{target.version} on {target.platform}, {adapter}"))
    parts.append(_labelled("expected outputs", report.reference))
    parts.append(_labelled("cost", cost(report)))
    if to_go_on(report):
        parts.append(_to_copy(what_goes_on(report).replace("To", "to", 1).replace("Go", "go", 1), to_go_on(report)))
    if report.reproduce:
        parts.append(_to_copy("reproduce", report.reproduce))
    return Group(*parts)


def _answer(report: Report, answer: CellResult | None) -> Panel:
    title = report.result.value + (f": {answer.direction.value}" if answer and answer.direction else "")
    style = "green" if report.result is Result.FOUND else "yellow"
    return Panel(terminal(headline(report)), title=terminal(title), title_align="left", border_style=style)


def _table(tried: tuple[Row, ...], title: str) -> Table:
    shown = _columns("revision", "date", "verdict", "ran on", "max err", "")
    shown.title, shown.title_justify, shown.title_style = terminal(title), "left", "bold"
    # A name that is broken over two lines cannot be copied: other columns give way up to the length of a dev build's.
    shown.columns[0].min_width = min(30, max(len(name(row.revision)) for row in tried))
    for row in tried:
        error = max_abs_err(row.trial)
        again = f" {len(row.trials)}x" if row.outcome and len(row.trials) > 1 else ""
        shown.add_row(
            terminal(name(row.revision)),
            row.revision.date.isoformat() if row.revision.date else "",
            Text(f"{_word(row)}{again}", style=_STYLES[row.outcome] if row.outcome else "magenta"),
            terminal(row.trial.verdict.ran_on or ""),
            "" if error is None else number(error, 3),
            Text(row.marks[-1] if row.marks else "", style="bold"),
        )
    return shown


def _word(row: Row) -> str:
    """The verdict in one word: the column is narrow."""
    if row.outcome is None:
        return "mixed"
    return "other" if row.label == OTHER_FAILURE else row.outcome.value


def _reasons(tried: tuple[Row, ...]) -> list[Text]:
    """Why revisions are not good, each reason once with the revisions that gave it."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in tried:
        if row.outcome is not Outcome.GOOD:
            found.setdefault((row.label, row.trial.verdict.reason), []).append(name(row.revision))
    return [
        _labelled(label, f"{shorten(reason, _MESSAGE)} ({', '.join(names)})", limit=4000)
        for (label, reason), names in found.items()
    ]


def _failure(report: Report, answer: CellResult) -> list[Text]:
    said = [_labelled("how it fails", failure_words(answer.signature))] if answer.signature else []
    failure = shown_failure(report, answer)
    if failure is None:
        return said
    revision, _, comparison = failure
    step = f", {comparison.step}" if comparison.step else ""
    where = f"{comparison.output} of {comparison.data_set}{step}, {name(revision)}"
    if comparison.problem is not None or not comparison.first:
        return [*said, _labelled("compared", f"{comparison.problem or overview(comparison)} ({where})")]
    first = comparison.first[0]
    differs = f"index {list(first.index)}: actual {number(first.actual)}, expected {number(first.expected)}"
    return [*said, _labelled("first mismatch", f"{differs} ({where}); {overview(comparison)}")]


def _odd(report: Report, answer: CellResult) -> list[str]:
    others = untold(report, answer)
    notes = []
    if others:
        pairs = "; ".join(f"{name(b.last_old)} and {name(b.first_new)}" for b in others[:5])
        notes.append(f"The verdict changes more than once; also between {pairs}.")
    kinds = other_kinds(report, answer)
    for kind in kinds[:_KINDS]:
        seen = short_list([f"{revision}{times(count)}" for revision, count in kind.seen], 3)
        notes.append(f"Another failure, with {seen}: {told(kind.signature, _MESSAGE)}")
    if len(kinds) > _KINDS:
        notes.append(f"{len(kinds) - _KINDS} other failures more stand in the report.")
    return [terminal(shorten(note, 2 * _MESSAGE)).plain for note in notes]


def _changes(report: Report) -> list[tuple[str, str]]:
    """All changes of each cell, where others than the nearest to the new end were searched for."""
    many = len(report.cells) > 1
    told = [(answer, label, text) for answer in report.cells for label, text in changes_lines(report, answer)]
    return [(f"{answer.cell}: {label}" if many else label, text) for answer, label, text in told]


def _cases(report: Report) -> Table:
    shown = _columns("case", "result", "boundary")
    for answer in report.cells:
        pair = answer.boundary
        shown.add_row(
            terminal(shorten(str(answer.cell), 200)),
            answer.result.value + (f" ({answer.direction.value})" if answer.direction else ""),
            terminal(f"{name(pair.last_old)} to {name(pair.first_new)}") if pair else "",
        )
    return shown


def _to_copy(label: str, text: str) -> Text:
    """A line that is not wrapped here: the terminal does it, and what is copied from there is in one piece."""
    shown = Text.assemble(terminal(label, "bold"), ": ", terminal(text))
    shown.no_wrap, shown.overflow = True, "ignore"
    return shown


def _columns(*headings: str) -> Table:
    # Without lines, what is most often shown fits into 80 columns unwrapped.
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="underline")
    for heading in headings:
        shown.add_column(heading, overflow="fold")
    return shown


def _labelled(label: str, text: str, style: str = "", limit: int = _MESSAGE) -> Text:
    return Text.assemble(terminal(label, f"bold {style}".strip()), ": ", terminal(shorten(text, limit)))
