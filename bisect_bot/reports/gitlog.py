"""What was found, as `git bisect log` prints it, to be given to `git bisect replay`.

git refuses its own words for the other sides (`--term-old=bad`: "can't change the meaning of the term 'good'",
git 2.39), so the log of a fix speaks of `broken` and `fixed`.
"""

from __future__ import annotations

import shlex

from bisect_bot.errors import UsageError
from bisect_bot.model import Boundary, CellResult, Direction, Outcome, Report, Result, Revision
from bisect_bot.reports.boundaries import logged, to_comments
from bisect_bot.reports.escaping import line, shorten
from bisect_bot.reports.rows import Row, rows
from bisect_bot.reports.sentence import hex_id


def to_gitlog(report: Report, case: str = "") -> str:
    """The log for one cell of `report`, one revision after the other as they were first tried.

    The cell is the first, or the first whose case (or whole name) is `case`. git can replay one answer at a time: what
    other cells name is told in comments. Raises UsageError where no cell is called so.

    Only what `git bisect replay` can use is a command: verdicts of builds of a known commit on the main line that
    do not contradict the boundary. The rest stands in comments, which `replay` passes over. Text from outside
    never begins a line. Abbreviated commits must exist in the clone that replays it.
    """
    head = _cell(report, case)
    answer = logged(head) if head else None
    direction = answer.direction if answer else None
    fix = direction is Direction.FIX
    terms = {Outcome.GOOD: "fixed", Outcome.BAD: "broken"} if fix else {Outcome.GOOD: "good", Outcome.BAD: "bad"}
    start = " '--term-old=broken' '--term-new=fixed'" if fix else ""
    # Commits were searched as a published build's main line is: what was merged came with the merge.
    start += " '--first-parent'" if answer and _among_commits(answer) else ""
    lines = [f"# {line(str(answer.cell))}", *to_comments(head)] if head and answer else []
    lines.append(f"git bisect start{start}")
    if answer is None:
        return "\n".join(lines) + "\n"
    order = [trial.revision for trial in report.trials]
    positions = {revision.id: position for position, revision in enumerate(report.revisions)}
    nearest = len(positions)
    for row in sorted(rows(report, answer.cell, answer), key=lambda row: order.index(row.revision.id)):
        why_not = "the verdict changes more than once" if _contradicts(row, answer.boundary, fix, positions) else ""
        if _among_commits(answer) and row.revision.version is not None:
            # A report lists builds before commits: which of them is older its order does not tell.
            why_not = "as a published build, before its commits were searched"
        if row.outcome is (Outcome.GOOD if fix else Outcome.BAD) and row.revision.on_main is not False and not why_not:
            # git knows one commit of the newer side: the last that it is told, even where an older one was known.
            here = positions.get(row.revision.id, nearest)
            why_not = f"an older one was {terms[row.outcome]} already" if here > nearest else ""
            nearest = min(nearest, here)
        lines += _tried(row, terms, why_not)
    lines += _same_artifacts(answer, terms[Outcome.BAD if fix else Outcome.GOOD])
    if answer.result is Result.FOUND and answer.boundary and answer.boundary.first_new.version is None:
        new = answer.boundary.first_new
        lines.append(f"# first {terms[Outcome.GOOD if fix else Outcome.BAD]} commit: {_commit(new)}")
    lines += _others(report, answer)
    return "\n".join(lines) + "\n"


def _cell(report: Report, case: str) -> CellResult | None:
    """The cell that is asked for. Raises UsageError."""
    found = [cell for cell in report.cells if not case or case in (cell.cell.case, str(cell.cell))]
    if case and not found:
        names = ", ".join(dict.fromkeys(line(cell.cell.case) for cell in report.cells))
        raise UsageError(f"the report has no case {case!r}", f"Its cases: {shorten(names, 1000)}.")
    return found[0] if found else None


def _others(report: Report, answer: CellResult) -> list[str]:
    """Where other cells have another answer among commits, and how to get the log for it."""
    told: dict[str, CellResult] = {answer.boundary.first_new.id: answer} if answer.boundary else {}
    lines = []
    for cell in report.cells:
        if cell.result is not Result.FOUND or not cell.boundary or cell.boundary.first_new.version is not None:
            continue
        new = cell.boundary.first_new
        if told.setdefault(new.id, cell) is cell and cell is not answer:
            command = f"bisect-bot report {report.session} --format gitlog --case {shlex.quote(str(cell.cell))}"
            verb = "fixed" if cell.direction is Direction.FIX else "bad"
            lines.append(f"# first {verb} commit for {line(str(cell.cell))}: {_commit(new)}; its log: {line(command)}")
    return lines


def _among_commits(answer: CellResult) -> bool:
    return answer.boundary is not None and answer.boundary.first_new.version is None


def _same_artifacts(answer: CellResult, old: str) -> list[str]:
    """What was tested in another commit's place: without it git would go on asking between the two sides."""
    skipped = [suspect.revisions for suspect in answer.suspects if suspect.skipped]
    told = [("skip", revision, run[0]) for run in skipped for revision in run[1:]]
    if answer.boundary and answer.tested and (answer.result is Result.FOUND or skipped):
        last, tested = answer.boundary.last_old, answer.tested[0]
        told += [(old, last, Revision(tested))] if last.id != tested else []
    lines = []
    for term, revision, tested_for_it in told:
        commit = hex_id(revision.commit)
        if commit and revision.version is None:
            lines.append(f"# {term}: {_commit(revision)} (the same artifact as {line(tested_for_it.id)})")
            lines.append(f"git bisect {term} {commit}")
    return lines


def _tried(row: Row, terms: dict[Outcome, str], why_not: str) -> list[str]:
    """The comment that git prints for a verdict, and its command unless there is a reason `why_not`."""
    if row.outcome is None or row.outcome is Outcome.INFRA:
        return [f"# {row.label}: {_commit(row.revision)}"]
    term = "skip" if row.outcome is Outcome.SKIP else terms[row.outcome]
    told = f"# {term}: {_commit(row.revision)}"
    commit = hex_id(row.revision.commit)
    if commit is None:
        return [f"{told} (its commit is not known)"]
    if row.revision.on_main is False and row.revision.version is not None:
        near = hex_id(row.revision.main_ancestor)
        hint = (
            f"; to take its ancestor there for it: git bisect {term} {near}"
            if near and row.outcome is not Outcome.SKIP
            else ""
        )
        return [f"{told} (not on the main line{hint})"]
    if why_not:
        return [f"{told} ({why_not})"]
    return [told, f"git bisect {term} {commit}"]


def _commit(revision: Revision) -> str:
    """`[commit] title` as git prints it; the build's name stands for a title that is not known."""
    return f"[{hex_id(revision.commit) or '?'}] {line(revision.title or revision.version or revision.id)}"


def _contradicts(row: Row, boundary: Boundary | None, fix: bool, positions: dict[str, int]) -> bool:
    """Whether a verdict lies on the wrong side of the boundary."""
    if boundary is None or row.outcome not in (Outcome.GOOD, Outcome.BAD):
        return False
    here, old, new = (positions.get(r.id) for r in (row.revision, boundary.last_old, boundary.first_new))
    if here is None or old is None or new is None:
        return False
    is_old = row.outcome is (Outcome.BAD if fix else Outcome.GOOD)
    return (here <= old and not is_old) or (here >= new and is_old)
