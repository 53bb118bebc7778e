"""The numbers that upstream's tests print about wrong outputs (js/web/test/test-runner.ts, TensorResultValidator)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from bisect_bot.model import DataSet, Mismatch, Tensor

_NUMBER = r"[^,\s]+"
# "abs/rel check failed", "a or b isNan" and "a or b is Infinity": the first wrong element of an output of floats.
_ELEMENT = re.compile(
    rf"^(?:abs/rel check failed|a or b is\w*(?: \w+)?) ?-- ?index:(\d+): actual=({_NUMBER}),expected=({_NUMBER})"
)
_SIDES = re.compile(
    r"Tensor mismatch: ?\n"
    r"ACTUAL: type=(\w+); dims=\[([\d,]*)\]; data=\[([^\]]*)\]\n"
    r"EXPECT: type=(\w+); dims=\[([\d,]*)\]; data=\[([^\]]*)\]"
)
# Elements of these are printed as numbers. Those of float16 are bits or numbers, whichever the browser has; 4-bit
# types are bytes of two.
_PLAIN = {
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
}  # fmt: skip


def mismatches_in(said: Sequence[str]) -> tuple[Mismatch, ...]:
    """The wrong elements that lines of the console name: their place in C order, or by dimension where it is known."""
    dims = next((sides[0][1] for line in said if (sides := _sides(line)) is not None), None)
    found = [match for line in said if (match := _ELEMENT.match(line))]
    return tuple(
        Mismatch(_place(int(index), dims), _number(came), _number(wish))
        for index, came, wish in (match.groups() for match in found)
    )


def actual_in(said: Sequence[str], data_set: DataSet) -> Tensor | None:
    """The wrong output that the console printed whole, called as in `data_set`; None where there is none.

    Which of the expected outputs it stands for, the runner does not say: it is the one whose values it prints beside
    it.
    """
    for line in said:
        sides = _sides(line)
        if sides is None:
            continue
        (kind, dims, came), (wished, wish_dims, wish) = sides
        if kind not in _PLAIN:
            return None
        for expected in data_set.expected:
            if (expected.dtype, expected.shape) != (wished, wish_dims):
                continue
            if _same(expected, wish):
                data = _bytes(kind, came)
                return None if data is None else Tensor(expected.name, kind, dims, data)
    return None


_Side = tuple[str, tuple[int, ...], str]


def _sides(line: str) -> tuple[_Side, _Side] | None:
    found = _SIDES.search(line)
    if found is None:
        return None
    kind, dims, data, wished, wish_dims, wish = found.groups()
    return (kind, _dims(dims), data), (wished, _dims(wish_dims), wish)


def _dims(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def _same(expected: Tensor, printed: str) -> bool:
    data = _bytes(expected.dtype, printed)
    if data is None or len(data) != len(expected.data):
        return False
    return bool(
        np.array_equal(
            expected.array(),
            Tensor("", expected.dtype, expected.shape, data).array(),
            equal_nan=expected.dtype.startswith("float"),
        )
    )


def _bytes(kind: str, printed: str) -> bytes | None:
    """The elements that JavaScript printed, little-endian; None for text that holds anything else."""
    words = printed.split(",") if printed else []
    dtype = np.dtype(kind).newbyteorder("<")
    try:
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                return np.array([float(word) for word in words], dtype=np.float64).astype(dtype).tobytes()
        return np.array([int(word) for word in words], dtype=dtype).tobytes()
    except (ValueError, OverflowError):
        return None


def _place(index: int, dims: tuple[int, ...] | None) -> tuple[int, ...]:
    if not dims or index >= math.prod(dims):
        return (index,)
    return tuple(int(part) for part in np.unravel_index(index, dims))


def _number(text: str) -> float | int | str:
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and abs(value) < 2**53 and "." not in text and "e" not in text else value
