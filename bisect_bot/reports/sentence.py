"""The answer in one sentence, and where to look at what changed."""

from __future__ import annotations

import re
from collections import Counter

from bisect_bot.model import Boundary, CellResult, Direction, Outcome, Report, Result, Revision
from bisect_bot.reports.escaping import line, shorten
from bisect_bot.reports.rows import between, ends, sides
from bisect_bot.reports.values import counted
from bisect_bot.reports.words import failure_words

UPSTREAM = "https://github.com/microsoft/onnxruntime"


# What a command says of where revisions come from.
_SEARCH = re.compile(r"bisect-bot run ")
_OF_BUILDS = re.compile(r" --source[ =]published(?= |$)")
_WITH_CLONE = re.compile(r" --repo[ =]")
_ANSWERED = (Result.FOUND, Result.RANGE, Result.SAME)


def headline(report: Report) -> str:
    """What was found for the first cell of `report`, or why nothing was and what to do next.

    One line of plain text without control characters; it is not escaped for any markup.
    """
    return line(_sentence(report, report.result, report.cells[0] if report.cells else None))


def to_go_on(report: Report) -> str:
    """The command that goes on where `report` ends; empty where nothing is left to do."""
    if _has_commits_between(report):
        return f"{_OF_BUILDS.sub('', report.reproduce)} --repo CLONE"
    if report.result not in (Result.STOPPED, Result.UNUSABLE) or not _can_go_on(report):
        return ""
    # A matrix is asked again, and recalls what it had.
    is_search = not report.reproduce.startswith("bisect-bot matrix ")
    return f"bisect-bot resume {report.session}" if is_search else report.reproduce


def what_goes_on(report: Report) -> str:
    """What the command of `to_go_on` is for, as the beginning of a sentence that ends with it."""
    if _has_commits_between(report):
        return "To find the commit between them, with a clone of onnxruntime in CLONE"
    return "Go on with"


def step_to_go_on(report: Report) -> str:
    """What the command of `to_go_on` would do next; empty where that is not known."""
    return "search of the commits between the two builds" if _has_commits_between(report) else report.next_step


def _has_commits_between(report: Report) -> bool:
    """Whether two published builds were found without a clone, which would tell the commits between them apart."""
    answer = report.cells[0] if report.cells else None
    if report.result is not Result.FOUND or answer is None or answer.boundary is None:
        return False
    is_of_builds = answer.boundary.first_new.version is not None
    return is_of_builds and _SEARCH.match(report.reproduce) is not None and not _WITH_CLONE.search(report.reproduce)


def _can_go_on(report: Report) -> bool:
    """Whether something outside ended it: an end that cannot be tested will not be mended by going on."""
    return report.result is Result.STOPPED or bool(report.reason)


def name(revision: Revision) -> str:
    """How a sentence names `revision`: a published build by its id, a commit by ten digits."""
    return revision.id if revision.version is not None or revision.commit is None else revision.commit[:10]


def tested(report: Report) -> str:
    """How many verdicts a report holds, and which, as the beginning of a sentence."""
    said = Counter(trial.verdict.outcome for trial in report.trials)
    listed = ", ".join(f"{said[outcome]} {outcome}" for outcome in Outcome if said[outcome])
    told = f"{counted(len(report.trials), 'verdict')} on {counted(len(report.revisions), 'revision')}"
    return f"{told}: {listed}" if listed else told


def compare_link(boundary: Boundary | None) -> str | None:
    """The address of the commits between the two sides of `boundary` on GitHub, which takes abbreviated ids.

    None where a side has no commit id, or both have the same.
    """
    if boundary is None:
        return None
    old, new = hex_id(boundary.last_old.commit), hex_id(boundary.first_new.commit)
    if old is None or new is None or old == new:
        return None
    return f"{UPSTREAM}/compare/{old}...{new}"


def hex_id(commit: str | None) -> str | None:
    """`commit` in lower case if it is 7 to 40 hexadecimal digits, else None."""
    return commit.lower() if commit and re.fullmatch(r"[0-9a-fA-F]{7,40}", commit) else None


