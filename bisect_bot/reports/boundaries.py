"""All changes of a case in the order of history, where they were searched for: `--all-boundaries`."""

from __future__ import annotations

from dataclasses import dataclass

from bisect_bot.model import Boundary, CellResult, Change, Direction, Proof, Report, Result, Revision
from bisect_bot.reports.escaping import code_span, line, markdown, shorten, table
from bisect_bot.reports.rows import by_cell, other_boundaries, sides
from bisect_bot.reports.sentence import name
from bisect_bot.reports.values import number, proof_word

TITLE = "All changes that were found, oldest first"
_BROKEN, _FIXED = "broken", "fixed"
_NOTE = 300
_NOTHING = (
    "No further change showed. One whose way back came before the next tested revision would not be seen: nothing was"
    " searched between two that answer alike."
)


@dataclass(frozen=True, slots=True)
class Step:
    """One change in a history of several: `what` happened there in a word or two, and where.

    `nearest` is the one nearest to the new end: the answer of the cell, with the report's own culprit and proofs.
    """

    what: str
    boundary: Boundary
    answer: CellResult
    proofs: tuple[Proof, ...]
    nearest: bool

    @property
    def where(self) -> str:
        """Where it happened, as it follows on the word for it; plain text on one line."""
        new = self.boundary.first_new
        pair = (name(self.boundary.last_old), name(new))
        if self.answer.result is Result.RANGE:
            return f"somewhere from {pair[0]} to {pair[1]}"
        if new.version is not None:
            return f"between {pair[0]} and {pair[1]}"
        return f"by {pair[1]}"

    @property
    def title(self) -> str:
        """The title of the commit that did it, where it is known which."""
        new = self.boundary.first_new
        return line(new.title or "") if self.answer.result is Result.FOUND and new.version is None else ""

    @property
    def marks(self) -> tuple[str, str]:
        """What the two sides are called."""
        return sides(self.answer.direction)

    @property
    def proved(self) -> str:
        """Which of its proofs held, in words; empty without any."""
        return ", ".join(f"{proof.kind}: {proof_word(proof)}" for proof in self.proofs)

    @property
    def sure(self) -> str:
        """The confidence of it in digits."""
        return "" if self.answer.confidence is None else number(self.answer.confidence, 3)


def steps(answer: CellResult, proofs: tuple[Proof, ...] = ()) -> tuple[Step, ...]:
    """All changes of a cell that are known, oldest first; none unless others than the nearest were searched for.

    `proofs` are those of the nearest, where the report has them for this cell.
    """
    known = [(change.answer, change.proofs) for change in answer.others if change.is_known]
    if not known:
        return ()
    if answer.boundary is not None and answer.result in (Result.FOUND, Result.RANGE):
        known.append((answer, proofs))
    found: list[Step] = []
    for each, own in known:
        assert each.boundary is not None, "what is known has a boundary"
        word = _FIXED if each.direction is Direction.FIX else _BROKEN
        again = any(step.what.startswith(word) for step in found)
        what = f"{word} again" if again else word
        found.append(Step(what, each.boundary, each, own, each is answer))
    return tuple(found)


def story(answer: CellResult) -> str:
    """The changes of a cell in one clause: `broken by A, fixed by B, broken again by C`. Empty with no other change."""
    return ", ".join(f"{step.what} {step.where}" for step in steps(answer))


def changes_remarks(report: Report, answer: CellResult) -> tuple[str, ...]:
    """A sentence for each change that was hinted at and is not known; one where nothing more showed at all."""
    if not report.all_boundaries or answer.result not in (Result.FOUND, Result.RANGE, Result.SAME):
        return ()
    if not answer.others:
        return (_NOTHING,)
    return tuple(_open_end(change) for change in answer.others if not change.is_known)


def untold(report: Report, answer: CellResult) -> tuple[Boundary, ...]:
    """The other boundaries that the verdicts show, but for those that were searched for by themselves."""
    told = [each for change in answer.others for each in (change.answer.sides, _ids(change.between)) if each]
    return tuple(pair for pair in other_boundaries(report, answer) if _ids(pair) not in told)


