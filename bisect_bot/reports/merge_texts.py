"""The merged table of several machines: for the terminal, as Markdown, as a page, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bisect_bot.model import Outcome, Revision
from bisect_bot.reports.escaping import code_span, markdown, shorten, table, terminal
from bisect_bot.reports.files import write_texts
from bisect_bot.reports.html_report import page
from bisect_bot.reports.json_report import plain
from bisect_bot.reports.merging import Line, Merged, Tally, machine_words
from bisect_bot.reports.sentence import name
from bisect_bot.reports.values import counted, short_list

SCHEMA = 1
# What a reader takes in; beyond it, all stands in merge.json.
MOST_LINES = 1000
MOST_ACROSS = 60
MOST_REASONS = 200
MOST_SENTENCES = 200
MOST_ON_TERMINAL = 60  # lines of the tables
MOST_TOLD = 20  # sentences there
_NAME = 120
_COMMAND = 1000
_WIDEST_REVISION = 30
_SENTENCE = 1000
_NAMED = 4  # cases that a sentence names

_STYLES = {Outcome.GOOD: "green", Outcome.BAD: "red", Outcome.SKIP: "yellow", Outcome.INFRA: "magenta"}
_SIGNS = {Outcome.GOOD: "✓", Outcome.BAD: "✗", Outcome.SKIP: "–", Outcome.INFRA: "?"}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one place of the table is not good."""

    line: Line
    revision: Revision
    tally: Tally


def reasons(merged: Merged) -> Iterator[Reason]:
    """Every place of the table that is not good, in the order of its lines."""
    for line in merged.lines:
        for revision, cell in zip(merged.revisions, line.cells, strict=True):
            if cell is not None and cell.reasons:
                yield Reason(line, revision, cell)


def ordered_sentences(merged: Merged) -> tuple[tuple[bool, str], ...]:
    """The sentences with whether machines differ, those where they do first: they are what the reader looks for.

    Cases of which there is nothing to compare share one, the last; with a single machine there is none at all.
    """
    if len(merged.machines) < 2:
        return ()
    shared = len(merged.alone) > 1
    left_out = set(merged.alone) if shared else set()
    told = [(i in merged.differ, sentence) for i, sentence in enumerate(merged.sentences) if i not in left_out]
    told.sort(key=lambda pair: not pair[0])
    return (*told, *([(False, _alone(merged))] if shared else []))


def _alone(merged: Merged) -> str:
    """The cases of which there is nothing to compare, in one sentence."""
    every = len(merged.alone) == len(merged.cases)
    who = "No case" if every else f"None of {short_list([merged.cases[i].label for i in merged.alone], _NAMED)}"
    return f"{who} was answered by two environments for one revision with one backend: there is nothing to compare."


def compares(merged: Merged) -> bool:
    """Whether at least one case was answered by two machines for the same revision."""
    return len(merged.machines) > 1 and len(merged.alone) < len(merged.cases)


def write(merged: Merged, out: Path) -> Path:
    """Writes `merge.json`, `merge.md` and `merge.html` into `out`; returns the path of `merge.md`.

    Raises DiskFull, and UsageError when `out` cannot be written for another reason.
    """
    texts = {"merge.json": dumps(merged), "merge.md": to_markdown(merged), "merge.html": to_html(merged)}
    write_texts(texts, out, "the same command")
    return out / "merge.md"


# --- JSON ---------------------------------------------------------------------------------------


def to_json(merged: Merged) -> dict[str, Any]:
    """`merged` as plain Python values that any JSON writer takes. Lines name machine and case by their places."""
    value = {
        "schema": SCHEMA,
        "kind": "merge",
        "sentence": merged.sentence,
        "reports": [
            {"session": each.session, "result": each.result.value, "reproduce": each.reproduce}
            for each in merged.reports
        ],
        "machines": [
            {"label": label, **asdict(machine)} for label, machine in zip(merged.labels, merged.machines, strict=True)
        ],
        "revisions": [
            {
                "id": r.id,
                "version": r.version,
                "commit": r.commit,
                "date": r.date.isoformat() if r.date else None,
                "title": r.title,
            }
            for r in merged.revisions
        ],
        "cases": [
            {**asdict(case), "differs": place in merged.differ, "sentence": merged.sentences[place]}
            for place, case in enumerate(merged.cases)
        ],
        "lines": [
            {
                "machine": line.machine,
                "backend": line.backend,
                "case": line.case,
                "cells": [_cell(revision, cell) for revision, cell in zip(merged.revisions, line.cells, strict=True)],
            }
            for line in merged.lines
        ],
        "notes": list(merged.notes),
    }
    said: dict[str, Any] = plain(value)
    return said


