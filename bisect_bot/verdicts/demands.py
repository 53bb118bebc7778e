"""What a user asks beyond right values: how it is typed, what fits a case, and which shares it watches."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bisect_bot.errors import UsageError
from bisect_bot.model import Comparison, Demands, Foreground
from bisect_bot.verdicts.messages import one_line
from bisect_bot.verdicts.rules import Rules

_OPERATOR = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a case is, as far as demands ask: its outputs, and its operators (None: nobody knows, as of a script)."""

    outputs: frozenset[str]
    operators: frozenset[str] | None = None


def parse_demands(require_provider: str, foreground: Iterable[str], rules: Rules) -> Demands:
    """The demands that `webgpu`, `webgpu:Conv,MatMul` and `mask>0.5`, `>0.5` mean. Raises UsageError."""
    provider, colon, listed = require_provider.partition(":")
    operators = tuple(dict.fromkeys(word.strip() for word in listed.split(","))) if colon else ()
    known = sorted({each.backend for each in rules.providers.values()})
    if require_provider and (provider not in known or not all(_OPERATOR.fullmatch(word) for word in operators)):
        raise UsageError(
            f"--require-provider {one_line(require_provider, 80)!r} names no provider",
            f"Write webgpu, or webgpu:Conv,MatMul for these operators only. Providers: {', '.join(known)}.",
        )
    watched = tuple(_foreground(text) for text in foreground)
    outputs = [each.output for each in watched]
    if twice := next((name for name in outputs if outputs.count(name) > 1), None):
        raise UsageError(f"--foreground watches {one_line(twice, 80)} twice", "Give each output one threshold.")
    if outputs.count("") > 1:
        raise UsageError("--foreground watches every output twice", "Give one threshold without a name.")
    return Demands(provider, operators, watched)


def check_demands(demands: Demands, backends: Sequence[str], cases: Sequence[Facts]) -> None:
    """Raises UsageError for a demand that no backend and no case can ever meet."""
    if demands.provider and demands.provider not in backends:
        raise UsageError(
            f"--require-provider {demands.provider} asks nothing of --backend {' '.join(backends)}",
            f"Add --backend {demands.provider}, or leave it out.",
        )
    if all(case.operators is not None for case in cases):
        _known(demands.operators, {name for case in cases for name in case.operators or ()}, "operator")
        outputs = {name for case in cases for name in case.outputs}
        _known([each.output for each in demands.foreground if each.output], outputs, "output")


def narrowed(demands: Demands, case: Facts) -> Demands:
    """What of `demands` concerns a case: none of them a case without the operators and outputs that they name."""
    if demands.operators and case.operators is not None:
        mine = tuple(name for name in demands.operators if name in case.operators)
        demands = replace(demands, operators=mine, provider=demands.provider if mine else "")
    return demands


def threshold_of(output: str, demands: Demands) -> float | None:
    """The threshold that `output` is watched by; one that names the output goes before one that names none."""
    fitting = [each for each in demands.foreground if each.output in (output, "")]
    return max(fitting, key=lambda each: len(each.output)).threshold if fitting else None


def shares(comparisons: Iterable[Comparison], demands: Demands) -> str:
    """The watched shares that differ, each once, the first of its output: `mask>0.5: 0% instead of 23%`."""
    said: dict[str, str] = {}
    for each in comparisons:
        threshold = threshold_of(each.output, demands)
        if each.foreground is None or threshold is None or each.output in said:
            continue
        actual, expected = (f"{share:.3g}%" for share in (100 * each.foreground[0], 100 * each.foreground[1]))
        if actual != expected:
            said[each.output] = f"{one_line(each.output, 80)}>{threshold:g}: {actual} instead of {expected}"
    return "; ".join(said.values())


def _foreground(text: str) -> Foreground:
    output, sign, number = text.rpartition(">")
    try:
        threshold = float(number)
    except ValueError:
        threshold = math.nan
    if not sign or not math.isfinite(threshold):
        raise UsageError(
            f"--foreground {one_line(text, 80)!r} is no output and threshold",
            "Write 'mask>0.5', or '>0.5' for every output (in quotes: > means something to the shell).",
        )
    return Foreground(output.strip(), threshold)


def _known(names: Iterable[str], known: set[str], what: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        listed = ", ".join(sorted(one_line(name, 80) for name in known)[:20]) or "none"
        raise UsageError(f"no case has the {what} {one_line(', '.join(unknown))}", f"The cases have: {listed}.")