def _is_more(report: Report, answer: CellResult) -> bool:
    """Whether a change showed whose place is not known yet, or the session ended before all were looked for."""
    hinted = any(not each.is_known and each.answer.result is not Result.SAME for each in answer.others)
    return report.result is Result.STOPPED or hinted or bool(untold(report, answer))


def changes_lines(report: Report, answer: CellResult) -> list[tuple[str, str]]:
    """Label and plain text for a terminal; the nearest to the new end has its own lines elsewhere."""
    told = story(answer)
    found = [("changes found so far" if _is_more(report, answer) else "all changes", told)] if told else []
    for step in steps(answer):
        facts = "; ".join(filter(None, (step.title, step.proved)))
        found += [(f"{step.what} {step.where}", facts)] if facts and not step.nearest else []
    return [*found, *(("other changes", sentence) for sentence in changes_remarks(report, answer))]


def changes_markdown(report: Report) -> list[str]:
    """The changes of all cells as a part of the Markdown report; nothing where none were wanted."""
    parts: list[str] = []
    for answer, _ in by_cell(report):
        own = _of_cell(report, answer)
        if own and len(report.cells) > 1:
            own = [f"For {code_span(shorten(str(answer.cell), 200))}:", *own]
        parts += own
    title = TITLE if any(steps(answer) for answer in report.cells) else "Other changes"
    return [f"### {title}", *parts] if parts else []


def logged(answer: CellResult) -> CellResult:
    """The change that a git bisect log can be of: that of `answer`, or the last known one where its ends are alike."""
    known = [change.answer for change in answer.others if change.is_known]
    return known[-1] if known and answer.boundary is None else answer


def to_comments(answer: CellResult) -> list[str]:
    """What a git bisect log says of other changes than its own, as comments."""
    told = story(answer)
    if not told:
        return []
    return [
        f"# the verdict changes more than once: {line(told)}",
        "# this is the log of the last of them, the one nearest to the new end",
    ]


def _of_cell(report: Report, answer: CellResult) -> list[str]:
    found = steps(answer, tuple(proof for proof in report.proofs if proof.cell == answer.cell))
    parts = []
    if found:
        told = markdown(story(answer))
        parts.append(f"{told[:1].upper()}{told[1:]}.")
        header = ["", "last before", "first after", "title", "confidence", "proofs"]
        lines = [_row(step) for step in found]
        if not any(step.title for step in found):
            header, lines = [header[0], *header[1:3], *header[4:]], [[*row[:3], *row[4:]] for row in lines]
        parts.append(table(header, lines))
    return [*parts, *(markdown(sentence) for sentence in changes_remarks(report, answer))]


def _row(step: Step) -> list[str]:
    old, new = step.marks
    nearest = " (nearest to the new end)" if step.nearest else ""
    return [
        f"{step.what}{nearest}",
        f"{_revision(step.boundary.last_old)} ({old})",
        f"{_revision(step.boundary.first_new)} ({new})",
        markdown(shorten(step.title, 100)),
        step.sure,
        markdown(step.proved),
    ]


def _revision(revision: Revision) -> str:
    return code_span(name(revision))


def _open_end(change: Change) -> str:
    pair = f"{name(change.between.last_old)} and {name(change.between.first_new)}"
    why = shorten(line(change.answer.note), _NOTE).rstrip(" .")
    if change.answer.result is Result.SAME:
        return f"Between {pair} the verdict seemed to change, which further tests did not confirm: {why}."
    if change.answer.result is Result.STOPPED:
        return f"Between {pair} the verdict changes too: where was not found out before the session ended."
    return f"Between {pair} the verdict seems to change: no certain answer where ({why})."


def _ids(boundary: Boundary) -> tuple[str, str]:
    return boundary.last_old.id, boundary.first_new.id
