"""What a run of upstream's test runner says of each case, as observations."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bisect_bot.model import Case, Ending, Observation, PageError, Stage, Step, Told
from bisect_bot.probes.types import Probe
from bisect_bot.probes.upstream.output import UNREAD, Output, Result
from bisect_bot.probes.upstream.transplant import Turn
from bisect_bot.probes.upstream.values import actual_in, mismatches_in

LINES = 20
CHARACTERS = 2_000
# chai's words for wrong outputs, and the plain Error that replaced them in c6c6d78445 (2025-10-28).
_WRONG = re.compile(r"^AssertionError\b|^(?:Error: )?tensor data should match\b")
_TIMEOUT = re.compile(r"^(?:Error: )?Timeout of \d+ms exceeded")
_NO_ADAPTER = re.compile(r"Failed to get GPU adapter")
_NO_WEBGPU = re.compile(r"WebGPU is not supported in (?:the )?current environment")
# The file that the runner's own code is bundled into; the innermost frame of a stack is its first.
_RUNNERS_FRAME = re.compile(r"^at .*\btest/ort\.(?:test|dev|perf)(?:\.min)?\.js:")
_BUNDLE = re.compile(r"dist/(ort[\w.-]*\.m?js)\b")
# Its kernels are bundled with the runner, so that its own frames tell nothing.
_IN_RUNNER = ("webgl",)
# How lines about errors look, the most telling first: esbuild's summary, tsc's and karma's lines, anything else.
_ERRORS = (
    re.compile(r"^\S+:\d+:\d+: ERROR: "),
    re.compile(r": error TS\d+: |:ERROR \["),
    re.compile(r"\berror\b", re.IGNORECASE),
)
_LOOKED_AT = 200
_VIOLENT = (Ending.CRASH, Ending.HANG, Ending.BROWSER_GONE)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the runner: what it said, its exit status, or why it was ended."""

    output: Output
    status: int | None
    why: Ending | None
    log: Path | None

    @property
    def is_hopeless(self) -> bool:
        """Whether it ended before any test, in a way in which it will with any tests.

        So it does before it starts a browser, and when that cannot read the scripts.
        """
        unread = self.output.problem is not None and self.output.problem[1].startswith(UNREAD)
        return self.why is None and (unread or not self.output.started)

    @property
    def complaint(self) -> str:
        """The line that most likely says what went wrong."""
        if self.output.problem is not None:
            return self.output.problem[1]
        lines = self.output.last(_LOOKED_AT)
        errors = (line for pattern in _ERRORS for line in lines if pattern.search(line))
        return next(errors, lines[-1] if lines else "it printed nothing").strip()[:CHARACTERS]

    @property
    def is_violent(self) -> bool:
        """Whether the page or the browser ended, or stopped answering, after it was there."""
        ending = self.why or (self.output.problem or (None, ""))[0]
        return self.output.connected and ending in _VIOLENT


def observed(run: Run, turns: Sequence[Turn], probe: Probe, known: Collection[int] = ()) -> dict[int, Observation]:
    """The observations of `turns`, by index. Those are left out that have to be run again.

    Those of `known` have an answer from an earlier run.

    After an exception nothing that failed later in the page is believed: one failed kernel makes all later calls fail.
    Where a crash or a hang ended the page, the results of several cases may be lost, and whose the GPU errors of a page
    are, nobody knows: both are believed of the last of `turns` only, when all before it are answered.
    """
    seen: dict[int, Observation] = {}
    spoilt = False
    errors = run.output.gpu_errors
    for turn in turns:
        found = _told(run.output, turn, probe)
        if found is None or (spoilt and not _passes(found)):
            continue
        if errors and found.ending is Ending.COMPLETED and not _passes(found):
            if turn is not turns[-1] or any(each.index not in seen and each.index not in known for each in turns[:-1]):
                continue
            found = replace(found, gpu_errors=errors)
        seen[turn.index] = found
        spoilt = spoilt or spoils(found)
    left = [turn for turn in turns if turn.index not in seen and turn.index not in known]
    if spoilt or ((run.is_violent or errors) and left != [turns[-1]]):
        return seen
    return seen | {turn.index: _untold(run, turn, probe, answered=bool(seen)) for turn in left}


def spoils(observation: Observation) -> bool:
    """Whether the page is of no more use after it."""
    stage = observation.errors[0].stage if observation.errors else None
    failed = observation.ending is not Ending.COMPLETED and stage is not Stage.LOAD
    return failed or bool(observation.gpu_errors)


def _passes(observation: Observation) -> bool:
    return observation.told is not None and observation.told.passed


