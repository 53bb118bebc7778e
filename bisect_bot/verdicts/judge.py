"""The judgement of one observation: values in, a value out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bisect_bot.model import (
    Case,
    Comparison,
    DataSet,
    Demands,
    Ending,
    Failure,
    Observation,
    Outcome,
    PageError,
    Signature,
    Stage,
    Step,
    Tensor,
    Verdict,
)
from bisect_bot.verdicts.compare import compare
from bisect_bot.verdicts.demands import shares, threshold_of
from bisect_bot.verdicts.messages import normalise, normalise_gpu_error, one_line
from bisect_bot.verdicts.places import elsewhere
from bisect_bot.verdicts.rules import Rules
from bisect_bot.verdicts.shape import describe, kind_of, shape_of_wrongness
from bisect_bot.verdicts.steps import (
    DEVICE_LOST,
    START,
    Ended,
    GpuFault,
    Moment,
    WrongOutputs,
    first_fault,
    is_lost,
    until,
)
from bisect_bot.verdicts.tolerance import Tolerances

JUDGE_VERSION = 3
"""Goes up when the same observation may get another verdict than before, so that a stored one is not reused."""

NO_DEMANDS = Demands()
_CPU_PROVIDER = "CPUExecutionProvider"
_SILENT = "an error without a message"

_INFRA = {
    Ending.BROWSER_GONE: "the browser ended",
    Ending.NO_WEBGPU: "the browser has no WebGPU (navigator.gpu is missing)",
    Ending.NO_ADAPTER: "the browser gave no GPU adapter",
    Ending.WRONG_ADAPTER: "another GPU adapter than the one asked for",
    Ending.HARNESS: "the test page or its server failed",
}
_VIOLENT = {
    Ending.CRASH: (Failure.CRASH, "crash", "the page's process died"),
    Ending.HANG: (Failure.HANG, "hang", "no answer within the time limit"),
}


GPU_PROCESS_DIED = "the GPU process died"
"""How the probe begins to say that of a crash it was not the page's own process that died."""


