"""The judgement of one observation: values in, a value out."""

from __future__ import annotations

from collections.abc import Sequence

from bisect_bot.model import (
    Case,
    Comparison,
    DataSet,
    Ending,
    Failure,
    Observation,
    Outcome,
    PageError,
    Signature,
    Stage,
    Tensor,
    Verdict,
)
from bisect_bot.verdicts.compare import compare
from bisect_bot.verdicts.messages import normalise, normalise_gpu_error, one_line
from bisect_bot.verdicts.rules import Rules
from bisect_bot.verdicts.shape import describe
from bisect_bot.verdicts.tolerance import Tolerance, Tolerances

JUDGE_VERSION = 1
"""Goes up when the same observation may get another verdict than before, so that a stored one is not reused."""

_CPU_PROVIDER = "CPUExecutionProvider"

_INFRA = {
    Ending.BROWSER_GONE: "the browser ended",
    Ending.NO_WEBGPU: "the browser has no WebGPU (navigator.gpu is missing)",
    Ending.NO_ADAPTER: "the browser gave no GPU adapter",
    Ending.WRONG_ADAPTER: "another GPU adapter than the one asked for",
    Ending.HARNESS: "the test page or its server failed",
}


def judge(observation: Observation, case: Case, tolerances: Tolerances, rules: Rules) -> Verdict:
    """The verdict on `observation`, which came from running `case`.

    A GPU error counts before the wrong outputs that come of it; wrong outputs of a data set that completed count
    before an error in a later one. A crash or hang is `bad` here: whether it repeats, and so is the case's own, is
    for the caller to find out. Raises ConfigError when `tolerances` has nothing for the observation's backend.
    """
    if observation.ending in _INFRA:
        return _infra(_INFRA[observation.ending], observation)
    if observation.ending is Ending.ERROR and (not observation.errors or observation.errors[0].stage is Stage.HARNESS):
        return _infra(_INFRA[Ending.HARNESS], observation)
    tolerance = tolerances.of(observation.backend)
    comparisons = tuple(
        comparison
        for data_set, outputs in zip(case.data_sets, observation.outputs, strict=False)
        for comparison in _compare_outputs(data_set, outputs, tolerance)
    )
    if observation.ending is Ending.CRASH:
        died = "the page's process died"
        return _bad(observation, case, comparisons, kind=Failure.CRASH, message="crash", reason=died)
    if observation.ending is Ending.HANG:
        late = "no answer within the time limit"
        return _bad(observation, case, comparisons, kind=Failure.HANG, message="hang", reason=late)
    if observation.ending is Ending.ERROR:
        return _failed(observation, case, comparisons, observation.errors[0], rules)
    return _completed(observation, case, comparisons, rules)


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


def _compare_outputs(data_set: DataSet, outputs: Sequence[Tensor], tolerance: Tolerance) -> list[Comparison]:
    came = {tensor.name: tensor for tensor in outputs}
    wanted = {tensor.name for tensor in data_set.expected}
    compared = [compare(tensor, came.get(tensor.name), data_set.name, tolerance) for tensor in data_set.expected]
    extra = [name for name in came if name not in wanted]
    return compared + [Comparison(data_set.name, n, matches=False, elements=0, problem="unexpected") for n in extra]


def _completed(observation: Observation, case: Case, comparisons: tuple[Comparison, ...], rules: Rules) -> Verdict:
    if len(observation.outputs) != len(case.data_sets):
        came, wanted = len(observation.outputs), len(case.data_sets)
        return _infra(f"the page returned outputs of {came} data sets instead of {wanted}", observation)
    if observation.gpu_errors:
        return _gpu_error(observation, case, comparisons, rules)
    if not all(comparison.matches for comparison in comparisons):
        return _mismatch(observation, case, comparisons)
    worst = max((comparison.max_abs_err for comparison in comparisons), default=0.0)
    count = len(comparisons)
    reason = f"{count} output{'s match' if count != 1 else ' matches'} (largest error {worst:.3g})"
    return Verdict(Outcome.GOOD, reason, None, comparisons, observation.backend, ran_on(observation))


def _failed(
    observation: Observation, case: Case, comparisons: tuple[Comparison, ...], error: PageError, rules: Rules
) -> Verdict:
    if error.stage is Stage.LOAD:
        return Verdict(Outcome.SKIP, f"does not load here: {one_line(error.message) or 'no message'}")
    if not all(comparison.matches for comparison in comparisons):
        return _mismatch(observation, case, comparisons)
    console = observation.console if rules.is_empty(one_line(error.message)) else ()
    excuse = _excuse((error.message, *observation.gpu_errors, *console), rules)
    if excuse is not None:
        return excuse
    message = normalise(error.message) or "an error without a message"
    reason = f"{error.stage.value}: {one_line(error.message) or 'an error without a message'}"
    return _bad(observation, case, comparisons, kind=Failure.ERROR, message=message, reason=reason)


def _gpu_error(observation: Observation, case: Case, comparisons: tuple[Comparison, ...], rules: Rules) -> Verdict:
    excuse = _excuse(observation.gpu_errors, rules)
    if excuse is not None:
        return excuse
    first = observation.gpu_errors[0]
    message = normalise_gpu_error(first) or "an error without a message"
    reason = f"GPU error: {one_line(first)}"
    return _bad(observation, case, comparisons, kind=Failure.GPU_ERROR, message=message, reason=reason)


def _mismatch(observation: Observation, case: Case, comparisons: tuple[Comparison, ...]) -> Verdict:
    message = describe(comparisons, case)
    wrong = next(comparison for comparison in comparisons if not comparison.matches)
    where = f" in {one_line(wrong.data_set, 80)}" if len(case.data_sets) > 1 else ""
    output = one_line(wrong.output, 80)
    if wrong.first:
        first = wrong.first[0]
        place = f"{output}[{','.join(str(i) for i in first.index)}]" if first.index else output
        reason = (
            f"{place} is {_number(first.actual)} instead of {_number(first.expected)}{where};"
            f" {wrong.mismatches} of {wrong.elements} elements differ ({message})"
        )
    else:
        problem = one_line(wrong.problem or "")
        reason = f"{output}: {problem}{where}" + (f" ({message})" if ";" in message else "")
    return _bad(observation, case, comparisons, kind=Failure.MISMATCH, message=message, reason=reason)


def _number(value: float | int | bool | str) -> str:
    return f"{value:.7g}" if isinstance(value, float) else one_line(str(value), 80)


def _excuse(messages: Sequence[str], rules: Rules) -> Verdict | None:
    found = rules.first(one_line(message, limit=4_000) for message in messages)
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


def _bad(
    observation: Observation,
    case: Case,
    comparisons: tuple[Comparison, ...],
    *,
    kind: Failure,
    message: str,
    reason: str,
) -> Verdict:
    signature = Signature(kind, case.name, message)
    return Verdict(Outcome.BAD, reason, signature, comparisons, observation.backend, ran_on(observation))