def _told(output: Output, turn: Turn, probe: Probe) -> Observation | None:
    """What the runner said of the case of `turn`; None when it is not all, and nothing failed."""
    results = output.of(turn.index)
    blank = _blank(output, turn, probe)
    before = next((r for r in results if r.hook == "before" and not r.passed), None)
    if before is not None:
        return _failed(before, turn, blank, Stage.CREATE)
    sets = {result.data_set: result for result in results if not result.hook}
    for number in range(len(turn.case.data_sets)):
        result = sets.get(number)
        if result is None:
            return None
        if not result.passed:
            return _failed(result, turn, blank, Stage.RUN, number)
    return _passed(results, blank) if sets else None


def _passed(results: Sequence[Result], blank: Observation) -> Observation:
    released = next((r for r in results if r.hook == "after" and not r.passed), None)
    late = (PageError(Stage.RELEASE, released.message, released.stack),) if released is not None else ()
    return replace(blank, ending=Ending.COMPLETED, told=Told(passed=True), errors=late)


def _failed(result: Result, turn: Turn, blank: Observation, stage: Stage, number: int = 0) -> Observation | None:
    """What it means that `result`, of the data set `number`, failed; None where the runner did not come to say why."""
    name = turn.case.data_sets[number].name if turn.case.data_sets else ""
    numbers = mismatches_in(result.wrong)
    console = tuple(line[:CHARACTERS] for line in result.said[-LINES:])
    if stage is Stage.RUN and _WRONG.match(result.message):
        told = Told(passed=False, message=result.message, data_set=name, mismatches=numbers)
        return replace(
            blank, ending=Ending.COMPLETED, told=told, console=console, steps=_steps(result, turn.case, number)
        )
    if not result.message:
        return None
    seen = replace(
        blank,
        ending=_ending(result.message),
        told=Told(passed=False, message=result.message, data_set=name if stage is Stage.RUN else ""),
        console=console,
    )
    if turn.backend not in _IN_RUNNER and _RUNNERS_FRAME.match(result.stack) and seen.ending is Ending.ERROR:
        stage = Stage.LOAD
    return replace(seen, errors=(PageError(stage, result.message, result.stack),))


def _ending(message: str) -> Ending:
    if _NO_ADAPTER.search(message):
        return Ending.NO_ADAPTER
    if _NO_WEBGPU.search(message):
        return Ending.NO_WEBGPU
    return Ending.HANG if _TIMEOUT.match(message) else Ending.ERROR


def _steps(result: Result, case: Case, number: int) -> tuple[Step, ...]:
    """The outputs that the runner printed: of the data set `number` the wrong one, of those before none."""
    actual = actual_in(result.wrong, case.data_sets[number])
    return () if actual is None else (Step(outputs=((),) * number + ((actual,),)),)


def _untold(run: Run, turn: Turn, probe: Probe, *, answered: bool) -> Observation:
    """What it means that the runner said nothing of the case of `turn`, before which `answered` says others ran."""
    output = run.output
    ending, line = output.problem or (None, "")
    if run.why in _WHY:
        ending, line = run.why, _WHY[run.why]
    elif run.why is Ending.HARNESS:
        limit = probe.limits.probe_s
        late = f"not finished: the probe's limit of {limit:.0f} s passed (--probe-timeout)"
        ending, line = Ending.HARNESS, late if output.connected or run.log is None else f"no browser came up; {late}"
    elif run.is_hopeless or ending is Ending.ERROR:
        ending, line = Ending.ERROR, line or run.complaint
    elif ending is None:
        what = "stopped before this case" if answered else "said nothing of this case"
        ending, line = Ending.HARNESS, f"upstream's test runner {what}: {run.complaint}"
    stage = Stage.LOAD if ending is Ending.ERROR else Stage.HARNESS
    where = (f"the whole output of upstream's test runner is in {run.log}",) if run.log else ()
    return replace(
        _blank(output, turn, probe),
        ending=ending,
        told=Told(passed=False, message=line),
        errors=(PageError(stage, line),),
        console=(*(each[:CHARACTERS] for each in output.last(LINES - 1)), *where),
    )


_WHY = {
    Ending.CRASH: "the page's process died",
    Ending.HANG: "upstream's test runner said nothing for longer than a case may take",
    Ending.BROWSER_GONE: "it crashed while the tests ran",
}


def _blank(output: Output, turn: Turn, probe: Probe) -> Observation:
    built = [found[1] for line in output.lines if line.startswith("Building ") and (found := _BUNDLE.search(line))]
    return Observation(
        case=turn.case.name,
        artifact=probe.artifact.digest,
        bundle=built[-1] if built else probe.bundle.file,
        backend=turn.backend,
        ending=Ending.HARNESS,
        adapter=probe.target.adapter,
        told=Told(passed=False),
    )