def judge(
    observation: Observation,
    case: Case,
    tolerances: Tolerances,
    rules: Rules,
    demands: Demands = NO_DEMANDS,
    counts: Mapping[str, int] | None = None,
) -> Verdict:
    """The verdict on `observation`, which came from running `case`.

    The first thing that went wrong, step by step and data set by data set, decides it. A crash or hang is `bad`
    here: whether it repeats, and so is the case's own, is for the caller to find out. A run that is right is bad
    still when it does not meet `demands`; `counts` are the nodes of the model by type, where they are known. Raises
    ConfigError when `tolerances` has nothing for the observation's backend.
    """
    if (unanswered := _no_answer(observation, case)) is not None:
        return unanswered
    compared = [
        [
            _compare_outputs(data_set, outputs, observation.backend, tolerances, demands, step.name)
            for data_set, outputs in pairs
        ]
        for step in observation.steps
        for pairs in [list(zip(case.data_sets, step.outputs, strict=False))]
    ]
    comparisons = tuple(c for step in compared for each in step for c in each)
    seen = _Seen(observation, case, rules, demands, counts, comparisons)
    match first_fault(observation, case, compared):
        case GpuFault(at, errors):
            return _gpu_error(seen, at, errors)
        case WrongOutputs(at, comparisons):
            return _wrong(seen, at, comparisons)
        case Ended(at):
            return _ended(seen, at)
    return _right(seen)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is judged, and by what."""

    observation: Observation
    case: Case
    rules: Rules
    demands: Demands
    counts: Mapping[str, int] | None
    comparisons: tuple[Comparison, ...]

    def bad(self, kind: Failure, message: str, reason: str, at: Moment = START) -> Verdict:
        """The verdict on a failure that began at `at`."""
        return self._verdict(Outcome.BAD, reason, Signature(kind, self.case.name, message, at.when))

    def good(self, reason: str) -> Verdict:
        return self._verdict(Outcome.GOOD, reason, None)

    def _verdict(self, outcome: Outcome, reason: str, signature: Signature | None) -> Verdict:
        where = ran_on(self.observation)
        return Verdict(outcome, reason, signature, self.comparisons, self.observation.backend, where)


def ran_on(observation: Observation) -> str | None:
    """Where the nodes were computed: `gpu`, `cpu`, `mixed`, or None where nothing tells.

    Where the runtime's log places nodes, it decides: a kernel may copy buffers without a dispatch. Where it does
    not, a session asked for WebGPU ran on the CPU when nothing was dispatched to the GPU.
    """
    if observation.backend == "wasm":
        return "cpu"
    if observation.backend == "webgl":
        return "gpu"  # that implementation has no CPU kernels to fall back to
    if observation.backend != "webgpu":
        return None
    on_cpu = any(placement.provider == _CPU_PROVIDER for placement in observation.placements)
    on_gpu = any(placement.provider != _CPU_PROVIDER for placement in observation.placements)
    if not observation.placements:
        return "gpu" if observation.dispatches else "cpu"
    if on_cpu and (on_gpu or observation.dispatches):
        return "mixed"
    return "cpu" if on_cpu else "gpu"


def _no_answer(observation: Observation, case: Case) -> Verdict | None:
    """The verdict where this machine could not answer, or our own page failed."""
    if observation.ending in _INFRA:
        return _infra(_INFRA[observation.ending], observation)
    if observation.ending is Ending.ERROR and (not observation.errors or observation.errors[0].stage is Stage.HARNESS):
        return _infra(_INFRA[Ending.HARNESS], observation)
    names = [[tensor.name for tensor in outputs] for step in observation.steps for outputs in step.outputs]
    if twice := next((name for each in names for name in each if each.count(name) > 1), None):
        return _infra(f"the page returned the output {one_line(twice, 80)} twice", observation)
    if observation.ending is Ending.COMPLETED and case.data_sets:
        wanted = len(case.data_sets)
        counts = [len(step.outputs) for step in observation.steps or (Step(),)]
        if came := [count for count in counts if count != wanted]:
            return _infra(f"the page returned outputs of {came[0]} data sets instead of {wanted}", observation)
    return None


def _compare_outputs(
    data_set: DataSet, outputs: Sequence[Tensor], backend: str, tolerances: Tolerances, demands: Demands, step: str
) -> list[Comparison]:
    came = {tensor.name: tensor for tensor in outputs}
    wanted = {tensor.name for tensor in data_set.expected}
    compared = [
        compare(
            tensor,
            came.get(tensor.name),
            data_set.name,
            tolerances.of(backend, tensor.dtype),
            step=step,
            threshold=threshold_of(tensor.name, demands),
        )
        for tensor in data_set.expected
    ]
    extra = (name for name in came if name not in wanted)
    return compared + [
        Comparison(data_set.name, name, matches=False, elements=0, problem="unexpected", step=step) for name in extra
    ]


def _right(seen: _Seen) -> Verdict:
    """Every output is right: what is left to ask is where it ran, and whether the sessions could be released."""
    observation = seen.observation
    late = next((error for error in observation.errors if error.stage is Stage.RELEASE), None)
    if late is not None:
        return _error(seen, late, Moment(late.step))
    missed = elsewhere(observation, seen.demands, seen.rules, seen.counts)
    if missed is not None and missed.outcome is not Outcome.BAD:
        return Verdict(missed.outcome, missed.message, None, seen.comparisons, observation.backend, ran_on(observation))
    if missed is not None:
        return seen.bad(Failure.FALLBACK, missed.message, f"{missed.message}, but {seen.demands.provider} was required")
    if not seen.comparisons:
        return seen.good("it ran to its end; there is nothing to compare")
    count = len(seen.comparisons)
    worst = max(comparison.max_abs_err for comparison in seen.comparisons)
    reason = f"{count} output{'s match' if count != 1 else ' matches'} (largest error {worst:.3g})"
    differ = shares(seen.comparisons, seen.demands)
    return seen.good(f"{reason}; {differ}" if differ else reason)


def _ended(seen: _Seen, at: Moment) -> Verdict:
    observation = seen.observation
    if observation.ending in _VIOLENT:
        kind, message, reason = _VIOLENT[observation.ending]
        told = one_line(observation.errors[0].message) if observation.errors else ""
        if told.startswith(GPU_PROCESS_DIED):
            message, reason = "crash of the GPU process", told
        return seen.bad(kind, message, f"{until(at, message)}{reason}", at)
    return _error(seen, observation.errors[0], at)


def _error(seen: _Seen, error: PageError, at: Moment) -> Verdict:
    observation, rules = seen.observation, seen.rules
    line = one_line(error.message)
    console = observation.console if rules.is_empty(line) else ()
    excuse = _excuse((error.message, *observation.gpu_errors, *console), rules, error.stage, observation.console)
    if excuse is not None:
        return excuse
    if error.stage is Stage.LOAD:
        return Verdict(Outcome.SKIP, f"does not load here: {line or 'no message'}")
    reason = f"{until(at, 'an error')}{error.stage.value}: {line or _SILENT}"
    # Builds whose exceptions say nothing tell of the kernel on the console, the latest last.
    for text in (error.message, *reversed(console)):
        if (kernel := rules.kernel_failure(text)) is not None:
            told = "" if text is error.message else f" ({one_line(text)})"
            return seen.bad(Failure.KERNEL_ERROR, str(kernel), reason + told, at)
    return seen.bad(Failure.ERROR, normalise(error.message) or _SILENT, reason, at)


def _gpu_error(seen: _Seen, at: Moment, errors: tuple[str, ...]) -> Verdict:
    excuse = _excuse(errors, seen.rules, Stage.RUN)
    if excuse is not None:
        return excuse
    lost = is_lost(errors)
    first = next(error for error in errors if error.startswith(DEVICE_LOST) or not lost)
    said = one_line(first)
    reason = f"{until(at, 'a GPU error')}{said if lost else f'GPU error: {said}'}"
    kind = Failure.DEVICE_LOST if lost else Failure.GPU_ERROR
    return seen.bad(kind, normalise_gpu_error(first) or _SILENT, reason, at)


def _wrong(seen: _Seen, at: Moment, comparisons: Sequence[Comparison]) -> Verdict:
    message = describe(comparisons, seen.case)
    wrong = [comparison for comparison in comparisons if not comparison.matches]
    first = wrong[0]
    how = shape_of_wrongness(first, seen.case) if len(wrong) == 1 else message
    where = f" in {one_line(first.data_set, 80)}" if len(seen.case.data_sets) > 1 else ""
    output = one_line(first.output, 80)
    if first.first:
        element = first.first[0]
        place = f"{output}[{','.join(str(i) for i in element.index)}]" if element.index else output
        reason = (
            f"{place} is {_number(element.actual)} instead of {_number(element.expected)}{where};"
            f" {first.mismatches} of {first.elements} elements differ ({message})"
        )
    else:
        problem = one_line(first.problem or "")
        reason = f"{output}: {problem}{where}" + (f" ({message})" if ";" in message else "")
    differ = shares(comparisons, seen.demands)
    reason = f"{until(at, how)}{reason}{f'; {differ}' if differ else ''}"
    return seen.bad(kind_of(comparisons, seen.case), message, reason, at)


def _number(value: float | int | bool | str) -> str:
    return f"{value:.7g}" if isinstance(value, float) else one_line(str(value), 80)


def _excuse(messages: Sequence[str], rules: Rules, stage: Stage, console: Sequence[str] = ()) -> Verdict | None:
    found = rules.first((one_line(message, limit=4_000) for message in messages), stage, console)
    if found is None:
        return None
    rule, message = found
    if rule.outcome is Outcome.INFRA:
        return Verdict(Outcome.INFRA, f"{rule.says} ({one_line(message)})")
    return Verdict(rule.outcome, f"not applicable: {rule.says} ({one_line(message)})")


def _infra(reason: str, observation: Observation) -> Verdict:
    details = [one_line(error.message) for error in observation.errors[:1]]
    if observation.ending is Ending.WRONG_ADAPTER and observation.adapter is not None:
        details.insert(0, one_line(f"got {observation.adapter}"))
    said = "; ".join(detail for detail in details if detail)
    return Verdict(Outcome.INFRA, f"{reason}: {said}" if said else reason)
