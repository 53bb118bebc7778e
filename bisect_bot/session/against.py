"""Expected outputs from another run instead of from files: the same build's wasm, or the good end.

The reference is run once, alone, each case in a page of its own; what it gave is what every step of a case's plan
must give.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from bisect_bot.errors import BuildUnusable, MachineError, UsageError
from bisect_bot.model import (
    Bundle,
    Case,
    CaseKind,
    DataSet,
    Ending,
    Observation,
    Outcome,
    Plan,
    Request,
    Revision,
    Verdict,
)
from bisect_bot.probes import Probe
from bisect_bot.session.units import Unit

CASES, WASM, GOOD_END = "reference", "wasm", "good-end"
# The purpose of a run that others are compared with.
REFERENCE = "reference"

# What came of one case, and its verdict against the case's own expected outputs.
Answer = tuple[Observation, Verdict]


class Runner(Protocol):
    """Whatever runs probes; in earnest it is a `Bench`."""

    def probe_of(self, revision: Revision, unit: Unit) -> Probe:
        """The probe of the session's cases with the build of `revision`. Raises BuildUnusable."""

    def bundle_for(self, revision: Revision, backend: str) -> Bundle:
        """The file that a page loads of `revision` for `backend`. Raises BuildUnusable."""

    def keys(self, probe: Probe) -> tuple[str, ...]:
        """The journal's key of each case."""

    def recall(self, probe: Probe, attempt: int) -> list[Answer] | None:
        """What the journal holds of an attempt, or None."""

    def answer(self, revision: Revision, unit: Unit, probe: Probe, attempt: int | None, purpose: str) -> list[Answer]:
        """Runs `probe` until every case has an answer."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A probe whose cases expect what a reference gave. `overruled` are verdicts that hold whatever comes of a case."""

    probe: Probe
    overruled: dict[int, Verdict] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether the expected outputs are there, and not only what they were called: the journal drops large ones."""
        sets = (data_set for case in self.probe.cases for data_set in case.data_sets)
        return all(tensor.data or not math.prod(tensor.shape) for each in sets for tensor in each.expected)


@dataclass(slots=True)
class References:
    """Where the cases of a session get their expected outputs. `good` is the good end, where there is one."""

    against: str
    good: Revision | None
    runner: Runner
    _latest: dict[Unit, tuple[tuple[str, ...], list[Answer]]] = field(default_factory=dict)

    def compare(self, revision: Revision, unit: Unit, probe: Probe, *, afresh: bool = False) -> Compared:
        """`probe` of `revision` with the outputs that its cases are to be compared with.

        Unless it is made `afresh`, a reference that the journal knows may lack the data of its outputs. Raises
        MachineError when the good end gives none, BuildUnusable when the build has no wasm.
        """
        if self.against == CASES:
            return Compared(probe)
        source = self.good if self.against == GOOD_END else revision
        assert source is not None, "a request without a good end was refused"
        reference, said = self._reference(source, unit, probe)
        cases, overruled = list(probe.cases), {}
        keys = self.runner.keys(reference)
        answers = self._answers(source, unit, reference, keys, afresh=afresh)
        for index, (case, key, answer) in enumerate(zip(probe.cases, keys, answers, strict=True)):
            why = why_not(case, answer)
            if not why:
                cases[index] = expecting(case, key, answer[0], said)
            elif self.against == GOOD_END:
                raise MachineError(
                    f"{case.name} gives nothing to compare with on the good end {source.id}: {why}",
                    "Choose another good end, or compare with --against reference or --against wasm.",
                )
            else:
                missing = f"{said}, which it is compared with, gives nothing to compare with: {why}"
                overruled[index] = Verdict(Outcome.SKIP, missing)
        return Compared(replace(probe, cases=tuple(cases)), overruled)

    def clear(self) -> None:
        """Forgets what reference runs gave, as after a machine that could not be trusted."""
        self._latest.clear()

    def _answers(
        self, source: Revision, unit: Unit, reference: Probe, keys: tuple[str, ...], *, afresh: bool
    ) -> list[Answer]:
        kept, latest = self._latest.get(unit, ((), []))
        if kept == keys:
            return latest
        known = None if afresh else self.runner.recall(reference, 1)
        if known is not None:
            return known
        answers = self.runner.answer(source, unit, reference, None if afresh else 1, REFERENCE)
        self._latest[unit] = (keys, answers)
        return answers

    def _reference(self, source: Revision, unit: Unit, probe: Probe) -> tuple[Probe, str]:
        """The run that `probe` is compared with, and what it is called."""
        alone = replace(probe, plan=Plan(), isolate=True)
        if self.against == WASM:
            has_wasm = "wasm" in probe.bundle.backends
            bundle = probe.bundle if has_wasm else self.runner.bundle_for(source, "wasm")
            return replace(alone, backend="wasm", bundle=bundle), f"wasm of {source.id}"
        try:
            good = self.runner.probe_of(source, unit)
        except BuildUnusable as error:
            raise MachineError(f"the good end {source.id} cannot be had: {error}", "Choose another one.") from error
        return replace(alone, artifact=good.artifact, bundle=good.bundle), f"{unit.backend} of {source.id} (good end)"


def refuse(request: Request, cases: Sequence[Case]) -> None:
    """Raises UsageError where `request.against` cannot be meant."""
    if request.against == CASES:
        return
    if request.against == WASM and "wasm" in request.backends:
        raise UsageError(
            "--against wasm with --backend wasm compares each build with itself",
            "Name other backends only, or leave --against out.",
        )
    scripts = [case.name for case in cases if case.kind is CaseKind.SCRIPT]
    if scripts:
        raise UsageError(
            f"--against {request.against} cannot be used with {scripts[0]}: a script drives the runtime itself",
            "Leave it out, or put what the script must return into an expected.json beside it.",
        )
    if request.against == GOOD_END and request.kind != "run":
        raise UsageError("--against good-end needs a good end, which only run has", "Use --against wasm.")


def source_of(request: Request) -> str:
    """Where the expected outputs come from, in a report's words; empty where they are the cases' own."""
    if request.against == WASM:
        return "wasm of each build"
    return f"{' and '.join(request.backends)} of {request.good} (good end)" if request.against == GOOD_END else ""


def expecting(case: Case, key: str, observation: Observation, reference: str) -> Case:
    """`case` with the outputs of `observation`, which the journal knows as `key`, as the expected ones.

    The digest is derived from the key: verdicts can be recalled without the outputs. `reference` says whose they are.
    """
    data_sets = tuple(
        DataSet(data_set.name, data_set.inputs, outputs)
        for data_set, outputs in zip(case.data_sets, observation.outputs, strict=True)
    )
    digest = hashlib.sha256(json.dumps(["against", case.digest, key]).encode()).hexdigest()
    return replace(case, digest=digest, data_sets=data_sets, reference=reference)


def why_not(case: Case, answer: Answer) -> str:
    """Why nothing can be compared with a reference run, or nothing when it can."""
    observation, verdict = answer
    if verdict.outcome is Outcome.SKIP or observation.ending is not Ending.COMPLETED or observation.gpu_errors:
        return verdict.reason
    came, wanted = len(observation.outputs), len(case.data_sets)
    return "" if came == wanted else f"it gave outputs of {came} data sets instead of {wanted}"
