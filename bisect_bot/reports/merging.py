"""Reports of several machines as one table: machine × backend × case by revision, and where machines differ.

Pure: what was read of the reports goes in, what is shown comes out.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from itertools import pairwise

import semver

from bisect_bot.errors import UsageError
from bisect_bot.model import Outcome, Revision
from bisect_bot.reports.gathered import Gathered, Machine, Said
from bisect_bot.reports.sentence import name
from bisect_bot.reports.values import counted, short_list, times

_NAMED = 4  # revisions that a sentence names
_LATEST = "9999-12-31"
_NONE = semver.Version(0)
# What no table of ours comes near, and a file that was made to fill the memory would.
MAX_PLACES = 1_000_000


class State(StrEnum):
    """What the answers of one machine for one revision come to, in the words of a sentence."""

    FAILS = "fails"
    PASSES = "passes"
    WAVERS = "is not always the same"


@dataclass(frozen=True, slots=True)
class Content:
    """One case by name and content. `label` is its name, with more where others of that name have another content.

    `digest` is empty where a report does not tell; then nothing of another report is taken for the same.
    """

    label: str
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Tally:
    """How often each verdict was given for one revision, and why (each reason once, of those that are not good)."""

    counts: tuple[tuple[Outcome, int], ...]
    reasons: tuple[str, ...]

    @property
    def state(self) -> State | None:
        """What they come to; None where nothing answered for the revision."""
        said = {outcome for outcome, _ in self.counts} & {Outcome.GOOD, Outcome.BAD}
        if len(said) > 1:
            return State.WAVERS
        return {Outcome.GOOD: State.PASSES, Outcome.BAD: State.FAILS}[said.pop()] if said else None

    @property
    def outcome(self) -> Outcome | None:
        """The one verdict, leaving out `infra` unless there is no other; None where they disagree."""
        said = {outcome for outcome, _ in self.counts}
        told = said - {Outcome.INFRA} or said
        return told.pop() if len(told) == 1 else None

    @property
    def label(self) -> str:
        """The verdicts in a few words: `good`, `bad (3×)`, `2 good, 1 bad`."""
        if len(self.counts) == 1:
            outcome, count = self.counts[0]
            return f"{outcome}{times(count)}"
        return ", ".join(f"{count} {outcome}" for outcome, count in self.counts)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table; `cells` has one place for each revision, None where it was not tested."""

    machine: int
    backend: str
    case: int
    cells: tuple[Tally | None, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """Everything that is shown. Lines name their machine and case by place; `labels` are the machines' short names.

    `sentences` are one a case, with `differ` the places of the cases for which machines differ, and `alone` of those
    where nothing could be compared; `notes` say what was left out or told apart. A machine is a browser with its
    adapter and system: the sentences call it an environment, as one computer may have several.
    """

    reports: tuple[Gathered, ...]
    machines: tuple[Machine, ...]
    labels: tuple[str, ...]
    cases: tuple[Content, ...]
    revisions: tuple[Revision, ...]
    lines: tuple[Line, ...]
    sentences: tuple[str, ...]
    differ: tuple[int, ...]
    alone: tuple[int, ...]
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What the table holds and whether environments differ, in one line of plain text."""
        told = ", ".join(
            counted(len(items), noun)
            for items, noun in (
                (self.reports, "report"),
                (self.machines, "environment"),
                (self.revisions, "revision"),
                (self.cases, "case"),
            )
        )
        if len(self.machines) < 2:
            return f"{told}: there is no second environment to compare with."
        compared = len(self.cases) - len(self.alone)
        said = f"environments differ for {len(self.differ)} of {counted(compared, 'case')}" if compared else ""
        nothing = f"nothing to compare in {len(self.alone)} of {len(self.cases)}" if self.alone else ""
        return f"{told}: {'; '.join(filter(None, [said, nothing]))}."


def merge(reports: Sequence[Gathered]) -> Merged:
    """One table of `reports`, of which the same session is counted once: its report with the most verdicts.

    Raises UsageError when the table would have more than `MAX_PLACES` places.
    """
    kept, notes = _each_once(reports)
    contents = _contents(kept)
    said = [(one, contents[_identity(place, one)]) for place, report in enumerate(kept) for one in report.said]
    machines = tuple(dict.fromkeys(one.machine for one, _ in said))
    cases = tuple(dict.fromkeys(content for _, content in said))
    tried = {one.revision for one, _ in said}
    revisions = tuple(revision for revision in _in_order(kept) if revision.id in tried)
    lines = _lines(said, machines, cases, revisions)
    labels = _labels(machines)
    told = [_case(place, case, lines, revisions, labels) for place, case in enumerate(cases)]
    names = Counter(case.name for case in cases)
    notes += [
        f"{name} is not the same case in all reports: its contents are told apart"
        for name, count in names.items()
        if count > 1
    ]
    return Merged(
        kept,
        machines,
        labels,
        cases,
        revisions,
        lines,
        tuple(sentence for sentence, _ in told),
        tuple(place for place, (_, differs) in enumerate(told) if differs),
        tuple(place for place, (_, differs) in enumerate(told) if differs is None),
        tuple(notes),
    )


def _each_once(reports: Sequence[Gathered]) -> tuple[tuple[Gathered, ...], list[str]]:
    found: dict[tuple[str, ...], Gathered] = {}
    notes = []
    for report in reports:
        # The command belongs to it: two machines may begin a session in the same second.
        key = (report.session, report.reproduce, *sorted(repr(machine) for machine in {s.machine for s in report.said}))
        other = found.get(key) if report.session else None
        if other is None:
            found[key if report.session else (str(len(found)),)] = report
            continue
        more, less = (report, other) if len(report.said) > len(other.said) else (other, report)
        found[key] = more
        notes.append(f"{less.source} is of the same session as {more.source}: it is not counted again")
    return tuple(found.values()), notes


def _identity(place: int, one: Said) -> tuple[str, str]:
    """What makes a case the same case. Without a digest it is one of its own report alone."""
    return one.case, one.digest or f"of report {place + 1}"


def _contents(reports: Sequence[Gathered]) -> dict[tuple[str, str], Content]:
    found = {_identity(place, one): one for place, report in enumerate(reports) for one in report.said}
    names = Counter(case for case, _ in found)
    return {
        (case, what): Content(f"{case} [{what}]" if names[case] > 1 else case, case, one.digest)
        for (case, what), one in found.items()
    }


def _in_order(reports: Sequence[Gathered]) -> tuple[Revision, ...]:
    """All revisions so that each report's own order holds; what no report orders, by version or date.

    Where reports contradict each other, the one named first is right.
    """
    known: dict[str, Revision] = {}
    for report in reports:
        for revision in (*report.revisions, *(Revision(one.revision) for one in report.said)):
            known.setdefault(revision.id, revision)
    place = {revision: index for index, revision in enumerate(known)}
    after: dict[str, set[str]] = {revision: set() for revision in known}
    waits = Counter[str]()
    for report in reports:
        for old, new in pairwise(dict.fromkeys(revision.id for revision in report.revisions)):
            if new not in after[old]:
                after[old].add(new)
                waits[new] += 1
    ready = [_turn(known[r], place) for r in known if not waits[r]]
    heapq.heapify(ready)
    in_turn = iter(known)  # where reports contradict each other, nobody is ready
    ordered: dict[str, Revision] = {}
    while len(ordered) < len(known):
        now = heapq.heappop(ready)[-1] if ready else next(in_turn)
        if now in ordered:
            continue
        ordered[now] = known[now]
        for new in after[now]:
            waits[new] -= 1
            if not waits[new]:
                heapq.heappush(ready, _turn(known[new], place))
    return tuple(ordered.values())


def _turn(revision: Revision, place: Mapping[str, int]) -> tuple[bool, semver.Version, str, int, str]:
    """Whose turn it is among those that no report orders: builds by their version, then commits by their date."""
    version = revision.version or ""
    if semver.Version.is_valid(version):
        return False, semver.Version.parse(version), "", place[revision.id], revision.id
    date = revision.date.isoformat() if revision.date else _LATEST
    return True, _NONE, date, place[revision.id], revision.id


def _lines(
    said: Iterable[tuple[Said, Content]],
    machines: Sequence[Machine],
    cases: Sequence[Content],
    revisions: Sequence[Revision],
) -> tuple[Line, ...]:
    """The table, by case, then backend, then machine: what is to be compared stands together."""
    machine_at, case_at = ({each: i for i, each in enumerate(items)} for items in (machines, cases))
    found: dict[tuple[int, str, int], dict[str, list[Said]]] = {}
    for one, case in said:
        key = (case_at[case], one.backend, machine_at[one.machine])
        found.setdefault(key, {}).setdefault(one.revision, []).append(one)
    if len(found) * len(revisions) > MAX_PLACES:
        raise UsageError(
            f"the table would have {len(found)} lines of {len(revisions)} revisions", "Merge fewer reports at once."
        )
    backends = {backend: i for i, backend in enumerate(dict.fromkeys(backend for _, backend, _ in found))}
    return tuple(
        Line(machine, backend, case, tuple(_tally(found[case, backend, machine].get(r.id)) for r in revisions))
        for case, backend, machine in sorted(found, key=lambda key: (key[0], backends[key[1]], key[2]))
    )


def _tally(said: Sequence[Said] | None) -> Tally | None:
    if not said:
        return None
    count = Counter(one.outcome for one in said)
    reasons = dict.fromkeys(one.reason for one in said if one.outcome is not Outcome.GOOD and one.reason)
    return Tally(tuple((outcome, count[outcome]) for outcome in Outcome if count[outcome]), tuple(reasons))


def _labels(machines: Sequence[Machine]) -> tuple[str, ...]:
    """A short name for each machine: no more of it than tells it from the others."""
    parts = [
        (
            m.adapter or "no GPU adapter",
            f"{m.browser} {m.version}".strip(),
            m.platform,
            m.device,
            f"driver {m.driver}" if m.driver else "",
            m.flags,
            "software" if m.software else "hardware",
        )
        for m in machines
    ]
    said: list[tuple[str, ...]] = [()] * len(parts)
    for column in zip(*parts, strict=True):
        different: dict[tuple[str, ...], set[str]] = {}
        for so_far, part in zip(said, column, strict=True):
            different.setdefault(so_far, set()).add(part)
        said = [(*s, part) if len(different[s]) > 1 else s for s, part in zip(said, column, strict=True)]
    return tuple(
        ", ".join(filter(None, words)) or ", ".join(filter(None, part[:2]))
        for words, part in zip(said, parts, strict=True)
    )


def _case(
    place: int, case: Content, lines: Sequence[Line], revisions: Sequence[Revision], labels: Sequence[str]
) -> tuple[str, bool | None]:
    """The sentence about one case, and whether machines differ for it: None where there is nothing to compare."""
    own = [line for line in lines if line.case == place]
    backends = list(dict.fromkeys(line.backend for line in own))
    told, differs, is_compared = [], False, False
    for backend in backends:
        compared = [line for line in own if line.backend == backend]
        differences, same = _compare(compared)
        differs = differs or bool(differences)
        is_compared = is_compared or bool(differences or same)
        before = f"with {backend} it " if len(backends) > 1 else ""
        said = [
            f"{_places(states, labels)}, with {short_list([name(revisions[i]) for i in where], _NAMED)}"
            for states, where in differences.items()
        ]
        if same or not differences:
            agreed = f"is the same in all environments that answered, with {counted(len(same), 'revision')}"
            alone = f"was answered by {'at most one' if any(map(_answers, compared)) else 'no'} environment"
            said.append(agreed if same else f"{alone} for each revision: there is nothing to compare")
        told.append(before + "; ".join(said))
    return f"{case.label}{':' if len(backends) > 1 else ''} {'; '.join(told)}.", differs if is_compared else None


def _answers(line: Line) -> bool:
    return any(cell is not None and cell.state is not None for cell in line.cells)


def _compare(lines: Sequence[Line]) -> tuple[dict[tuple[tuple[int, State], ...], list[int]], list[int]]:
    """The revisions (by place) that machines answer differently, by who says what; and those with one answer."""
    differences: dict[tuple[tuple[int, State], ...], list[int]] = {}
    same = []
    for place in range(len(lines[0].cells)):
        states = tuple(
            (line.machine, cell.state) for line in lines if (cell := line.cells[place]) is not None and cell.state
        )
        if len({state for _, state in states}) > 1:
            differences.setdefault(states, []).append(place)
        elif len(states) > 1:
            same.append(place)
    return differences, same


def _places(states: Sequence[tuple[int, State]], labels: Sequence[str]) -> str:
    """Who says what: `fails on google swiftshader, passes on nvidia ada`."""
    return ", ".join(
        f"{state} on {' and '.join(where)}"
        for state in State
        if (where := [labels[machine] for machine, said in states if said is state])
    )


def machine_words(machine: Machine) -> tuple[str, str]:
    """A machine as the table shows it: the device, and the environment around it."""
    kind = " (software)" if machine.software else ""
    driver = f", driver {machine.driver}" if machine.driver else ""
    device = f"{machine.adapter}{kind}{driver}" if machine.adapter else "no GPU adapter"
    around = " ".join(filter(None, astuple(machine)[:2]))
    return device, ", ".join(filter(None, (around, machine.platform, machine.flags)))