def _sentence(report: Report, result: Result, answer: CellResult | None) -> str:
    sentences = {
        Result.FOUND: _found,
        Result.RANGE: _range,
        Result.SAME: _same,
        Result.INCONCLUSIVE: _inconclusive,
        Result.STOPPED: _stopped,
        Result.UNUSABLE: _unusable,
        Result.TESTED: _tested,
    }
    return sentences[result](report, answer)


def _found(report: Report, answer: CellResult | None) -> str:
    if answer is None or answer.boundary is None:
        return _inconclusive(report, answer)
    verb = _verb(answer)
    new = answer.boundary.first_new
    if new.version is not None:
        change = f"{verb} between these builds"
    else:
        change = f"{verb} by {name(new)}" + (f" ({shorten(new.title, 120)})" if new.title else "")
    doubt = "; a proof of it did not hold" if any(p.held is False and p.kind != "retest" for p in report.proofs) else ""
    return f"{_around(report, answer)}: {change}, for {_cells(report, answer)}{_from_when(answer)}{doubt}."


def _around(report: Report, answer: CellResult) -> str:
    """Between what the change lies: two builds, or the ends of a search that named one commit."""
    assert answer.boundary is not None, "there is a boundary"
    if report.ends is None or answer.boundary.first_new.version is not None:
        return _pair(answer.boundary, answer.direction)
    return _pair(Boundary(*report.ends), answer.direction)


def _range(report: Report, answer: CellResult | None) -> str:
    if answer is None or answer.boundary is None:
        return _inconclusive(report, answer)
    verb = _verb(answer)
    pair = _pair(answer.boundary, answer.direction)
    if answer.boundary.first_new.version is None and answer.suspects and not answer.suspects[0].skipped:
        which = f"one of {len(answer.suspects)} commits" if len(answer.suspects) > 1 else name(_first(answer))
        return (
            f"{pair}: {verb} by {which}, for {_cells(report, answer)}"
            f"{_from_when(answer)}; only building the WebAssembly from source tells more: bisect-bot doctor says"
            " what this machine lacks for it."
        )
    count = between(report, answer.boundary)
    gap = "what lies between" if not count else f"the {count} between" if count > 1 else "the one between"
    return (
        f"{pair}: {verb} somewhere from one to the other, for {_cells(report, answer)}{_from_when(answer)}; "
        f"{gap} cannot be tested here for the reasons given: another --bundle or --target may tell more."
    )


def _first(answer: CellResult) -> Revision:
    return answer.suspects[0].revisions[0]


def _same(report: Report, answer: CellResult | None) -> str:
    tried = ends(report, answer.cell) if answer else None
    if answer is None or tried is None or tried[0].outcome is not tried[1].outcome or tried[0].outcome is None:
        why = f" ({_clause(answer.note)})" if answer and answer.note else ""
        return f"The two ends do not differ{why}, for {_cells(report, answer)}; choose ends further apart."
    advice = {
        Outcome.GOOD: "name a --bad that shows the failure, and check that this browser and adapter can show it",
        Outcome.BAD: "name a --good that passes, and check that the case can pass at all",
    }.get(tried[0].outcome, "name ends that can be tested")
    old, new = (name(row.revision) for row in tried)
    alike = f"{old} and {new} are both {tried[0].label}, for {_cells(report, answer)}"
    changes = [c.answer for c in answer.others if c.is_known and c.answer.boundary]
    if changes:
        told = "; ".join(_pair(c.boundary, c.direction) for c in changes if c.boundary)
        return f"{alike}, but between them it changes and changes back: {told}."
    return f"{alike}: {advice}."


def _inconclusive(report: Report, answer: CellResult | None) -> str:
    why = _clause(report.reason or (answer.note if answer else "")) or "runs of the same revision disagree"
    guess = ""
    if answer is not None and answer.boundary is not None:
        sure = f", confidence {answer.confidence:.2g}" if answer.confidence is not None else ""
        guess = f" (best guess{sure}: {_pair(answer.boundary, answer.direction)})"
    return (
        f"No certain answer for {_cells(report, answer)}{guess}: {why}; "
        "run it again on a quiet machine, or with --isolate."
    )


