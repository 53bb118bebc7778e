"""What was found, as `git bisect log` prints it, to be given to `git bisect replay`.

git refuses its own words for the other sides (`--term-old=bad`: "can't change the meaning of the term 'good'",
git 2.39), so the log of a fix speaks of `broken` and `fixed`.
"""

from __future__ import annotations

from bisect_bot.model import Boundary, CellResult, Direction, Outcome, Report, Result, Revision
from bisect_bot.reports.escaping import line
from bisect_bot.reports.rows import Row, rows
from bisect_bot.reports.sentence import hex_id


def to_gitlog(report: Report) -> str:
    """The log for the first cell of `report`, one revision after the other as they were first tried.

    Only what `git bisect replay` can use is a command: verdicts of builds of a known commit on the main line that
    do not contradict the boundary. The rest stands in comments, which `replay` passes over. Text from outside
    never begins a line. Abbreviated commits must exist in the clone that replays it.
    """
    answer = report.cells[0] if report.cells else None
    direction = answer.direction if answer else None
    fix = direction is Direction.FIX
    terms = {Outcome.GOOD: "fixed", Outcome.BAD: "broken"} if fix else {Outcome.GOOD: "good", Outcome.BAD: "bad"}
    start = " '--term-old=broken' '--term-new=fixed'" if fix else ""
    # Commits were searched as a published build's main line is: what was merged came with the merge.
    start += " '--first-parent'" if answer and _among_commits(answer) else ""
    lines = [f"# {line(str(answer.cell))}"] if answer else []
    lines.append(f"git bisect start{start}")
    if answer is None:
        return "\n".join(lines) + "\n"
    order = [trial.revision for trial in report.trials]
    positions = {revision.id: position for position, revision in enumerate(report.revisions)}
    for row in sorted(rows(report, answer.cell, answer), key=lambda row: order.index(row.revision.id)):
        lines += _tried(row, terms, _contradicts(row, answer.boundary, fix, positions))
    lines += _same_artifacts(answer, terms[Outcome.BAD if fix else Outcome.GOOD])
    if report.result is Result.FOUND and answer.boundary and answer.boundary.first_new.version is None:
        new = answer.boundary.first_new
        lines.append(f"# first {terms[Outcome.GOOD if fix else Outcome.BAD]} commit: {_commit(new)}")
    return "\n".join(lines) + "\n"


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


def _tried(row: Row, terms: dict[Outcome, str], contradicts: bool) -> list[str]:
    """The comment that git prints for a verdict, and its command where there is one."""
    if row.outcome is None or row.outcome is Outcome.INFRA:
        return [f"# {row.label}: {_commit(row.revision)}"]
    term = "skip" if row.outcome is Outcome.SKIP else terms[row.outcome]
    told = f"# {term}: {_commit(row.revision)}"
    commit = hex_id(row.revision.commit)
    if commit is None:
        return [f"{told} (its commit is not known)"]
    if row.revision.on_main is False:
        near = hex_id(row.revision.main_ancestor)
        hint = (
            f"; to take its ancestor there for it: git bisect {term} {near}"
            if near and row.outcome is not Outcome.SKIP
            else ""
        )
        return [f"{told} (not on the main line{hint})"]
    if contradicts:
        return [f"{told} (the verdict changes more than once)"]
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