def dumps(merged: Merged) -> str:
    """`merged` as the text of `merge.json`: ASCII, so that no byte of it acts on a terminal that shows it."""
    return json.dumps(to_json(merged), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _cell(revision: Revision, cell: Tally | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    counts = {outcome.value: count for outcome, count in cell.counts}
    return {"revision": revision.id, "counts": counts, "reasons": list(cell.reasons)}


# --- Markdown -----------------------------------------------------------------------------------


def to_markdown(merged: Merged) -> str:
    """`merged` as GitHub-flavoured Markdown: whether machines differ, then the table.

    Text from outside is shortened, and escaped: it makes no tags, tables, links or mentions of its own.
    """
    told = ordered_sentences(merged)[:MOST_SENTENCES]
    sentences = [f"{'**differs**: ' if differs else ''}{markdown(shorten(each, _SENTENCE))}" for differs, each in told]
    notes = [markdown(shorten(note, _SENTENCE)) for note in merged.notes]
    parts = [f"**{markdown(merged.sentence)}**", _list(sentences), _grid(merged), _list(notes)]
    why = list(reasons(merged))
    if why:
        header = ["case", "backend", "device", "revision", "verdict", "reason"]
        shown = table(header, [_reason(merged, each) for each in why[:MOST_REASONS]])
        left = len(why) - MOST_REASONS
        more = f"\n\n… and {left} more, in `merge.json`." if left > 0 else ""
        parts.append(_folded("Why not good", shown + more))
    sources = [
        f"{code_span(shorten(each.session, _NAME))}: {each.result}, {counted(len(each.said), 'verdict')}, made by "
        f"{code_span(shorten(each.reproduce, _COMMAND))}"
        for each in merged.reports
    ]
    parts.append(_folded(f"The {counted(len(sources), 'report')}", _list(sources)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _grid(merged: Merged) -> str:
    across = merged.revisions[:MOST_ACROSS]
    header = ["device", "environment", "backend", "case", *(code_span(name(revision)) for revision in across)]
    lines = []
    for line in merged.lines[:MOST_LINES]:
        device, around = (markdown(shorten(text, _NAME * 2)) for text in machine_words(merged.machines[line.machine]))
        cells = [_word(cell) for cell in line.cells[:MOST_ACROSS]]
        case = code_span(shorten(merged.cases[line.case].label, _NAME))
        lines.append([device, around, code_span(line.backend), case, *cells])
    cut = len(lines) < len(merged.lines) or len(across) < len(merged.revisions)
    return table(header, lines) + ("\n\nThe table is cut; all stands in `merge.json`." if cut else "")


def _word(cell: Tally | None) -> str:
    if cell is None:
        return ""
    return cell.label if cell.outcome is Outcome.GOOD else f"**{cell.label}**"


def _reason(merged: Merged, each: Reason) -> list[str]:
    return [
        code_span(shorten(merged.cases[each.line.case].label, _NAME)),
        code_span(each.line.backend),
        markdown(merged.labels[each.line.machine]),
        code_span(name(each.revision)),
        each.tally.label,
        markdown(shorten("; ".join(each.tally.reasons), 300)),
    ]


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _list(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


# --- HTML ---------------------------------------------------------------------------------------


def to_html(merged: Merged) -> str:
    """`merged` as a page of its own."""
    return page(
        "merge.html.j2",
        merged=merged,
        sentences=ordered_sentences(merged),
        why=tuple(reasons(merged)),
        words=[machine_words(machine) for machine in merged.machines],
        look=_look,
        compares=compares(merged),
        most={
            "lines": MOST_LINES,
            "across": MOST_ACROSS,
            "reasons": MOST_REASONS,
            "sentences": MOST_SENTENCES,
        },
    )


def _look(cell: Tally) -> dict[str, str]:
    outcome = cell.outcome
    return {
        "style": outcome.value if outcome else "mixed",
        "sign": _SIGNS[outcome] if outcome else "±",
        "word": cell.label,
    }


# --- the terminal -------------------------------------------------------------------------------


def summary(merged: Merged) -> RenderableType:
    """`merged` in a form that rich prints; text from outside neither moves the cursor nor is read as markup."""
    style = "yellow" if merged.differ or not compares(merged) else "green"
    parts: list[RenderableType] = [
        Panel(terminal(merged.sentence), title="merge", title_align="left", border_style=style)
    ]
    told = ordered_sentences(merged)
    for differs, sentence in told[:MOST_TOLD]:
        before = Text("differs: " if differs else "", style="bold red")
        parts.append(Text.assemble(before, terminal(shorten(sentence, _SENTENCE))))
    if len(told) > MOST_TOLD:
        parts.append(Text(f"A sentence for each of {len(told) - MOST_TOLD} more cases stands in merge.md."))
    parts += [Text(), *(_machine(merged, place) for place in range(len(merged.machines)))]
    groups: dict[tuple[int, str], list[Line]] = {}
    for line in merged.lines:
        groups.setdefault((line.case, line.backend), []).append(line)
    few = len(groups) * len(merged.revisions) <= MOST_ON_TERMINAL
    for (case, _), lines in groups.items():
        if few or case in merged.differ:
            parts += [Text(), _compared(merged, lines)]
    if not few:
        parts.append(Text("Cases for which environments do not differ are left out here; merge.md has them."))
    parts += [Text.assemble(("note", "bold yellow"), ": ", terminal(note)) for note in merged.notes]
    return Group(*parts)


def _machine(merged: Merged, place: int) -> Text:
    device, around = machine_words(merged.machines[place])
    return Text.assemble((f"environment {place + 1}", "bold"), ": ", terminal(f"{device}; {around}"))


def _compared(merged: Merged, lines: list[Line]) -> Table:
    """One case with one backend: revisions downwards, machines by their numbers across."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    shown.title = terminal(f"{shorten(merged.cases[lines[0].case].label, _NAME)} with {lines[0].backend}")
    shown.title_justify, shown.title_style = "left", "bold"
    rows = [
        (name(revision), [line.cells[place] for line in lines])
        for place, revision in enumerate(merged.revisions)
        if any(line.cells[place] for line in lines)
    ]
    shown.add_column("revision", overflow="fold")
    shown.columns[0].min_width = min(_WIDEST_REVISION, max((len(label) for label, _ in rows), default=1))
    for line in lines:
        shown.add_column(f"environment {line.machine + 1}", overflow="fold")
    for label, cells in rows:
        shown.add_row(terminal(label), *(_styled(cell) for cell in cells))
    return shown


def _styled(cell: Tally | None) -> Text:
    if cell is None:
        return Text()
    return Text(cell.label, style=_STYLES[cell.outcome] if cell.outcome else "bold magenta")
