"""Whether verdicts differ by the browser or by the build: what a table of builds × browsers tells at a glance. Pure.

A regression of a browser and one of onnxruntime look alike in a single browser. Where several tested the same builds,
the table tells them apart: what fails with every build in one browser alone is that browser's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bisect_bot.model import Outcome, Report, Target
from bisect_bot.reports.escaping import line, shorten
from bisect_bot.reports.rows import ASIDE
from bisect_bot.reports.sentence import name
from bisect_bot.reports.values import short_list

MOST_SENTENCES = 10
_NAMED = 3  # cases, builds and browsers that a sentence names before it counts the rest
_CASE = 80
_PLAIN = (Outcome.GOOD, Outcome.BAD)

# What was said of cases with one backend: by target, then by revision, in the order of history.
_Said = Mapping[str, Mapping[str, Outcome]]


class By(StrEnum):
    """What the verdicts of a case depend on."""

    TARGET = "browser"  # the same with every build
    BUILD = "build"  # the same in every browser
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Difference:
    """What the verdicts of `cases` with one backend depend on, in a sentence of plain text on one line."""

    by: By
    backend: str
    cases: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def differences(report: Report) -> tuple[Difference, ...]:
    """What decides over good and bad, for all cases that at least two targets answered with the same build.

    In a table also for those that a single one answered, where others were asked: which gave none is told.

    Only right and wrong count: a build that a browser cannot load, or a browser that gave no answer, says nothing. In
    a search, whose cells are answered one by one, only what differs by browser is told. Cases with equal verdicts are
    told together.
    """
    alike: dict[tuple[str, _Key], tuple[_Said, list[str]]] = {}
    asked = _asked(report)
    for (case, backend), each in _verdicts(report).items():
        said = _shared(each, report) if len(each) > 1 else _beside_silent(each, asked[case, backend])
        key = tuple((target, tuple(outcomes.items())) for target, outcomes in said.items())
        alike.setdefault((backend, key), (said, []))[1].append(case)
    several = len({backend for backend, _ in alike}) > 1
    found = []
    for (backend, _), (said, cases) in alike.items():
        by = _by(said)
        if by is None or (report.cells and by is not By.TARGET):
            continue
        named = _listed([shorten(case, _CASE) for case in cases]) + (f" ({backend})" if several else "")
        told = _TELLS[by](_Telling(named, len(cases) > 1, said, report))
        if told:
            found.append(Difference(by, backend, tuple(cases), line(told)))
    return tuple(found)


def difference_sentences(report: Report) -> tuple[str, ...]:
    """The sentences of all differences; those beyond `MOST_SENTENCES` are counted."""
    found = differences(report)
    left = len(found) - MOST_SENTENCES
    told = [each.sentence for each in found[:MOST_SENTENCES]]
    return (*told, *([f"{left} more such differences are in the table."] if left > 0 else []))


_Key = tuple[tuple[str, tuple[tuple[str, Outcome], ...]], ...]


@dataclass(frozen=True, slots=True)
class _Telling:
    """What a sentence is made of: how the cases are named, whether they are many, and what was said of them."""

    cases: str
    many: bool
    said: _Said
    report: Report

    def verb(self, outcome: Outcome) -> str:
        word = "pass" if outcome is Outcome.GOOD else "fail"
        return word if self.many else {"pass": "passes", "fail": "fails"}[word]


def _verdicts(report: Report) -> dict[tuple[str, str], dict[str, dict[str, Outcome]]]:
    """Right or wrong by (case, backend), target and revision; runs that disagree among themselves say neither."""
    met: dict[tuple[str, str, str, str], set[Outcome]] = {}
    for trial in report.trials:
        if trial.purpose not in ASIDE:
            key = (trial.cell.case, trial.cell.backend, trial.cell.target, trial.revision)
            met.setdefault(key, set()).add(trial.verdict.outcome)
    found: dict[tuple[str, str], dict[str, dict[str, Outcome]]] = {}
    for (case, backend, target, revision), outcomes in met.items():
        decided = outcomes - {Outcome.INFRA}
        if len(decided) == 1 and decided <= set(_PLAIN):
            found.setdefault((case, backend), {}).setdefault(target, {})[revision] = next(iter(decided))
    return found


def _shared(said: _Said, report: Report) -> _Said:
    """What was said with builds that at least two targets answered for, in the order of history."""
    shared = [r.id for r in report.revisions if sum(r.id in each for each in said.values()) > 1]
    found = {target: {r: each[r] for r in shared if r in each} for target, each in said.items()}
    return {target: each for target, each in found.items() if each}


def _asked(report: Report) -> dict[tuple[str, str], dict[str, set[Outcome]]]:
    """What each target came to by (case, backend), whatever it said of which revision."""
    found: dict[tuple[str, str], dict[str, set[Outcome]]] = {}
    for trial in report.trials:
        if trial.purpose not in ASIDE:
            targets = found.setdefault((trial.cell.case, trial.cell.backend), {})
            targets.setdefault(trial.cell.target, set()).add(trial.verdict.outcome)
    return found


def _beside_silent(said: _Said, asked: Mapping[str, set[Outcome]]) -> _Said:
    """What the one target in `said` said, with those that said nothing; nothing where any of them said more."""
    silent = [target for target in asked if target not in said]
    certain = silent and all(not asked[target] & set(_PLAIN) for target in silent)
    return {**said, **{target: {} for target in silent}} if certain else {}


def _by(said: _Said) -> By | None:
    """What the verdicts depend on; None where all are equal, or where nothing can be compared."""
    builds: dict[str, set[Outcome]] = {}
    for each in said.values():
        for revision, outcome in each.items():
            builds.setdefault(revision, set()).add(outcome)
    if len(said) < 2 or not builds or len(set().union(*builds.values())) < 2:
        return None
    if all(len(outcomes) == 1 for outcomes in builds.values()):
        return By.BUILD
    return By.TARGET if all(len(set(each.values())) == 1 for each in said.values()) else By.BOTH


def _by_build(told: _Telling) -> str:
    agreed: dict[str, Outcome] = {}
    for each in told.said.values():
        agreed.update(each)
    agreed = {r.id: agreed[r.id] for r in told.report.revisions if r.id in agreed}
    ways = "; ".join(_with(agreed, outcome, told) for outcome in dict.fromkeys(agreed.values()))
    targets = tuple(target for target, each in told.said.items() if each)
    silent = tuple(target for target in told.said if target not in targets)
    if silent:
        where, others = _targets(targets, told.report), _targets(silent, told.report)
        return f"Differs by build on {where}: {told.cases} {ways}; {others} could not be compared."
    what = _kinds(targets, (), told.report)
    return f"Differs by build, not by {what}: {told.cases} {ways}, on {_targets(targets, told.report)} alike."


def _by_target(told: _Telling) -> str:
    sides = {o: tuple(target for target, each in told.said.items() if o in each.values()) for o in _PLAIN}
    ids = [revision.id for revision in told.report.revisions]
    common = [r for r in ids if all(any(r in told.said[t] for t in sides[o]) for o in _PLAIN)]
    if not common:
        return ""
    kind = _kinds(sides[Outcome.BAD], sides[Outcome.GOOD], told.report)
    ways = ", ".join(f"{told.verb(o)} on {_targets(sides[o], told.report)}" for o in (Outcome.BAD, Outcome.GOOD))
    if len(common) == 1:
        only = f"with {_builds(common, told.report)}, the only build that both answered for"
        return f"Differs by {kind}: {told.cases} {ways}, {only}: another build may differ."
    every = len(common) == len(ids)
    builds = f"all {len(common)} builds" if every else f"the {len(common)} builds that both answered for"
    return f"Differs by {kind}, not by build: {told.cases} {ways}, with {builds}."


def _by_both(told: _Telling) -> str:
    ways: dict[str, list[str]] = {}
    for target, each in told.said.items():
        outcomes = tuple(dict.fromkeys(each.values()))
        always = f"always {told.verb(outcomes[0])}" if len(outcomes) == 1 else ""
        ways.setdefault(always or ", ".join(_with(each, o, told) for o in outcomes), []).append(target)
    who = "they" if told.many else "it"
    listed = "; ".join(f"on {_targets(targets, told.report)} {who} {way}" for way, targets in ways.items())
    return f"Differs by {_kinds(tuple(told.said), (), told.report)} and by build: {told.cases}: {listed}."


_TELLS: Mapping[By, Callable[[_Telling], str]] = {By.TARGET: _by_target, By.BUILD: _by_build, By.BOTH: _by_both}


def _with(said: Mapping[str, Outcome], outcome: Outcome, told: _Telling) -> str:
    """`fails with 1.20.0 and 1.20.1`."""
    builds = [revision for revision, each in said.items() if each is outcome]
    return f"{told.verb(outcome)} with {_builds(builds, told.report)}"


def _builds(revisions: Sequence[str], report: Report) -> str:
    names = {revision.id: name(revision) for revision in report.revisions}
    return _listed([names[revision] for revision in revisions])


def _kinds(one: tuple[str, ...], other: tuple[str, ...], report: Report) -> str:
    """What tells the targets apart, those of `one` from those of `other`: the browser, its GPU adapter, or both."""
    known = {target.name: target for target in report.targets}
    mine, yours = ([known[t] for t in side if t in known] for side in (one, other or one))
    browser = _apart([(t.product, t.version) for t in mine], [(t.product, t.version) for t in yours], bool(other))
    adapter = _apart([str(t.adapter) for t in mine], [str(t.adapter) for t in yours], bool(other))
    words = [word for word, differs in (("browser", browser), ("GPU adapter", adapter)) if differs]
    return " or ".join(words) or "target"


def _apart(mine: Sequence[object], yours: Sequence[object], two_sides: bool) -> bool:
    """Whether no value of one side is on the other; of a single side, whether it has several."""
    return not set(mine) & set(yours) if two_sides else len(set(mine)) > 1


def _targets(targets: Sequence[str], report: Report) -> str:
    known = {target.name: target for target in report.targets}
    return _listed([_called(known[t], report.targets) if t in known else t for t in targets])


def _called(target: Target, everything: Sequence[Target]) -> str:
    """A target by what tells it from the others: `Chromium 131`, else with all of its version, name or adapter."""
    product = target.product or target.name
    others = [other for other in everything if other.name != target.name]
    major = f"{product} {target.version.partition('.')[0]}"
    if all(f"{o.product or o.name} {o.version.partition('.')[0]}" != major for o in others):
        called = major
    elif all((o.product, o.version) != (target.product, target.version) for o in others):
        called = f"{product} {target.version}"
    else:
        called = f"{target.name} ({product} {target.version})"
    if target.adapter is not None and any(str(o.adapter) != str(target.adapter) for o in others if o.adapter):
        called += f" with {target.adapter}"
    return called


def _listed(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return short_list(names, _NAMED)
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
