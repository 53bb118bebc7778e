"""From a failing model to the part of it that fails: first each node alone, then the shortest run of nodes.

A delta debugger such as Polygraphy's would do the same search, but runs models in its own way; here every question is
one probe of the bench, so its answers are journaled, retried and smoked like all others.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bisect_bot.cases.pin import pin
from bisect_bot.cases.subgraph import Trace, part, trace, without_secrets
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError, UsageError
from bisect_bot.model import Case, Failure, Outcome, Request, Revision, Signature, Verdict
from bisect_bot.scratch import scratch
from bisect_bot.session.journal import SessionState
from bisect_bot.session.run import bench_of, meant
from bisect_bot.session.units import units
from bisect_bot.session.workshop import Workshop

WRONG_VALUES = (Failure.MISMATCH, Failure.ALL_ZERO, Failure.CONSTANT, Failure.NAN)
ERRORS = (Failure.ERROR, Failure.KERNEL_ERROR)
GPU_ERRORS = (Failure.GPU_ERROR, Failure.DEVICE_LOST)
# So many one-node models are tested in one probe: few enough for their weights to fit into a page's memory.
BATCH = 48
SEED = 1

Ask = Callable[[Sequence[Case]], list[Verdict]]


@dataclass(frozen=True, slots=True)
class Minimised:
    """The part that still fails: nodes `first` to `last` of `nodes`, written to `folder`, and its verdict there.

    `operators` are those of the part, `others` the nodes that fail alone in the same manner beside the one kept.
    `anonymous` tells that inputs and weights are random instead of the model's own.
    """

    folder: Path
    nodes: int
    first: int
    last: int
    operators: tuple[str, ...]
    others: tuple[str, ...]
    verdict: Verdict
    anonymous: bool


def minimise(request: Request, out: Path, workshop: Workshop) -> Minimised:
    """Finds the smallest part of the request's one case that fails at its revision, and writes it to `out`.

    Raises UsageError when the case does not fail there or `out` holds something, CaseError when it cannot be taken
    apart, MachineError when this machine cannot answer.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} holds something already", "Name another folder with --out.")
    workshop.check_targets(request)
    revision = meant(request.good, workshop.revisions(), workshop)
    request, cases = workshop.pin(replace(request, good=revision.id, bad=revision.id, isolate=True))
    if len(cases) != 1:
        raise UsageError(f"{len(cases)} cases were named, and one can be taken apart", "Name one of them.")
    session = workshop.journal.start_session(request)
    state = SessionState.FAILED
    try:
        with scratch(parent=workshop.cache / "tmp") as place:
            ask = _asker(session, request, revision, workshop)
            found = _Search(cases[0], trace(cases[0]), place.path, ask, workshop.watcher.say).run()
            folder = _give(found.case, out)
        state = SessionState.FINISHED
    finally:
        workshop.journal.finish_session(session, state)
    return replace(found.minimised, folder=folder)


def _asker(session: str, request: Request, revision: Revision, workshop: Workshop) -> Ask:
    (unit,) = units(workshop.targets(request)[:1], request.backends[:1])

    def ask(cases: Sequence[Case]) -> list[Verdict]:
        # One-node models that go wrong say so without an error as a rule: they can share a page, which is far faster.
        together = replace(request, isolate=len(cases) == 1)
        bench = bench_of(session, together, cases, workshop)
        return [trial.verdict for trial in bench.test(revision, unit, "minimise")]

    return ask


