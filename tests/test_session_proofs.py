"""The second proof: which variant is asked for, what its verdicts mean, and what is said where there can be none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bisect_bot.errors import BisectBotError, BuildUnusable, DiskFull, JournalError, NoBrowser, UsageError
from bisect_bot.model import Artifact, Direction, Outcome, Proof, Revision
from bisect_bot.session.proofs import Changed, Claim, Way, expected, is_proof, prove, variant
from bisect_bot.session.proving import passes_needed

GOOD, BAD, SKIP = Outcome.GOOD, Outcome.BAD, Outcome.SKIP
OLD, CULPRIT, NEW = (Revision(digit * 10, commit=digit * 40) for digit in "abc")
FIX = Claim(Direction.FIX, OLD, NEW, CULPRIT, Changed(js=True, wasm=False))
REGRESSION = replace(FIX, direction=Direction.REGRESSION)
PICKED, REVERTED = "aaaaaaaaaa with bbbbbbbbbb", "cccccccccc without bbbbbbbbbb"


@dataclass
class World:
    """Builds and outcomes of variants by their names; an error instead of a digest is raised. `asked` is what ran."""

    digests: Mapping[str, str | BisectBotError]
    seen: Mapping[str, Sequence[Outcome] | BisectBotError] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def artifact_of(self, revision: Revision) -> Artifact:
        self.asked.append(f"build {revision.id}")
        digest = self.digests[revision.id]
        if isinstance(digest, BisectBotError):
            raise digest
        return Artifact(revision.id, "key", digest, Path())

    def outcomes(self, revision: Revision) -> Sequence[Outcome]:
        self.asked.append(f"test {revision.id}")
        seen = self.seen[revision.id]
        if isinstance(seen, BisectBotError):
            raise seen
        return seen


@pytest.mark.parametrize(
    ("claim", "name", "way", "as_claimed", "otherwise"),
    [(FIX, PICKED, Way.PICK, GOOD, BAD), (REGRESSION, REVERTED, Way.REVERT, GOOD, BAD)],
    ids=["a fix on the old end", "a regression taken back on the new end"],
)
def test_a_culprit_is_proved_at_the_end_that_it_makes_good(
    claim: Claim, name: str, way: Way, as_claimed: Outcome, otherwise: Outcome
) -> None:
    world = World({name: "d"}, {name: [as_claimed, SKIP, as_claimed]})
    assert prove(claim, {}, world) == Proof(way, True, None, 2)
    assert world.asked == [f"build {name}", f"test {name}"]
    refuted = prove(claim, {}, World({name: "d"}, {name: [otherwise]}))
    assert (refuted.held, refuted.runs) == (False, 1)
    assert refuted.reason == f"{name} was good in 0 of 1 runs: other commits of the range have a part in it"


@pytest.mark.parametrize(
    ("claim", "first", "second", "way"),
    [(FIX, PICKED, REVERTED, Way.REVERT), (REGRESSION, REVERTED, PICKED, Way.PICK)],
)
@pytest.mark.parametrize(
    "in_the_way",
    ["known", BuildUnusable("the diff does not apply"), UsageError("x"), NoBrowser("x")],
    ids=lambda it: type(it).__name__,
)
def test_where_one_way_says_nothing_the_other_is_tried_and_has_to_be_bad(
    claim: Claim, first: str, second: str, way: Way, in_the_way: str | BisectBotError
) -> None:
    world = World({first: in_the_way, second: "d"}, {second: [BAD]})
    assert prove(claim, {"known": "bbbbbbbbbb"}, world) == Proof(way, True, None, 1)
    assert f"test {first}" not in world.asked
    assert prove(claim, {"known": "b"}, replace(world, seen={second: [GOOD]})).held is False


def test_what_was_tested_already_or_does_not_apply_is_a_reason_in_plain_words() -> None:
    world = World({PICKED: "known", REVERTED: BuildUnusable("the diff does not apply.")})
    proof = prove(FIX, {"known": "b76c5f5a2d"}, world)
    assert (proof.kind, proof.held, proof.runs) == ("cherry-pick", None, 0)
    assert proof.reason == (
        f"{PICKED} gives the very bytes of b76c5f5a2d, which was tested; {REVERTED}: the diff does not apply"
    )


def test_without_a_verdict_the_other_way_is_tried() -> None:
    world = World({PICKED: "d", REVERTED: "e"}, {PICKED: [SKIP], REVERTED: [BAD, BAD]})
    assert prove(FIX, {}, world) == Proof(Way.REVERT, True, None, 2)
    lost = replace(world, seen={PICKED: NoBrowser("no browser"), REVERTED: []})
    proof = prove(FIX, {}, lost)
    assert proof.held is None
    assert proof.reason == (
        f"{PICKED}: it could not be tested: no browser; {REVERTED}: it was built, but gives no verdict on this failure"
    )


def test_verdicts_that_disagree_prove_nothing() -> None:
    proof = prove(FIX, {}, World({PICKED: "d"}, {PICKED: [GOOD, BAD, GOOD]}))
    assert (proof.held, proof.runs) == (None, 3)
    assert proof.reason == f"{PICKED} was good in 2 of 3 runs: the case is not steady there"


@dataclass
class InTurn(World):
    """Each test gives the next of the outcomes that were set."""

    def outcomes(self, revision: Revision) -> Sequence[Outcome]:
        said = super().outcomes(revision)
        return [said[self.asked.count(f"test {revision.id}") - 1]]


@pytest.mark.parametrize(
    ("claim", "way", "name", "seen", "held", "runs"),
    [
        (REGRESSION, Way.REVERT, REVERTED, [GOOD, GOOD, GOOD, GOOD, BAD], True, 4),
        (REGRESSION, Way.REVERT, REVERTED, [GOOD, GOOD, BAD], False, 3),
        (FIX, Way.REVERT, REVERTED, [GOOD, GOOD, BAD], True, 3),
        (FIX, Way.REVERT, REVERTED, [GOOD, GOOD, GOOD, GOOD], False, 4),
        (FIX, Way.REVERT, REVERTED, [GOOD, SKIP, GOOD], None, 1),
    ],
)
def test_a_failure_that_comes_and_goes_is_given_time_to_come(
    claim: Claim, way: Way, name: str, seen: list[Outcome], held: bool | None, runs: int
) -> None:
    picked = {PICKED: BuildUnusable("the diff does not apply")}
    proof = prove(replace(claim, passes=4), {}, InTurn({**picked, name: "d"}, {name: seen}))
    assert (proof.kind, proof.held, proof.runs) == (way, held, runs)


def test_where_good_revisions_fail_now_and_then_one_failure_says_nothing() -> None:
    claim = replace(REGRESSION, passes=3, good_fails=True)
    proof = prove(claim, {}, InTurn({REVERTED: "d"}, {REVERTED: [GOOD, BAD, GOOD]}))
    assert (proof.held, proof.runs) == (None, 3)
    assert prove(claim, {}, InTurn({REVERTED: "d"}, {REVERTED: [GOOD] * 3})).held is True


@pytest.mark.parametrize(
    ("bad", "rarest", "passes"),
    [([BAD] * 4, 1.0, 1), ([BAD] * 7, 0.4, 2), ([BAD, GOOD, BAD, BAD, GOOD, BAD], 0.4, 4), ([BAD, GOOD], 1.0, 5)],
)
def test_the_passes_that_count_are_those_that_the_failure_would_hardly_survive(
    bad: list[Outcome], rarest: float, passes: int
) -> None:
    assert passes_needed(bad, rarest, confidence=0.95) == passes
    rate = (bad.count(BAD) + 1) / (len(bad) + 2)
    assert passes == 1 or (1 - rate) ** passes <= 0.05 < (1 - rate) ** (passes - 1)


def test_a_commit_that_changes_no_typescript_is_not_built_and_says_what_it_takes() -> None:
    world = World({})
    proof = prove(replace(FIX, changed=Changed(js=False, wasm=True)), {}, world)
    assert world.asked == []
    assert proof.held is None
    assert proof.reason is not None and "toolchain" in proof.reason


def test_half_a_commit_can_confirm_but_not_refute() -> None:
    both = replace(FIX, changed=Changed(js=True, wasm=True))
    held = prove(both, {}, World({PICKED: "d"}, {PICKED: [GOOD]}))
    assert held.held is True
    assert held.reason is not None and "only the TypeScript part of bbbbbbbbbb was applied" in held.reason
    assert prove(both, {}, World({PICKED: "d"}, {PICKED: [BAD]})).held is None


def test_published_builds_cannot_be_proved() -> None:
    proof = prove(replace(FIX, old=Revision("1.20.1", "1.20.1")), {}, World({}))
    assert (proof.held, proof.reason) == (
        None,
        "a published build cannot be built again with a change: only commits can",
    )


@pytest.mark.parametrize("error", [DiskFull("full"), JournalError("gone")])
def test_what_ends_a_session_ends_it_here_too(error: BisectBotError) -> None:
    with pytest.raises(type(error)):
        prove(FIX, {}, World({PICKED: error}))
    with pytest.raises(type(error)):
        prove(FIX, {}, World({PICKED: "d"}, {PICKED: error}))


def test_variants_name_the_end_and_the_commit() -> None:
    assert variant(FIX, Way.REVERT) == Revision(REVERTED, commit="c" * 40, variant=f"revert:{'b' * 40}")
    assert variant(FIX, Way.PICK) == Revision(PICKED, commit="a" * 40, variant=f"pick:{'b' * 40}")
    assert is_proof(variant(FIX, Way.PICK))
    assert not is_proof(replace(OLD, variant="wasm:1.21.0")) and not is_proof(OLD)


@pytest.mark.parametrize(
    ("claim", "way", "wanted"),
    [(FIX, Way.PICK, GOOD), (FIX, Way.REVERT, BAD), (REGRESSION, Way.REVERT, GOOD), (REGRESSION, Way.PICK, BAD)],
)
def test_a_variant_has_to_be_what_the_other_end_is(claim: Claim, way: Way, wanted: Outcome) -> None:
    assert expected(claim, way) is wanted