def _stopped(report: Report, answer: CellResult | None) -> str:
    left = (
        f"{_pair(answer.boundary, answer.direction)} is left"
        if answer and answer.boundary
        else "the ends are not settled yet"
    )
    why = f" ({_clause(report.reason)})" if report.reason else ""
    so_far = _so_far(report, answer)
    if so_far:
        return f"Stopped{why}{so_far}; go on with: bisect-bot resume {report.session}"
    return (
        f"Stopped{why} before the answer for {_cells(report, answer)}: {left}; "
        f"go on with: bisect-bot resume {report.session}"
    )


def _unusable(report: Report, answer: CellResult | None) -> str:
    why = _clause(report.reason or (answer.note if answer else "")) or "no browser or adapter"
    so_far = _so_far(report, answer)
    if not report.reason and not so_far:
        return f"There is no answer for {_cells(report, answer)}: {_untestable(report, answer) or f'{why}.'}"
    cannot = f"go on,{so_far}" if so_far else f"answer for {_cells(report, answer)}"
    return f"This machine cannot {cannot}: {why}; when that is fixed, the search can go on."


def _untestable(report: Report, answer: CellResult | None) -> str:
    """Which end cannot be tested, why, and what to do; empty where that is not what happened."""
    tried = ends(report, answer.cell) if answer else None
    sides = [(which, row) for which, row in zip(("older", "newer"), tried or (), strict=False)]
    lost = next(((which, row) for which, row in sides if row.outcome not in (Outcome.GOOD, Outcome.BAD)), None)
    if lost is None:
        return ""
    which, row = lost
    neighbour = "a later" if which == "older" else "an earlier"
    more = " or choose its WebAssembly with --wasm VERSION or --wasm build" if row.revision.version is None else ""
    return (
        f"the {which} end {name(row.revision)} cannot be tested ({row.label}: {_clause(row.trial.verdict.reason)});"
        f" name {neighbour} one in its place with --good or --bad (its neighbours may well be testable){more}."
    )


def _so_far(report: Report, answer: CellResult | None) -> str:
    """The first answer of a session that ended before it had all of them; empty where it had none."""
    if answer is None or answer.result not in _ANSWERED:
        return ""
    done = sum(1 for each in report.cells if each.result in _ANSWERED)
    return f" with {done} of {len(report.cells)} answered ({_sentence(report, answer.result, answer).rstrip('.')})"


def _tested(report: Report, _answer: CellResult | None) -> str:
    return f"{tested(report)}."


def _from_when(answer: CellResult) -> str:
    """How it fails, where that is not from the first run on: whoever tries it again must know."""
    return f" ({failure_words(answer.signature)})" if answer.signature and answer.signature.when else ""


def _pair(boundary: Boundary, direction: Direction | None) -> str:
    old, new = sides(direction)
    return f"{name(boundary.last_old)} ({old}) to {name(boundary.first_new)} ({new})"


def _cells(report: Report, answer: CellResult | None) -> str:
    """The first cell, how many share its answer, which changed there the other way, and how many are not told."""
    if answer is None:
        return "the cases"
    alike = [c for c in report.cells if (c.result, c.boundary) == (answer.result, answer.boundary)]
    same = [c for c in alike if c.direction is answer.direction]
    opposite = [c for c in alike if c.direction is not answer.direction]
    others = len(report.cells) - len(alike)
    said = _first_of(same)
    if opposite:
        said += f", and {_verb(opposite[0])} for {_first_of(opposite)}"
    if others:
        said += f" ({others} others below)" if others > 1 else " (another below)"
    return said


def _first_of(cells: list[CellResult]) -> str:
    more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
    return f"{shorten(str(cells[0].cell), 200)}{more}"


def _verb(answer: CellResult) -> str:
    return "fixed" if answer.direction is Direction.FIX else "broken"


def _clause(text: str) -> str:
    return shorten(line(text), 300).rstrip(" .")
