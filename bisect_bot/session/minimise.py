"""From a failing model to the part of it that fails: first each node alone, then the shortest run of nodes.

A delta debugger such as Polygraphy's would do the same search, but runs models in its own way; here every question is
one probe of the bench, so its answers are journaled, retried and smoked like all others.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import onnx

from bisect_bot.cases.anonymous import anonymous
from bisect_bot.cases.pin import pin
from bisect_bot.cases.subgraph import Trace, part, refuse_indivisible, trace, write
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError, UsageError
from bisect_bot.model import Case, Failure, Outcome, Request, Revision, Signature, Verdict
from bisect_bot.scratch import scratch
from bisect_bot.session import against
from bisect_bot.session.journal import SessionState
from bisect_bot.session.run import bench_of
from bisect_bot.session.supply import Supply
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
    `untested` counts the nodes that could not be run alone. `random` tells that inputs, weights and names are not the
    model's own; `left` are those that are all the same, in words.
    """

    folder: Path
    nodes: int
    first: int
    last: int
    operators: tuple[str, ...]
    others: tuple[str, ...]
    untested: int
    verdict: Verdict
    random: bool
    left: tuple[str, ...] = ()

    @property
    def anonymous(self) -> bool:
        """Whether nothing of the model's own values is left in it."""
        return self.random and not self.left


