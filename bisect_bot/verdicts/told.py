"""The judgement of what upstream's own test runner said of a case."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from bisect_bot.model import (
    Case,
    Comparison,
    Ending,
    Failure,
    Observation,
    Outcome,
    Signature,
    Stage,
    Told,
    Verdict,
)
from bisect_bot.verdicts.compare import compare
from bisect_bot.verdicts.judge import judge
from bisect_bot.verdicts.messages import one_line
from bisect_bot.verdicts.rules import Rules
from bisect_bot.verdicts.shape import describe, kind_of
from bisect_bot.verdicts.tolerance import Tolerances

# What is left of a C++ exception that nothing caught: its address.
_ADDRESS = re.compile(r"^\d+$")
_LISTED = 10


def judge_told(observation: Observation, case: Case, tolerances: Tolerances, rules: Rules) -> Verdict:
    """The verdict on `observation`, in which another test runner than our own page `told` how `case` went.

    Its word for right and wrong values counts, by its own tolerances; how they are wrong is named as `judge` names it,
    so that both drivers give one signature. Where a node ran, it does not tell. What it cannot do at this revision is
    `skip`. Raises ConfigError when `tolerances` has nothing for the observation's backend.
    """
    told = observation.told
    assert told is not None, "only what was told can be judged"
    if observation.ending is Ending.COMPLETED and told.passed and not observation.errors:
        return Verdict(Outcome.GOOD, "upstream's test runner passes it", provider=observation.backend)
    if observation.ending is Ending.COMPLETED and not told.passed and not observation.gpu_errors:
        return _wrong(observation, told, case, tolerances)
    excused = _excused(observation, rules)
    if excused is not None:
        return excused
    # Its exceptions and GPU errors are those that our page would have seen. Which lines of the console belong to
    # them, nobody knows.
    seen = replace(observation, told=None, steps=(), console=())
    return replace(judge(seen, replace(case, data_sets=()), tolerances, rules), ran_on=None)


def _excused(observation: Observation, rules: Rules) -> Verdict | None:
    """The verdict where the runner of this revision is what failed, or nobody can tell what did."""
    if observation.ending is not Ending.ERROR or not observation.errors:
        return None
    error = observation.errors[0]
    line = one_line(error.message)
    if error.stage is Stage.LOAD and rules.first((error.message,), Stage.LOAD) is None:
        return Verdict(Outcome.SKIP, f"upstream's test runner of this revision cannot run it: {line or 'no message'}")
    if error.stage is Stage.CREATE and _ADDRESS.match(line):
        return Verdict(Outcome.SKIP, "this build does not load the model and does not say why")
    return None


def _wrong(observation: Observation, told: Told, case: Case, tolerances: Tolerances) -> Verdict:
    comparison = _comparison(observation, told, case, tolerances)
    where = f" in {one_line(told.data_set, 80)}" if len(case.data_sets) > 1 else ""
    said = f"upstream's test runner: {one_line(told.message) or 'the outputs are wrong'}{where}"
    if comparison is None:
        return Verdict(
            Outcome.BAD,
            said,
            Signature(Failure.MISMATCH, case.name, "other values"),
            provider=observation.backend,
        )
    message = describe([comparison], case)
    if comparison.problem is not None:
        reason = f"{one_line(comparison.output, 80)}: {comparison.problem}{where}"
    elif comparison.first:
        first = comparison.first[0]
        index = ",".join(str(part) for part in first.index)
        values = f"{_number(first.actual)} instead of {_number(first.expected)}"
        reason = f"{one_line(comparison.output, 80)}[{index}] is {values}{where} ({message})"
    else:
        reason = f"{said} ({message})"
    signature = Signature(kind_of([comparison], case), case.name, message)
    return Verdict(Outcome.BAD, reason, signature, (comparison,), provider=observation.backend)


def _comparison(observation: Observation, told: Told, case: Case, tolerances: Tolerances) -> Comparison | None:
    """The output that was wrong, compared by us where the runner printed it, else as far as it named its elements.

    None where it did not tell which output it was.
    """
    data_set = next((each for each in case.data_sets if each.name == told.data_set), None)
    if data_set is None:
        return None
    printed = [tensor for step in observation.steps for outputs in step.outputs for tensor in outputs]
    for actual in printed:
        for expected in data_set.expected:
            if expected.name == actual.name:
                tolerance = tolerances.of(observation.backend, expected.dtype)
                found = compare(expected, actual, data_set.name, tolerance)
                # By our own tolerances it may be right: the runner's word counts.
                return replace(found, matches=False, first=found.first or told.mismatches[:_LISTED])
    if len(data_set.expected) != 1:
        return None
    only = data_set.expected[0]
    return Comparison(
        data_set.name,
        only.name,
        matches=False,
        elements=math.prod(only.shape),
        mismatches=len(told.mismatches),
        first=told.mismatches[:_LISTED],
    )


def _number(value: float | int | bool | str) -> str:
    return f"{value:.7g}" if isinstance(value, float) else one_line(str(value), 80)
