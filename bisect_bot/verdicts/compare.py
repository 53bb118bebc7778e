"""One output compared with what was expected, element by element (in numpy, not in Python)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisect_bot.model import Comparison, Mismatch, Tensor
from bisect_bot.verdicts.tolerance import Tolerance, floats_match

MAX_LISTED = 10
MAX_CHANNELS = 64
_FOUR_BITS = {"int4": 8, "uint4": 0}


def compare(
    expected: Tensor,
    actual: Tensor | None,
    data_set: str,
    tolerance: Tolerance,
    *,
    step: str = "",
    threshold: float | None = None,
) -> Comparison:
    """Compares `actual` with `expected`. Type and shape must be the same; None means that it did not come.

    Floats are compared by the rule of `tolerance` (float16 and float32 widened), everything else exactly.
    `all_zero` and `all_equal` tell that `actual` holds nothing but zeros, or one value again and again. With a
    `threshold`, the shares of elements above it are given as `foreground`. Where any type may come, only the numbers
    must be the same: whole ones exactly in an output of integers or booleans, all others as floats; a number or a flat
    list says nothing of the shape.
    """

    def no(problem: str) -> Comparison:
        count = math.prod(expected.shape)
        return Comparison(data_set, expected.name, matches=False, elements=count, problem=problem, step=step)

    if actual is None:
        return no("missing")
    if expected.any_type:
        actual = _flat(actual, expected)
    elif actual.dtype != expected.dtype:
        return no(f"type {actual.dtype} instead of {expected.dtype}")
    if actual.shape != expected.shape:
        return no(f"shape {list(actual.shape)} instead of {list(expected.shape)}")
    try:
        got, wish = elements(actual), elements(expected)
        if expected.any_type:
            got, wish = _numbers(got, wish)
    except (ValueError, TypeError) as error:
        return no(f"damaged data: {error}")
    compared = replace(_compare(got, wish, expected.name, data_set, tolerance), step=step)
    return (
        compared
        if threshold is None
        else replace(compared, foreground=(_share(got, threshold), _share(wish, threshold)))
    )


def difference(expected: Tensor, actual: Tensor, tolerance: Tolerance) -> str | None:
    """How `actual` is not `expected`, in words with the first wrong element; None when it is, by `tolerance`."""
    compared = compare(expected, actual, "", tolerance)
    if compared.matches:
        return None
    if not compared.first:
        return f"{expected.name}: {compared.problem}"
    first = compared.first[0]
    place = f"{expected.name}[{','.join(str(i) for i in first.index)}]" if first.index else expected.name
    return f"{place} is {first.actual:.7g} instead of {first.expected:.7g}"


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


def _flat(actual: Tensor, expected: Tensor) -> Tensor:
    """`actual` in the shape of `expected` where that is a number or a flat list of as many numbers."""
    flat = len(expected.shape) <= 1 and math.prod(actual.shape) == math.prod(expected.shape)
    return replace(actual, shape=expected.shape) if flat else actual


def _numbers(got: NDArray[Any], wish: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both in a type in which they can be compared: one of integers for whole numbers in an output of such."""
    whole = got.dtype.kind in "iub" and bool(np.all(np.isfinite(wish)) and np.all(wish == np.trunc(wish)))
    for name in ("int64", "uint64") if whole else ():
        limits = np.iinfo(name)
        # Python's integers: numpy would round the limits to compare them with floats.
        ends = [int(end) for each in (got, wish) if each.size for end in (each.min(), each.max())]
        if all(limits.min <= end <= limits.max for end in ends):
            return got.astype(name), wish.astype(name)
    # No such type holds them all: they differ by 1 at least, or are no integers.
    return got.astype(np.float64), wish.astype(np.float64)


def _compare(
    got: NDArray[np.generic], wish: NDArray[np.generic], output: str, data_set: str, tolerance: Tolerance
) -> Comparison:
    nan, inf, cosine = 0, 0, None
    if got.dtype.kind == "f":
        a, b = got.astype(np.float64), wish.astype(np.float64)
        same, error, size = floats_match(a, b, tolerance), *_float_errors(a, b)
        nan, inf, cosine = int(np.isnan(a).sum()), int(np.isinf(a).sum()), _cosine(a, b)
    else:
        same, error, size = np.asarray(got == wish), *_exact_errors(got, wish)
    wrong = np.flatnonzero(~same)
    first = tuple(_mismatch(int(at), got, wish) for at in wrong[:MAX_LISTED])
    max_abs, max_rel = _largest(error, size)
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
        cosine=cosine,
        channels=_by_channel(error) if len(wrong) else (),
    )


def _mismatch(at: int, got: NDArray[np.generic], wish: NDArray[np.generic]) -> Mismatch:
    index = tuple(int(i) for i in np.unravel_index(at, got.shape))
    return Mismatch(index, got[index].item(), wish[index].item())


def _float_errors(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Absolute errors and sizes of the expected elements; both 0 where one side is not finite."""
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(finite, np.abs(a - b), 0.0), np.where(finite, np.abs(b), 0.0)


def _exact_errors(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """As `_float_errors`, of integers and booleans."""
    # The difference of two 64-bit integers needs 65 bits signed, but its amount fits 64 unsigned ones.
    error = np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)
    return error.astype(np.float64), np.abs(b.astype(np.float64))


def _largest(error: NDArray[np.float64], size: NDArray[np.float64]) -> tuple[float, float]:
    """The largest absolute error, and the largest in relation to an expected value that is not zero."""
    with np.errstate(over="ignore"):
        relative = error[size > 0] / size[size > 0]
    return float(error.max(initial=0.0)), float(relative.max(initial=0.0))


def _by_channel(error: NDArray[np.float64]) -> tuple[float, ...]:
    """The largest error by index of axis 1, of the first `MAX_CHANNELS`; empty where there is no such axis."""
    if error.ndim < 2:
        return ()
    rest = tuple(axis for axis in range(error.ndim) if axis != 1)
    return tuple(float(value) for value in error[:, :MAX_CHANNELS].max(axis=rest, initial=0.0))


def _cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float | None:
    """The cosine between both as vectors; None where one is zero, empty, or not finite everywhere."""
    with np.errstate(all="ignore"):
        # Scaled, because squares of large numbers overflow and those of small ones vanish.
        scaled = [(v / np.abs(v).max(initial=0.0)).ravel() for v in (a, b)]
        norms = float(np.linalg.norm(scaled[0]) * np.linalg.norm(scaled[1]))
        value = float(scaled[0] @ scaled[1]) / norms if norms else math.nan
    return min(1.0, max(-1.0, value)) if math.isfinite(value) else None


def _share(values: NDArray[np.generic], threshold: float) -> float:
    """The share of elements above `threshold`, 0 of none."""
    return float(np.mean(values.astype(np.float64) > threshold)) if values.size else 0.0
