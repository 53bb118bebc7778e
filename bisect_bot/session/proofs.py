"""The second proof of an answer among commits: the other end of the range with that one commit taken back or applied.

The boundary says that verdicts change from the culprit's parent to the culprit. Far from the boundary, this asks
whether that one commit is enough: without it, the new end of a regression has to be good again; with it, the old end
of a fix has to be good already. Nothing here builds or tests: a `Prover` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bisect_bot.errors import BisectBotError, BuildUnusable, DiskFull, JournalError, MachineError, UsageError
from bisect_bot.model import Artifact, Direction, Outcome, Proof, Revision
from bisect_bot.model.commits import PICK, REVERT

_SHORT = 10


class Way(StrEnum):
    """How a commit is put to the proof; the values are what reports call it."""

    REVERT = "revert"
    PICK = "cherry-pick"


# What `Revision.variant` begins with, for each way.
VARIANTS = {Way.REVERT: f"{REVERT}:", Way.PICK: f"{PICK}:"}
_DONE = {Way.REVERT: "taken back", Way.PICK: "applied"}


@dataclass(frozen=True, slots=True)
class Changed:
    """Which parts of an artifact the culprit changes, as the digests of their inputs tell."""

    js: bool
    wasm: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be proved: between `old` and `new`, the ends of the searched range, `culprit` changed the verdict.

    `passes` is how often a variant has to pass before it counts as good: more than once where the failure comes and
    goes. There one failure is enough for bad, unless good revisions fail now and then as well (`good_fails`).
    """

    direction: Direction
    old: Revision
    new: Revision
    culprit: Revision
    changed: Changed
    passes: int = 1
    good_fails: bool = False


class Prover(Protocol):
    """Whatever builds and tests variants of revisions; in earnest it is a `Bench`."""

    def artifact_of(self, revision: Revision) -> Artifact:
        """The artifact of a variant, from the cache or built. Raises BuildUnusable, saying why there is none."""

    def outcomes(self, revision: Revision) -> Sequence[Outcome]:
        """What one test or more of a variant gave for the case in question; another failure than its own is a skip.

        Raises MachineError when this machine cannot answer.
        """


def variant(claim: Claim, way: Way) -> Revision:
    """The revision that is tested to prove `claim` in this `way`: one end with the culprit's change, or without."""
    end, word = (claim.new, "without") if way is Way.REVERT else (claim.old, "with")
    assert end.commit and claim.culprit.commit, "only commits can be proved"
    changed = f"{VARIANTS[way]}{claim.culprit.commit}"
    # The end's own title and place would be read as this one's.
    return Revision(f"{_short(end)} {word} {_short(claim.culprit)}", None, end.commit, end.date, variant=changed)


def is_proof(revision: Revision) -> bool:
    """Whether `revision` is one that only a proof asks for: what is built for it is counted apart."""
    return revision.variant.startswith(tuple(VARIANTS.values()))


def is_pick(revision: Revision) -> bool:
    """Whether `revision` is an end with the culprit's change applied."""
    return revision.variant.startswith(VARIANTS[Way.PICK])


def prove(claim: Claim, tested: Mapping[str, str], prover: Prover) -> Proof:
    """The proof of `claim`, with `held` None and the reason in plain words where none can be had.

    `tested` are the artifacts of the search, digest to the name of their revision: to test one of those again would
    prove nothing, so the other way is tried. Raises DiskFull and JournalError; what else the machine cannot do is a
    reason.
    """
    ways = (Way.REVERT, Way.PICK) if claim.direction is Direction.REGRESSION else (Way.PICK, Way.REVERT)
    if not claim.changed.js:
        return Proof(
            ways[0].value,
            None,
            f"{_short(claim.culprit)} changes nothing in the TypeScript part, and to build the WebAssembly part with"
            " and without it takes upstream's C++ toolchain",
        )
    if claim.old.commit is None or claim.new.commit is None or claim.culprit.commit is None:
        return Proof(ways[0].value, None, "a published build cannot be built again with a change: only commits can")
    untried: list[str] = []
    for way in ways:
        asked = variant(claim, way)
        try:
            artifact = prover.artifact_of(asked)
        except (DiskFull, JournalError):
            raise
        except (BuildUnusable, UsageError, MachineError) as error:
            untried.append(f"{asked.id}: {_words(error)}")
            continue
        if artifact.digest in tested:
            untried.append(f"{asked.id} gives the very bytes of {tested[artifact.digest]}, which was tested")
            continue
        proof = _test(claim, way, asked, prover)
        if proof.runs:
            return proof
        untried.append(f"{asked.id}: {proof.reason}")
    return Proof(ways[0].value, None, "; ".join(untried))


def expected(claim: Claim, way: Way) -> Outcome:
    """What a variant has to give if the claim is true: what the other end of the range gives."""
    gives_new = way is Way.PICK
    new_is_good = claim.direction is Direction.FIX
    return Outcome.GOOD if gives_new == new_is_good else Outcome.BAD


def _test(claim: Claim, way: Way, asked: Revision, prover: Prover) -> Proof:
    """The proof by testing the variant `asked`; its `runs` count the verdicts that say anything."""
    clear: list[Outcome] = []
    try:
        while len(clear) < claim.passes and (claim.good_fails or Outcome.BAD not in clear):
            said = [each for each in prover.outcomes(asked) if each in (Outcome.GOOD, Outcome.BAD)]
            clear += said
            if not said:
                break
    except (DiskFull, JournalError):
        raise
    except MachineError as error:
        return Proof(way.value, None, f"it could not be tested: {_words(error)}")
    if not clear:
        return Proof(way.value, None, "it was built, but gives no verdict on this failure")
    wanted = expected(claim, way)
    agreeing = sum(outcome is wanted for outcome in clear)
    told = f"{asked.id} was {wanted.value} in {agreeing} of {len(clear)} runs"
    if len(clear) < claim.passes and Outcome.BAD not in clear:
        return Proof(way.value, None, f"{told}: too few, for a failure that comes and goes", len(clear))
    if claim.passes > 1 and not claim.good_fails and Outcome.BAD in clear:
        agreeing = len(clear) if wanted is Outcome.BAD else 0
    held, reason = _reading(claim, way, agreeing, len(clear))
    return Proof(way.value, held, f"{told}: {reason}" if reason else None, len(clear))


def _reading(claim: Claim, way: Way, agreeing: int, runs: int) -> tuple[bool | None, str]:
    """Whether the proof held when `agreeing` of `runs` verdicts were as expected, and what has to be said of it."""
    half = f"only the TypeScript part of {_short(claim.culprit)} was {_DONE[way]}"
    if agreeing == runs:
        return True, f"{half}, and that is enough" if claim.changed.wasm else ""
    if agreeing:
        return None, "the case is not steady there"
    if claim.changed.wasm:
        return None, f"{half}, its C++ part takes upstream's toolchain"
    return False, "other commits of the range have a part in it"


def _short(revision: Revision) -> str:
    return (revision.commit or revision.id)[:_SHORT]


def _words(error: BisectBotError) -> str:
    return str(error).rstrip(".")
