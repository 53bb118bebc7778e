"""Proves answers among commits: builds and tests an end of the range with the culprit taken back or applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log

from bisect_bot.errors import BuildUnusable
from bisect_bot.model import Artifact, Direction, Outcome, Proof, Revision
from bisect_bot.session.bench import Bench
from bisect_bot.session.commit_search import Sought
from bisect_bot.session.control import Controls
from bisect_bot.session.ground import JS
from bisect_bot.session.loop import about
from bisect_bot.session.proofs import Changed, Claim, is_pick, prove

PURPOSE = "proof"
_MOST_PASSES = 25


@dataclass(frozen=True, slots=True)
class _OnBench:
    """Builds and tests variants for the cell of one search."""

    sought: Sought
    bench: Bench
    controls: Controls

    def artifact_of(self, revision: Revision) -> Artifact:
        """The artifact of a variant. Raises BuildUnusable, MachineError."""
        same = self._same_inputs(revision)
        if same is not None:
            raise BuildUnusable(f"it would have the very JavaScript of {same.id}: nothing new to test")
        return self.bench.artifact(revision)

    def _same_inputs(self, revision: Revision) -> Revision | None:
        """The neighbour of the culprit whose JavaScript a variant has: no other commit lies between it and its end."""
        ground, culprit = self.sought.builds.ground, self.sought.culprit()
        assert culprit is not None, "a culprit is proved"
        place, end = ground.place_of(culprit.commit or ""), ground.place_of(revision.commit or "")
        picked = is_pick(revision)
        neighbour, result = (place - 1, place) if picked else (place, place - 1)
        builds = self.sought.builds
        same_js = ground.commits[end].key(JS) == ground.commits[neighbour].key(JS)
        same_wasm = ground.builds_wasm or builds.source(end) == builds.source(result)
        return ground.commits[result].revision if same_js and same_wasm else None

    def outcomes(self, revision: Revision) -> Sequence[Outcome]:
        """What one test of a variant says of the failure that was searched for. Raises MachineError."""
        hunt = self.sought.hunt
        assert hunt is not None, "what was found was searched for"
        trials = self.controls.test(revision, hunt.unit, PURPOSE)
        self.controls.confirm()
        return [about(trial.verdict, hunt.failures) for trial in trials if trial.cell == hunt.cell]


def prove_all(sought: Sequence[Sought], bench: Bench, controls: Controls) -> list[Proof]:
    """A proof for each culprit that was found, by the first cell that names it. Raises DiskFull, JournalError."""
    found: dict[str, Proof] = {}
    tested = {trial.artifact: trial.revision for trial in bench.trials if trial.artifact and trial.purpose != PURPOSE}
    for each in sought:
        claim = _claim(each)
        if claim is not None and claim.culprit.id not in found:
            bench.tools.watcher.doing(f"{PURPOSE}: {claim.culprit.id}")
            proof = prove(claim, tested, _OnBench(each, bench, controls))
            found[claim.culprit.id] = replace(proof, cell=each.cell, commit=claim.culprit.commit)
    return list(found.values())


def _claim(each: Sought) -> Claim | None:
    """What the search for one cell claims, where it names one commit."""
    culprit = each.culprit()
    answer = each.answer()
    if culprit is None or answer.conclusion is None or answer.conclusion.old is None:
        return None
    ground = each.builds.ground
    place = ground.place_of(culprit.commit or "")
    direction = Direction.REGRESSION if answer.conclusion.old is Outcome.GOOD else Direction.FIX
    old, new = ground.commits[ground.begin].revision, ground.commits[ground.end].revision
    changed = Changed(js=ground.changes_js(place), wasm=ground.changes_wasm(place))
    bad, good = _answers_by_side(each, direction)
    passes = passes_needed(bad, each.bench.request.rarest, each.bench.request.confidence)
    return Claim(direction, old, new, culprit, changed, passes, good_fails=Outcome.BAD in good)


def passes_needed(bad: Sequence[Outcome], rarest: float, confidence: float) -> int:
    """How often what fails as `bad` did (the answers of the bad side) has to pass before it counts as good.

    Once where it always failed, and nothing was said of one that comes and goes (`rarest` is 1). Else as often as it
    would pass with a probability of 1 - `confidence` at most, at the rate that Laplace's rule of succession gives.
    """
    failed = sum(outcome is Outcome.BAD for outcome in bad)
    if failed == len(bad) and rarest == 1:
        return 1
    rate = (failed + 1) / (len(bad) + 2)
    return min(ceil(log(1 - confidence) / log(1 - rate)), _MOST_PASSES)


def _answers_by_side(each: Sought, direction: Direction) -> tuple[list[Outcome], list[Outcome]]:
    """What the revisions on the bad side of the change answered, and those on its good side."""
    hunt, found = each.hunt, each.answer().conclusion
    assert hunt is not None and found is not None and found.first_new is not None, "a search found the culprit"
    told = [answer for answer in hunt.evidence if answer.outcome is not Outcome.SKIP]
    old = [answer.outcome for answer in told if answer.index < found.first_new]
    new = [answer.outcome for answer in told if answer.index >= found.first_new]
    return (old, new) if direction is Direction.FIX else (new, old)