def _give(case: Case, out: Path) -> Path:
    """Copies the pinned `case` to the folder `out`, as an ONNX test folder."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(case.model, out / case.model.name)
    for data_set in case.model.parent.glob("test_data_set_*"):
        shutil.copytree(data_set, out / data_set.name)
    return out


@dataclass(frozen=True, slots=True)
class _Found:
    case: Case
    minimised: Minimised


@dataclass(frozen=True, slots=True)
class _Search:
    whole: Case
    traced: Trace
    place: Path
    ask: Ask
    say: Callable[[str], None]

    def run(self) -> _Found:
        """The smallest part that fails in the manner of the whole."""
        (verdict,) = self.ask([self.whole])
        if verdict.outcome is not Outcome.BAD or verdict.signature is None:
            raise UsageError(
                f"{one_line(self.whole.name)} is {verdict.outcome} there ({verdict.reason})",
                "Name a revision where it is bad with --at; `bisect-bot check` tells.",
            )
        moving = self.traced.moving()
        self.say(f"the whole model fails: {verdict.reason}")
        alone = self._alone(moving, verdict.signature)
        if alone:
            first = last = alone[0]
        else:
            self.say("no node fails alone: looking for the shortest run of nodes that does")
            first, last = self._shortest(moving, verdict.signature)
        nodes = self.traced.nodes
        case, judged, anonymous = self._last_word(first, last, verdict.signature)
        return _Found(
            case,
            Minimised(
                folder=self.place,
                nodes=len(nodes),
                first=first,
                last=last,
                operators=tuple(node.op_type for node in nodes[first : last + 1]),
                others=tuple(f"{nodes[i].op_type} {nodes[i].name}".strip() for i in alone[1:]),
                verdict=judged,
                anonymous=anonymous,
            ),
        )

    def _alone(self, moving: Sequence[int], signature: Signature) -> list[int]:
        """The nodes that fail in the manner of `signature` when they run alone, each confirmed in a page of its own."""
        failing = []
        for begin in range(0, len(moving), BATCH):
            batch = [(i, case) for i in moving[begin : begin + BATCH] if (case := self._part(i, i)) is not None]
            self.say(f"testing {len(batch)} nodes, each alone")
            verdicts = self.ask([case for _, case in batch]) if batch else []
            pairs = zip(batch, verdicts, strict=True)
            failing += [(i, case) for (i, case), verdict in pairs if alike(verdict, signature)]
        return [i for i, case in failing if alike(self.ask([case])[0], signature)]

    def _shortest(self, moving: Sequence[int], signature: Signature) -> tuple[int, int]:
        """A run of nodes that fails, and that fails no longer without its first or its last node.

        The end is looked for first, by halving: a part that holds the faulty nodes fails. A part that cannot be cut
        out counts as not failing.
        """

        def fails(first: int, last: int) -> bool:
            case = self._part(first, last)
            failed = case is not None and alike(self.ask([case])[0], signature)
            self.say(f"nodes {first + 1} to {last + 1}: {'fail' if failed else 'do not fail'}")
            return failed

        low, high = 0, len(moving) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if fails(moving[0], moving[middle]) else (middle + 1, high)
        end = low
        low, high = 0, end
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fails(moving[middle], moving[end]) else (low, middle - 1)
        return moving[low], moving[end]

    def _last_word(self, first: int, last: int, signature: Signature) -> tuple[Case, Verdict, bool]:
        """The part as a case that was seen to fail in a page of its own; with random values where it still fails."""
        kept = self._part(first, last)
        if kept is None:
            raise CaseError(f"{one_line(self.whole.name)} cannot be taken apart", "report the whole model")
        verdict = self.ask([kept])[0]
        try:
            strange = self._pinned(
                lambda to: without_secrets(self.traced, kept.model.parent, to, kept.name, SEED), kept.name
            )
        except CaseError:
            return kept, verdict, False
        judged = self.ask([strange])[0]
        return (strange, judged, True) if alike(judged, signature) else (kept, verdict, False)

    def _part(self, first: int, last: int) -> Case | None:
        """The nodes `first` to `last` as a case; None where they cannot be cut out."""
        operators = " ".join(node.op_type for node in self.traced.nodes[first : last + 1][:3])
        name = f"nodes {first + 1}-{last + 1} {operators}"
        try:
            return self._pinned(lambda to: part(self.traced, first, last, to, name), name)
        except CaseError:
            return None

    def _pinned(self, fill: Callable[[Path], str], name: str) -> Case:
        return pin(fill, name=one_line(name, limit=120), label=name, root=self.place)


def alike(verdict: Verdict, signature: Signature) -> bool:
    """Whether `verdict` is a failure of the same manner: a part has other outputs, so messages cannot be compared."""
    mine = verdict.signature
    if verdict.outcome is not Outcome.BAD or mine is None:
        return False
    families = (WRONG_VALUES, ERRORS, GPU_ERRORS)
    family = next((kinds for kinds in families if signature.kind in kinds), (signature.kind,))
    return mine.kind in family
