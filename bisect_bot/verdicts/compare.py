"""One output compared with what was expected, element by element (in numpy, not in Python)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisect_bot.model import Comparison, Mismatch, Tensor
from bisect_bot.verdicts.tolerance import Tolerance, floats_match

MAX_LISTED = 10
_FOUR_BITS = {"int4": 8, "uint4": 0}


def compare(expected: Tensor, actual: Tensor | None, data_set: str, tolerance: Tolerance) -> Comparison:
    """Compares `actual` with `expected`. Type and shape must be the same; None means that it did not come.

    Floats are compared by the rule of `tolerance` (float16 and float32 widened), everything else exactly.
    `all_zero` and `all_equal` tell that `actual` holds nothing but zeros, or one value again and again.
    """

    def no(problem: str) -> Comparison:
        return Comparison(data_set, expected.name, matches=False, elements=math.prod(expected.shape), problem=problem)

    if actual is None:
        return no("missing")
    if actual.dtype != expected.dtype:
        return no(f"type {actual.dtype} instead of {expected.dtype}")
    if actual.shape != expected.shape:
        return no(f"shape {list(actual.shape)} instead of {list(expected.shape)}")
    try:
        got, wish = elements(actual), elements(expected)
    except (ValueError, TypeError) as error:
        return no(f"damaged data: {error}")
    return _compare(got, wish, expected.name, data_set, tolerance)


def elements(tensor: Tensor) -> NDArray[np.generic]:
    """The elements of `tensor` in its shape; 4-bit types unpacked to 8 bits (the low half of a byte comes first).

    Raises ValueError when the data does not fill the shape, TypeError for an element type that is unknown.
    """
    if tensor.dtype not in _FOUR_BITS:
        return tensor.array()
    count = math.prod(tensor.shape)
    packed = np.frombuffer(tensor.data, dtype=np.uint8)
    if len(packed) != (count + 1) // 2:
        raise ValueError(f"{len(packed)} bytes do not hold {count} elements of 4 bits")
    halves = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)[:count].astype(np.int8)
    sign = _FOUR_BITS[tensor.dtype]
    return ((halves ^ sign) - sign).reshape(tensor.shape)


def _compare(
    got: NDArray[np.generic], wish: NDArray[np.generic], output: str, data_set: str, tolerance: Tolerance
) -> Comparison:
    if got.dtype.kind == "f":
        a, b = got.astype(np.float64), wish.astype(np.float64)
        same, (max_abs, max_rel) = floats_match(a, b, tolerance), _float_errors(a, b)
        nan, inf = int(np.isnan(a).sum()), int(np.isinf(a).sum())
    else:
        same, (max_abs, max_rel) = np.asarray(got == wish), _exact_errors(got, wish)
        nan, inf = 0, 0
    wrong = np.flatnonzero(~same)
    first = tuple(_mismatch(int(at), got, wish) for at in wrong[:MAX_LISTED])
    return Comparison(
        data_set,
        output,
        matches=not len(wrong),
        elements=got.size,
        mismatches=len(wrong),
        first=first,
        max_abs_err=max_abs,
        max_rel_err=max_rel,
        nan=nan,
        inf=inf,
        all_zero=bool(got.size) and not np.any(got),
        all_equal=got.size > 1 and bool((got == got.flat[0]).all()),
    )


def _mismatch(at: int, got: NDArray[np.generic], wish: NDArray[np.generic]) -> Mismatch:
    index = tuple(int(i) for i in np.unravel_index(at, got.shape))
    return Mismatch(index, got[index].item(), wish[index].item())


def _float_errors(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(over="ignore"):
        return _largest(np.abs(a[finite] - b[finite]), np.abs(b[finite]))


def _exact_errors(a: NDArray[Any], b: NDArray[Any]) -> tuple[float, float]:
    # The difference of two 64-bit integers needs 65 bits signed, but its amount fits 64 unsigned ones.
    error = np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)
    return _largest(error.astype(np.float64), np.abs(b.astype(np.float64)))


def _largest(error: NDArray[np.float64], size: NDArray[np.float64]) -> tuple[float, float]:
    """The largest absolute error, and the largest in relation to an expected value that is not zero."""
    with np.errstate(over="ignore"):
        relative = error[size > 0] / size[size > 0]
    return float(error.max(initial=0.0)), float(relative.max(initial=0.0))
