"""The shape of wrongness: how an output is wrong, in words that do not change from build to build."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bisect_bot.model import Case, Comparison, Failure, Tensor
from bisect_bot.verdicts.compare import elements
from bisect_bot.verdicts.messages import one_line

_KINDS = {"all zero": Failure.ALL_ZERO, "NaN": Failure.NAN, "constant": Failure.CONSTANT}


def describe(comparisons: Iterable[Comparison], case: Case) -> str:
    """All outputs that do not match, in order, each with how it is wrong: `y: all zero; z: NaN, other values`."""
    wrong: dict[str, dict[str, None]] = {}
    for comparison in comparisons:
        if not comparison.matches:
            wrong.setdefault(comparison.output, {})[shape_of_wrongness(comparison, case)] = None
    return "; ".join(f"{one_line(output, 80)}: {', '.join(shapes)}" for output, shapes in wrong.items())


def kind_of(comparisons: Iterable[Comparison], case: Case) -> Failure:
    """The kind of failure that the first output which does not match shows."""
    wrong = next((comparison for comparison in comparisons if not comparison.matches), None)
    return _KINDS.get(shape_of_wrongness(wrong, case), Failure.MISMATCH) if wrong else Failure.MISMATCH


def shape_of_wrongness(comparison: Comparison, case: Case) -> str:
    """How the output of a comparison that does not match is wrong.

    `missing`, `unexpected`, `other type`, `other shape`, `damaged`; else `all zero`, `NaN` or `infinite` (where the
    expected output has fewer), `constant` (where the expected one is not), or `other values`.
    """
    if comparison.problem is not None:
        word = comparison.problem.split(maxsplit=1)[0]
        return {"type": "other type", "shape": "other shape"}.get(word, word)
    if comparison.all_zero:
        return "all zero"
    wish = _expected(comparison, case)
    nan, inf, constant = _traits(wish) if wish is not None else (0, 0, False)
    if comparison.nan > nan:
        return "NaN"
    if comparison.inf > inf:
        return "infinite"
    return "constant" if comparison.all_equal and not constant else "other values"


def _expected(comparison: Comparison, case: Case) -> Tensor | None:
    tensors = (t for data_set in case.data_sets if data_set.name == comparison.data_set for t in data_set.expected)
    return next((tensor for tensor in tensors if tensor.name == comparison.output), None)


def _traits(tensor: Tensor) -> tuple[int, int, bool]:
    values = elements(tensor)
    constant = values.size > 0 and bool((values == values.flat[0]).all())
    if values.dtype.kind != "f":
        return 0, 0, constant
    return int(np.isnan(values).sum()), int(np.isinf(values).sum()), constant
