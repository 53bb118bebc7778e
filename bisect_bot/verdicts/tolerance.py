"""How far apart two numbers may be: upstream's rule, with its numbers from `configs/tolerances.toml`.

The rule is `TensorResultValidator.floatEqual` of js/web/test/test-runner.ts.
"""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bisect_bot.errors import ConfigError

OUTLIER = 30.0
"""Of normally distributed numbers, none is so many times their median."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The numbers of one backend or element type. `same_sign` refuses values of opposite sign, which upstream's
    quotients miss.

    `of_rms` is added to `absolute` as a share of the size of the expected output, the root mean square of its elements
    without outliers. `zero_floor` is the
    size from which on two expected values show that an output of nothing but zeros is wrong, however near they are.
    """

    absolute: float
    relative: float
    max_float: float
    same_sign: bool = True
    of_rms: float = 0.0
    zero_floor: float = math.inf


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The tolerance of each backend, and of the element types that have one of their own whatever the backend."""

    backends: Mapping[str, Tolerance]
    types: Mapping[str, Tolerance] = field(default_factory=dict)

    def of(self, backend: str, dtype: str = "float32") -> Tolerance:
        """The tolerance of outputs of the type `dtype` on `backend`. Raises ConfigError when there is none."""
        if backend not in self.backends:
            raise ConfigError(f"tolerances.toml has no tolerance for the backend {backend!r}", "add it")
        own = self.backends[backend]
        found = self.types.get(dtype, own)
        # A type's own maximum is what stands for more; one that holds more has not to stand for it.
        largest = {"float32": own.max_float, "float64": sys.float_info.max}
        return replace(found, max_float=largest.get(dtype, found.max_float))

    def for_half(self) -> Tolerances:
        """These tolerances for a model that computes in float16: what it widens at its end is no more exact."""
        half = self.types.get("float16")
        return self if half is None else Tolerances(self.backends, {**self.types, "float32": half, "float64": half})


class _Backend(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    absolute: float = Field(ge=0)
    relative: float = Field(ge=1)
    max_float: float = Field(gt=0)


class _Type(_Backend):
    of_rms: float = Field(ge=0, lt=1)
    zero_floor: float = Field(ge=0)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: Literal[1] = Field(alias="schema")
    same_sign: bool
    zero_floor: float = Field(default=math.inf, ge=0)
    backends: dict[str, _Backend] = Field(min_length=1)
    types: dict[str, _Type] = Field(default_factory=dict)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of the TOML file `path`. Raises ConfigError when it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def misfit(path: Path, error: ValidationError) -> ConfigError:
    """The ConfigError that says in one line where `path` does not fit its schema."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return ConfigError(f"{path} does not fit its schema: {place}: {first['msg']}")


def load_tolerances(path: Path) -> Tolerances:
    """The tolerances in the TOML file `path`. Raises ConfigError when it cannot be read or does not fit."""
    try:
        file = _File.model_validate(read_toml(path))
    except ValidationError as error:
        raise misfit(path, error) from error
    backends = {
        name: Tolerance(b.absolute, b.relative, b.max_float, file.same_sign, zero_floor=file.zero_floor)
        for name, b in file.backends.items()
    }
    types = {
        name: Tolerance(t.absolute, t.relative, t.max_float, file.same_sign, t.of_rms, t.zero_floor)
        for name, t in file.types.items()
    }
    return Tolerances(backends, types)


def floats_match(actual: NDArray[np.float64], expected: NDArray[np.float64], tolerance: Tolerance) -> NDArray[np.bool_]:
    """Which elements are equal by the rule. Both arrays have one shape; narrower floats are widened by the caller."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(actual) & np.isfinite(expected)
        near = np.abs(actual - expected) < tolerance.absolute + tolerance.of_rms * _size(expected, tolerance.max_float)
        limited = np.clip(expected, -tolerance.max_float, tolerance.max_float)
        quotients = (actual / limited < tolerance.relative) & (limited / actual < tolerance.relative)
        close = (actual != 0) & (limited != 0) & quotients
        if tolerance.same_sign:
            close &= (actual < 0) == (limited < 0)
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        if not np.any(actual) and np.count_nonzero(np.abs(expected) >= tolerance.zero_floor) > 1:
            near &= np.abs(expected) < tolerance.zero_floor
    return np.asarray(same | (finite & (near | close)), dtype=np.bool_)


def _size(values: NDArray[np.float64], max_float: float) -> float:
    """The root mean square of `values`, 0 when there are none, without those that say nothing of their size.

    What masks leave (-65504, -10000, an infinity) is no part of the numbers around it: left out is what reaches
    `max_float`, and what is more than `OUTLIER` times the median of the amounts, each different one counted once
    because a mask may cover most of an output.
    """
    amounts = np.abs(values[np.isfinite(values)])
    amounts = amounts[amounts < max_float]
    different = np.unique(amounts[amounts > 0])
    if not different.size:
        return 0.0
    kept = amounts[amounts <= OUTLIER * float(np.median(different))]
    # Scaled, because squares of large numbers overflow.
    largest = float(kept.max())
    return largest * math.sqrt(float(np.mean(np.square(kept / largest)))) if largest else 0.0
