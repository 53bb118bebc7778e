"""The table of a `matrix`: for the terminal, as Markdown, and as report.json.

A matrix has no boundary: its report has trials, and no answers for cells.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bisect_bot.model import Cell, Outcome, Report, Result, Revision, Target, Trial
from bisect_bot.reports import html_report, json_report
from bisect_bot.reports.differences import difference_sentences
from bisect_bot.reports.escaping import code_block, code_span, markdown, shorten, table, terminal
from bisect_bot.reports.files import write_texts
from bisect_bot.reports.sentence import headline, name, tested
from bisect_bot.reports.values import cost, counted, max_abs_err, number

# Above so many lines a terminal shows only those that are not good; the files have all.
MAX_LINES = 60
_STYLES = {Outcome.GOOD: "green", Outcome.BAD: "red", Outcome.SKIP: "yellow", Outcome.INFRA: "magenta"}
_REASON = 300
_WIDEST_REVISION = 30


def by_cell(report: Report) -> dict[Cell, tuple[Trial, ...]]:
    """The trials of each cell in the order of history; cells by case, target and backend as they were asked for."""
    cells = list(dict.fromkeys(trial.cell for trial in report.trials))
    cases, targets, backends = (
        list(dict.fromkeys(words))
        for words in ((c.case for c in cells), (c.target for c in cells), (c.backend for c in cells))
    )
    cells.sort(key=lambda c: (cases.index(c.case), targets.index(c.target), backends.index(c.backend)))
    order = [revision.id for revision in report.revisions]
    found: dict[Cell, list[Trial]] = {cell: [] for cell in cells}
    for trial in sorted(report.trials, key=lambda trial: order.index(trial.revision)):
        found[trial.cell].append(trial)
    return {cell: tuple(trials) for cell, trials in found.items()}


def sentence(report: Report) -> str:
    """What the table holds, in one sentence of plain text."""
    if report.result is Result.STOPPED:
        return f"Stopped ({report.reason}) after {tested(report)}; the same command goes on from there."
    if report.result is Result.UNUSABLE:
        return f"This machine cannot fill the table: {report.reason}"
    return headline(report)


# --- report.json --------------------------------------------------------------------------------


def to_json(report: Report) -> dict[str, Any]:
    """`report` as an object of schema 1, with `kind` beside its fields; there is nothing to replay in git."""
    return {**json_report.to_json(report), "kind": "matrix", "sentence": sentence(report), "git_bisect_log": ""}


def dumps(report: Report) -> str:
    """`report` as the text of `report.json`: ASCII, so that no byte of it acts on a terminal that shows it."""
    return json.dumps(to_json(report), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def to_html(report: Report) -> str:
    """`report` as a page of its own."""
    return html_report.to_html(report, sentence(report))


def write(report: Report, out: Path) -> Path:
    """Writes `report.json`, `report.html`, and `report.md` into `out`; returns the path of the last.

    Raises DiskFull, and UsageError when `out` cannot be written for another reason.
    """
    told = to_markdown(report)
    texts = {"report.json": dumps(report), "report.md": told, "report.html": to_html(report)}
    write_texts(texts, out, f"bisect-bot report {report.session} --format md")
    return out / "report.md"


# --- the terminal -------------------------------------------------------------------------------


def summary(report: Report) -> RenderableType:
    """`report` in a form that rich prints; text from outside neither moves the cursor nor is read as markup.

    To be printed with `crop=False`: the command is left to the terminal to wrap, so that it can be copied.
    """
    style = "green" if report.result is Result.TESTED else "yellow"
    parts: list[RenderableType] = [
        Panel(terminal(sentence(report)), title="matrix", title_align="left", border_style=style)
    ]
    parts += [terminal(text) for text in difference_sentences(report)]
    found = by_cell(report)
    if len({cell.case for cell in found}) > 1:
        parts.append(_counts(report))
    few = len(report.trials) <= MAX_LINES
    for cell, trials in found.items():
        shown = trials if few else _not_good(trials)
        if shown:
            parts += [Text(), _lines(cell, shown, report.revisions), *_reasons(shown, report.revisions)]
    if not few:
        parts.append(Text(f"Lines that are good are left out here ({len(report.trials)} in all); report.md has them."))
    parts.append(Text())
    parts += [_labelled("warning", warning, "yellow") for warning in report.warnings]
    parts += [_labelled(target.name, _target(target)) for target in report.targets]
    parts.append(_labelled("expected outputs", report.reference))
    parts.append(_labelled("cost", cost(report)))
    command = Text.assemble(terminal("reproduce", "bold"), ": ", terminal(report.reproduce))
    command.no_wrap, command.overflow = True, "ignore"
    return Group(*parts, command)


def _lines(cell: Cell, trials: Sequence[Trial], revisions: Sequence[Revision]) -> Table:
    names = {revision.id: name(revision) for revision in revisions}
    # Without lines, the names of a dev build and of a bundle fit into 80 columns together.
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="underline")
    for heading in ("revision", "verdict", "ran on", "max err", "bundle"):
        shown.add_column(heading, overflow="fold")
    # A name that is broken over two lines cannot be copied: other columns give way.
    shown.columns[0].min_width = min(_WIDEST_REVISION, max(len(names[trial.revision]) for trial in trials))
    shown.title = terminal(shorten(str(cell), 200))
    shown.title_justify, shown.title_style = "left", "bold"
    for trial in trials:
        error = max_abs_err(trial)
        outcome = trial.verdict.outcome
        shown.add_row(
            terminal(names[trial.revision]),
            Text(outcome.value, style=_STYLES[outcome]),
            terminal(trial.verdict.ran_on or ""),
            "" if error is None else number(error, 3),
            terminal(trial.bundle),
        )
    return shown


def _counts(report: Report) -> Table:
    """How often each verdict was met, by revision and backend."""
    places = list(dict.fromkeys((t.cell.target, t.cell.backend) for t in report.trials))
    several = len({target for target, _ in places}) > 1
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    shown.add_column("revision", overflow="fold")
    for target, backend in places:
        shown.add_column(terminal(f"{target}/{backend}" if several else backend), overflow="fold")
    said = Counter(((t.cell.target, t.cell.backend), t.revision, t.verdict.outcome) for t in report.trials)
    for revision in report.revisions:
        cells = []
        for place in places:
            met = [(said[place, revision.id, outcome], outcome) for outcome in Outcome]
            words = [Text(f"{count} {outcome}", style=_STYLES[outcome]) for count, outcome in met if count]
            cells.append(Text(", ").join(words))
        shown.add_row(terminal(name(revision)), *cells)
    return shown


def _reasons(trials: Sequence[Trial], revisions: Sequence[Revision]) -> list[Text]:
    """Why lines are not good, each reason once with the revisions that gave it."""
    names = {revision.id: name(revision) for revision in revisions}
    found: dict[tuple[Outcome, str], list[str]] = {}
    for trial in _not_good(trials):
        found.setdefault((trial.verdict.outcome, trial.verdict.reason), []).append(names[trial.revision])
    return [
        _labelled(outcome.value, f"{shorten(reason, _REASON)} ({', '.join(where)})", _STYLES[outcome], limit=4000)
        for (outcome, reason), where in found.items()
    ]


def _not_good(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    return tuple(trial for trial in trials if trial.verdict.outcome is not Outcome.GOOD)


def _labelled(label: str, text: str, style: str = "", limit: int = _REASON) -> Text:
    return Text.assemble(terminal(label, f"bold {style}".strip()), ": ", terminal(shorten(text, limit)))


def _target(target: Target) -> str:
    adapter = str(target.adapter) if target.adapter else "no adapter needed"
    return f"{target.product} {target.version} on {target.platform}, {adapter}".strip()


# --- Markdown -----------------------------------------------------------------------------------


def to_markdown(report: Report) -> str:
    """`report` as GitHub-flavoured Markdown: what was said at a glance, then every line with its reason.

    Text from outside is shortened, and escaped: it makes no tags, tables, links or mentions of its own.
    """
    parts = [f"**{markdown(sentence(report))}**", *map(markdown, difference_sentences(report)), _glance(report)]
    if report.warnings:
        parts.append("\n".join(f"- {markdown(shorten(warning, 600))}" for warning in report.warnings))
    header = ["case", "target", "backend", "revision", "verdict", "ran on", "max abs err", "bundle", "reason"]
    lines = [_line(trial, report.revisions) for trials in by_cell(report).values() for trial in trials]
    parts.append(_folded(f"All {counted(len(lines), 'verdict')}", table(header, lines)))
    around = [f"{code_span(target.name)}: {markdown(_target(target))}" for target in report.targets]
    around += [f"expected outputs: {code_span(report.reference)}"]
    around += [f"{markdown(key)}: {code_span(value)}" for key, value in report.environment]
    around += [markdown(cost(report)), f"session: {code_span(report.session)}"]
    parts.append(_folded("Environment and cost", "\n".join(f"- {text}" for text in around)))
    parts.append(f"Reproduce with:\n\n{code_block(report.reproduce, 'sh')}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _glance(report: Report) -> str:
    """Cells against revisions, the longer side downwards."""
    cells = list(by_cell(report))
    several = len({cell.target for cell in cells}) > 1
    said = {(trial.cell, trial.revision): _word(trial) for trial in report.trials}
    across = [
        code_span(f"{c.case} on {c.target}/{c.backend}" if several else f"{c.case} on {c.backend}") for c in cells
    ]
    down = [code_span(name(revision)) for revision in report.revisions]
    grid = [[said.get((cell, revision.id), "") for cell in cells] for revision in report.revisions]
    if len(cells) > len(down):
        across, down = down, across
        grid = [list(column) for column in zip(*grid, strict=True)]
    return table(["", *across], [[head, *row] for head, row in zip(down, grid, strict=True)])


def _word(trial: Trial) -> str:
    """A verdict with where it was computed and its error: `good (gpu, 1e-07)`."""
    error = max_abs_err(trial)
    details = [trial.verdict.ran_on or "", "" if error is None else number(error, 2)]
    said = ", ".join(filter(None, details))
    outcome = trial.verdict.outcome
    word = outcome.value if outcome is Outcome.GOOD else f"**{outcome}**"
    return f"{word} ({markdown(said)})" if said else word


def _line(trial: Trial, revisions: Sequence[Revision]) -> list[str]:
    names = {revision.id: name(revision) for revision in revisions}
    error = max_abs_err(trial)
    return [
        code_span(trial.cell.case),
        code_span(trial.cell.target),
        code_span(trial.cell.backend),
        code_span(names[trial.revision]),
        trial.verdict.outcome.value,
        markdown(trial.verdict.ran_on or ""),
        "" if error is None else number(error, 3),
        code_span(trial.bundle),
        markdown(shorten(trial.verdict.reason, _REASON)),
    ]


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
