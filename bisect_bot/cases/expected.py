"""`expected.json`: what a script must give.

It holds a value, or an object that names values as the script does. A value is a number, a nested array of numbers,
or `{"dtype": "float32", "shape": [2, 3], "data": […]}`, whose data is in C order, flat or nested. NaN and the
infinities are the strings "NaN", "Infinity" and "-Infinity". A value that is not named is called `result`, as one
that the script returns alone. Without a dtype, values are compared as numbers, whatever type the output has
(`float64` here, `int64` or `uint64` for whole numbers that need it), whole numbers with an integer output exactly; a
number or a flat array says nothing of the shape either.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisect_bot.cases.element_types import ElementType, check_size, named_type
from bisect_bot.cases.files import read
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import DataSet, Tensor

EXPECTED = "expected.json"
UNNAMED = "result"
MAX_BYTES = 2**28
MAX_RANK = 32
EXACT = 2**53
"""From here on float64 does not tell all integers apart."""
_TENSOR_KEYS = {"dtype", "shape", "data"}
_FORM = 'for example {"y": {"dtype": "float32", "shape": [2], "data": [1, 2]}}, or {"y": [1, 2]}'
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_expected(folder: Path, label: str) -> tuple[DataSet, ...]:
    """The one data set of `folder/expected.json`, without inputs; none when there is no such file.

    Raises CaseError, with names that begin with `label`, for a file that does not fit.
    """
    path, where = folder / EXPECTED, f"{label}: {EXPECTED}"
    if not path.is_file():
        return ()
    content = read(path, where)
    if len(content) > MAX_BYTES:
        raise CaseError(f"{one_line(where)} is larger than {MAX_BYTES // 2**20} MiB")
    try:
        value = json.loads(content)
        named = value if isinstance(value, dict) and not _is_tensor(value) else {UNNAMED: value}
        tensors = tuple(_tensor(name, item, f"{where}: {name}") for name, item in named.items())
    # UnicodeDecodeError and JSONDecodeError are ValueErrors; a number of very many digits is one too.
    except (ValueError, OverflowError, RecursionError) as error:
        raise CaseError(f"{one_line(where)} does not fit: {one_line(error)}", _FORM) from error
    if not tensors:
        raise CaseError(f"{one_line(where)} names no value", "remove it when there is nothing to compare")
    return (DataSet("script", (), tensors),)


def _is_tensor(value: dict[str, Any]) -> bool:
    return value.keys() == _TENSOR_KEYS


def _tensor(name: str, value: object, where: str) -> Tensor:
    if isinstance(value, dict):
        if not _is_tensor(value):
            raise CaseError(f"{one_line(where)} must have the keys dtype, shape and data, and no other")
        return _typed(name, value, where)
    numbers = _numbers(value)
    array = np.array(numbers, dtype="<f8")
    kind = _holds(np.array(numbers, dtype=object)) if np.any(np.abs(array) >= EXACT) else "float64"
    exact = array if kind == "float64" else np.array(numbers, dtype=np.dtype(kind).newbyteorder("<"))
    return Tensor(name, kind, array.shape, exact.tobytes(), any_type=True)


def _holds(numbers: NDArray[np.object_]) -> str:
    """The type that holds all of `numbers`: one of 64-bit integers where they fit in it, else float64."""
    values = numbers.ravel().tolist()
    if all(isinstance(each, int) for each in values):
        for name in ("int64", "uint64"):
            limits = np.iinfo(name)
            if limits.min <= min(values) and max(values) <= limits.max:
                return name
    return "float64"


def _typed(name: str, value: dict[str, Any], where: str) -> Tensor:
    kind = named_type(str(value["dtype"]), where)
    shape = value["shape"]
    whole = isinstance(shape, list) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape)
    if not whole or len(shape) > MAX_RANK:
        raise CaseError(f"{one_line(where)}: the shape must be a list of whole numbers")
    check_size(kind, shape, where)
    numbers = np.array(_numbers(value["data"]), dtype=object).reshape(-1)
    if len(numbers) != math.prod(shape):
        raise CaseError(f"{one_line(where)} has {len(numbers)} numbers, but its shape {shape} needs {math.prod(shape)}")
    return Tensor(name, kind.name, tuple(shape), _data(kind, numbers.tolist(), where))


def _data(kind: ElementType, numbers: list[int | float], where: str) -> bytes:
    """The bytes of `numbers` as elements of `kind`. Raises CaseError for a number that it cannot hold."""
    if kind.name.startswith("float"):
        return np.array(numbers, dtype=np.dtype(kind.name).newbyteorder("<")).tobytes()
    low, high = _limits(kind)
    wrong = [n for n in numbers if not isinstance(n, int) or not low <= n <= high]
    if wrong:
        raise CaseError(f"{one_line(where)}: {wrong[0]} is no {kind.name}")
    if kind.bits == 4:
        halves = np.array([*numbers, *[0] * (len(numbers) % 2)], dtype=np.int16).astype(np.uint8) & 15
        return (halves[0::2] | (halves[1::2] << 4)).tobytes()
    return np.array(numbers, dtype=np.dtype(kind.name).newbyteorder("<")).tobytes()


def _limits(kind: ElementType) -> tuple[int, int]:
    """The smallest and the largest number that the integer type (or bool) `kind` holds."""
    if kind.name == "bool":
        return 0, 1
    return (0, 2**kind.bits - 1) if kind.name.startswith("u") else (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1)


def _numbers(value: object, depth: int = 0) -> Any:
    """`value` with the words for NaN and the infinities replaced. Raises ValueError for anything but numbers."""
    if isinstance(value, list):
        if depth == MAX_RANK:
            raise ValueError(f"more than {MAX_RANK} dimensions")
        return [_numbers(item, depth + 1) for item in value]
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return value
    raise ValueError(f"{one_line(repr(value), 80)} is no number")