def minimise(request: Request, out: Path, workshop: Workshop) -> Minimised:
    """Finds the smallest part of the request's one case that fails at its revision, and writes it to `out`.

    Raises UsageError when the case does not fail there or `out` holds something, CaseError when it cannot be taken
    apart, MachineError when this machine cannot answer.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} holds something already", "Name another folder with --out.")
    workshop.check_targets(request)
    supply = Supply.of(request, workshop)
    revision = supply.meant(request.good)
    request, cases = workshop.pin(replace(request, good=revision.id, bad=revision.id, isolate=True))
    if len(cases) != 1:
        raise UsageError(f"{len(cases)} cases were named, and one can be taken apart", "Name one of them.")
    refuse_indivisible(cases[0])
    against.refuse(request, cases)
    session = workshop.journal.start_session(request)
    state = SessionState.FAILED
    try:
        with scratch(parent=workshop.cache / "tmp") as place:
            ask = _asker(session, request, revision, supply)
            found = _Search(cases[0], place.path, ask, workshop.watcher.say).run()
            folder = _give(found.case, out)
        state = SessionState.FINISHED
    finally:
        workshop.journal.finish_session(session, state)
    return replace(found.minimised, folder=folder)


def _asker(session: str, request: Request, revision: Revision, supply: Supply) -> Ask:
    (unit,) = units(supply.workshop.targets(request)[:1], request.backends[:1])

    def ask(cases: Sequence[Case]) -> list[Verdict]:
        # One-node models that go wrong say so without an error as a rule: they can share a page, which is far faster.
        together = replace(request, isolate=len(cases) == 1)
        bench = bench_of(session, together, cases, supply)
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
    """The search for the part of `whole` that fails; `place` is where its parts are pinned."""

    whole: Case
    place: Path
    ask: Ask
    say: Callable[[str], None]

    def run(self) -> _Found:
        """The smallest part that fails in the manner of the whole.

        Raises UsageError when the whole does not fail, CaseError when nothing that was cut out of it does.
        """
        (verdict,) = self.ask([self.whole])
        if verdict.outcome is not Outcome.BAD or verdict.signature is None:
            raise UsageError(
                f"{one_line(self.whole.name)} is {verdict.outcome} there ({verdict.reason})",
                "Name a revision where it is bad with --at; `bisect-bot check` tells.",
            )
        self.say(f"the whole model fails: {verdict.reason}")
        return self._with_failing_data(verdict).run()

    def _with_failing_data(self, verdict: Verdict) -> _Parts:
        """The parts of the whole, fed with the first data set for which all of its nodes fail when they are cut out."""
        assert verdict.signature is not None
        named = next((comparison.data_set for comparison in verdict.comparisons if not comparison.matches), "")
        # The one that the verdict tells of comes first: the rest are for failures that name none.
        order = sorted(range(len(self.whole.data_sets)), key=lambda i: self.whole.data_sets[i].name != named)
        for index in order:
            parts = _Parts(trace(self.whole, index), verdict.signature, self.place, self.ask, self.say)
            if parts.all_fail():
                return parts
        raise _indivisible(self.whole.name, "its nodes do not fail in that manner when they are fed by themselves")


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a model, and which of them fail in the manner of `signature`."""

    traced: Trace
    signature: Signature
    place: Path
    ask: Ask
    say: Callable[[str], None]

    def all_fail(self) -> bool:
        """Whether all nodes that compute from the inputs fail, cut out together."""
        pieces = self.traced.pieces()
        return bool(pieces) and self._fails(pieces[0][0], pieces[-1][1])

    def run(self) -> _Found:
        """The smallest part that fails, where `all_fail`."""
        pieces = self.traced.pieces()
        alone, untested = self._alone(pieces)
        if alone:
            first, last = alone[0]
        else:
            self.say("no node fails alone: looking for the shortest run of nodes that does")
            first, last = self._shortest(pieces)
        case, verdict, left = self._last_word(first, last)
        nodes = self.traced.nodes
        minimised = Minimised(
            folder=self.place,
            nodes=len(nodes),
            first=first,
            last=last,
            operators=tuple(node.op_type for node in nodes[first : last + 1]),
            others=tuple(f"{nodes[i].op_type} {nodes[i].name}".strip() for i, _ in alone[1:]),
            untested=untested,
            verdict=verdict,
            random=left is not None,
            left=left or (),
        )
        return _Found(case, minimised)

    def _alone(self, pieces: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
        """The pieces that fail when they run alone, each confirmed in a page of its own.

        Also how many nodes could not be run alone: those of pieces of several, and those that cannot be cut out.
        """
        failing = []
        untested = sum(last - first + 1 for first, last in pieces if last > first)
        for begin in range(0, len(pieces), BATCH):
            cut = [(piece, self._part(*piece)) for piece in pieces[begin : begin + BATCH]]
            untested += sum(case is None and first == last for (first, last), case in cut)
            batch = [(piece, case) for piece, case in cut if case is not None]
            self.say(f"testing {len(batch)} nodes, each alone")
            verdicts = self.ask([case for _, case in batch]) if batch else []
            pairs = zip(batch, verdicts, strict=True)
            failing += [(piece, case) for (piece, case), verdict in pairs if alike(verdict, self.signature)]
        return [piece for piece, case in failing if alike(self.ask([case])[0], self.signature)], untested

    def _shortest(self, pieces: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """A run of nodes that fails, and that fails no longer without its first or its last piece.

        The end is looked for first, by halving: a part that holds the faulty nodes fails. A part that cannot be cut
        out counts as not failing. All of them together fail.
        """
        low, high = 0, len(pieces) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fails(pieces[0][0], pieces[middle][1]) else (middle + 1, high)
        end = low
        low, high = 0, end
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._fails(pieces[middle][0], pieces[end][1]) else (low, middle - 1)
        return pieces[low][0], pieces[end][1]

    def _fails(self, first: int, last: int) -> bool:
        case = self._part(first, last)
        failed = case is not None and alike(self.ask([case])[0], self.signature)
        self.say(f"nodes {first + 1} to {last + 1}: {'fail' if failed else 'do not fail'}")
        return failed

    def _last_word(self, first: int, last: int) -> tuple[Case, Verdict, tuple[str, ...] | None]:
        """The part as a case that was seen to fail in a page of its own; with random values where it still fails.

        The last is what is the model's own still, in words; None where the values are not random. Raises CaseError
        when the part does not fail.
        """
        kept = self._part(first, last)
        verdict = self.ask([kept])[0] if kept is not None else None
        if kept is None or verdict is None or not alike(verdict, self.signature):
            raise _indivisible(self.signature.case, "the part that failed does not fail each time")
        model = onnx.load(kept.model)
        feeds = {value.name: self.traced.values[value.name] for value in model.graph.input}
        for integers in (True, False):
            strange = anonymous(model, feeds, SEED, integers=integers)
            fill = partial(write, strange.model, strange.feeds, label=kept.name)
            try:
                case = self._pinned(fill, kept.name)
            except CaseError:
                continue
            judged = self.ask([case])[0]
            if alike(judged, self.signature):
                return case, judged, strange.left
        return kept, verdict, None

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


def _indivisible(name: str, why: str) -> CaseError:
    return CaseError(f"{one_line(name)} cannot be taken apart: {why}", "report the whole model")


def alike(verdict: Verdict, signature: Signature) -> bool:
    """Whether `verdict` is the failure `signature`, as a part of the model shows it.

    It begins at the same step of the plan. Wrong values of any kind are alike, as a part has other outputs; a failing
    kernel is the same operator's; other errors say the same.
    """
    mine = verdict.signature
    if verdict.outcome is not Outcome.BAD or mine is None or mine.when != signature.when:
        return False
    if mine.kind in WRONG_VALUES:
        return signature.kind in WRONG_VALUES
    if {mine.kind, signature.kind} == {Failure.KERNEL_ERROR}:
        return mine.message.partition(":")[0] == signature.message.partition(":")[0]
    if {mine.kind, signature.kind} == set(ERRORS):
        # A build may name the kernel for a model of one node only, or the other way round; what was wrong is the same.
        return bool(mine.message) and (mine.message in signature.message or signature.message in mine.message)
    if signature.kind in (Failure.ERROR, *GPU_ERRORS):
        return (mine.kind, mine.message) == (signature.kind, signature.message)
    return mine.kind is signature.kind
