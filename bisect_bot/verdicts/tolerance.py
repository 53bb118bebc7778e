"""How far apart two numbers may be: upstream's rule, with its numbers from `configs/tolerances.toml`.

The rule is `TensorResultValidator.floatEqual` of js/web/test/test-runner.ts.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bisect_bot.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The numbers of one backend. `same_sign` refuses values of opposite sign, which upstream's quotients miss."""

    absolute: float
    relative: float
    max_float: float
    same_sign: bool = True


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The tolerance of each backend."""

    backends: Mapping[str, Tolerance]

    def of(self, backend: str) -> Tolerance:
        """The tolerance of `backend`. Raises ConfigError when there is none."""
        if backend not in self.backends:
            raise ConfigError(f"tolerances.toml has no tolerance for the backend {backend!r}", "add it")
        return self.backends[backend]


class _Backend(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    absolute: float = Field(ge=0)
    relative: float = Field(ge=1)
    max_float: float = Field(gt=0)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: Literal[1] = Field(alias="schema")
    same_sign: bool
    backends: dict[str, _Backend] = Field(min_length=1)


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
    return Tolerances(
        {n: Tolerance(b.absolute, b.relative, b.max_float, file.same_sign) for n, b in file.backends.items()}
    )


def floats_match(actual: NDArray[np.float64], expected: NDArray[np.float64], tolerance: Tolerance) -> NDArray[np.bool_]:
    """Which elements are equal by the rule. Both arrays have one shape; narrower floats are widened by the caller."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(actual) & np.isfinite(expected)
        near = np.abs(actual - expected) < tolerance.absolute
        limited = np.clip(expected, -tolerance.max_float, tolerance.max_float)
        quotients = (actual / limited < tolerance.relative) & (limited / actual < tolerance.relative)
        close = (actual != 0) & (limited != 0) & quotients
        if tolerance.same_sign:
            close &= (actual < 0) == (limited < 0)
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    return np.asarray(same | (finite & (near | close)), dtype=np.bool_)
