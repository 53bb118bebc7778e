"""How likely each candidate is to hold the change, told by the files that it changes: `configs/priors.toml`. Pure.

It decides what is tested first, and never what is answered.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from onnx.defs import get_all_schemas
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bisect_bot.errors import ConfigError
from bisect_bot.paths import config_file

# Letters that a name must have to be meant by a part of another: pool.ts is AveragePool's, but expand.ts not Exp's.
_LEAST = 4
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")
_SHOWN = 2


class Kind(StrEnum):
    """What a changed file is to a case, the most telling kind first."""

    OPERATOR = "operator"
    HELPER = "helper"
    PROVIDER = "provider"
    SHARED = "shared"
    SIBLING = "sibling"
    PACKAGING = "packaging"
    ELSEWHERE = "elsewhere"


_WORDS = {
    Kind.OPERATOR: "touches {}: an operator of the case",
    Kind.HELPER: "touches {}: what all kernels are made with",
    Kind.PROVIDER: "touches the rest of the execution provider ({})",
    Kind.SHARED: "touches {}: what execution providers share",
}
# What speaks against a candidate only says so where it changes nothing else: all of these that it changes are named.
_ONLY = {
    Kind.SIBLING: "other operators ({})",
    Kind.PACKAGING: "how it is built ({})",
    Kind.ELSEWHERE: "other execution providers ({})",
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Size(_Strict):
    files: int = Field(gt=1)
    times: float = Field(gt=0)


class _Place(_Strict):
    """What lies at or below `at`, where one of `backends` (none named: any) is asked for."""

    at: str
    kind: Literal["operators", "helper", "provider", "shared", "sibling", "packaging"]
    backends: tuple[str, ...] = ()


class _Family(_Strict):
    names: tuple[str, ...]
    operators: frozenset[str]


class Rules(_Strict):
    """What speaks for a candidate. `counts` are relative to each other."""

    counts: dict[Kind, float]
    size: tuple[_Size, ...] = ()
    path: tuple[_Place, ...] = ()
    family: tuple[_Family, ...] = ()


@dataclass(frozen=True, slots=True)
class Prior:
    """How likely a candidate is beside the others (only ratios count), with the reason in a few words."""

    weight: float
    reason: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a case runs: the types of its `operators` (None: nobody knows, as of a script) on the `backends`."""

    operators: frozenset[str] | None
    backends: frozenset[str]


@cache
def load(path: Path | None = None) -> Rules:
    """The rules of `path` (default: the shipped file). Raises ConfigError when the file does not fit."""
    source = path or config_file("priors.toml")
    try:
        rules = Rules.model_validate(tomllib.loads(source.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(f"{source} cannot be used: {error}", "Restore the file that came with bisect-bot.") from error
    lacking = [kind for kind in Kind if not rules.counts.get(kind, 0) > 0]
    if lacking:
        raise ConfigError(f"{source} has no count above 0 for {lacking[0]}", "No candidate is ever ruled out.")
    return rules


def weigh(changed: Sequence[Collection[str] | None], asked: Asked, rules: Rules) -> tuple[Prior, ...]:
    """One prior for each candidate, of which `changed` has the files that it changes in what may be guilty.

    One of which nobody knows them (None) is as likely as one that touches what all share.
    """
    kinds = _Kinds(asked, rules)
    return tuple(_prior(files, kinds, rules) for files in changed)


def mean(several: Sequence[Sequence[Prior]]) -> tuple[Prior, ...]:
    """One prior for each candidate of several cases that are searched together, each case counting the same.

    The weights are relative to an average candidate; the reason is that of the case for which most speaks.
    """
    weights = [[each.weight for each in one] for one in several]
    reasons = [max(at, key=lambda each: each.weight).reason for at in zip(*several, strict=True)]
    return tuple(Prior(w, reason) for w, reason in zip(mean_weights(weights), reasons, strict=True))


def mean_weights(several: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean of weights, each made relative to its own average; the first number counts nothing. Empty for none."""
    if not several:
        return ()
    scaled = [[w * (len(one) - 1) / sum(one[1:]) for w in one[1:]] for one in several]
    return (1.0, *(sum(at) / len(scaled) for at in zip(*scaled, strict=True)))


def _prior(files: Collection[str] | None, kinds: _Kinds, rules: Rules) -> Prior:
    if files is None:
        return Prior(rules.counts[Kind.SHARED], "nobody knows what it touches")
    if not files:
        return Prior(rules.counts[Kind.ELSEWHERE], "changes no file that is weighed")
    of_kind: dict[Kind, list[str]] = {}
    for path in files:
        of_kind.setdefault(kinds.of(path), []).append(path)
    # Of two that count the same, the more telling one: the order of the files says nothing.
    kind = max((kind for kind in Kind if kind in of_kind), key=lambda kind: rules.counts[kind])
    telling = len(files) - len(of_kind.get(Kind.ELSEWHERE, ()))
    times = max([size.times for size in rules.size if telling >= size.files], default=1.0)
    reason = _reason(kind, of_kind)
    return Prior(rules.counts[kind] * times, f"{reason}; {telling} files" if times != 1 else reason)


def _reason(kind: Kind, of_kind: dict[Kind, list[str]]) -> str:
    if kind in _WORDS:
        return _WORDS[kind].format(_named(of_kind[kind]))
    told = [words.format(_named(of_kind[each])) for each, words in _ONLY.items() if each in of_kind]
    only = " only" if len(told) == len(of_kind) else ""
    return f"touches{only} {', '.join(told[:-1])}{' and ' if told[:-1] else ''}{told[-1]}"


def _named(files: list[str]) -> str:
    names = [f"{path.parent.name}/{path.name}" for path in map(PurePosixPath, sorted(files))]
    short = list(dict.fromkeys(name.removeprefix("/") for name in names))
    more = f" and {len(short) - _SHOWN} more" if len(short) > _SHOWN else ""
    return ", ".join(short[:_SHOWN]) + more


class _Kinds:
    """What each file is to a case; each path is looked at once."""

    def __init__(self, asked: Asked, rules: Rules) -> None:
        self._asked = asked
        self._places: dict[str, list[_Place]] = {}
        for place in rules.path:
            self._places.setdefault(place.at, []).append(place)
        self._operators = None if asked.operators is None else [(_flat(o), _first_word(o)) for o in asked.operators]
        # By the longest name: `conv-transpose` is not one of Conv's files.
        mine: dict[str, bool] = {}
        for each in rules.family:
            for name in map(_flat, each.names):
                mine[name] = mine.get(name, False) or bool(each.operators & (asked.operators or frozenset()))
        self._families = sorted(mine.items(), key=lambda family: -len(family[0]))
        self._known: dict[str, Kind] = {}

    def of(self, path: str) -> Kind:
        """What the file at `path` is."""
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._look_up(path)
        return found

    def _look_up(self, path: str) -> Kind:
        above = (str(each) for each in PurePosixPath(path).parents)
        places = next((self._places[at] for at in (path, *above) if at in self._places), None)
        if places is None:
            return Kind.SHARED
        mine = (each for each in places if not each.backends or self._asked.backends & {*each.backends})
        place = next(mine, None)
        if place is None:
            return Kind.ELSEWHERE
        if place.kind != "operators":
            return Kind(place.kind)
        if self._operators is None:
            return Kind.PROVIDER
        return Kind.OPERATOR if self._names_one(PurePosixPath(path).name.split(".")[0]) else Kind.SIBLING

    def _names_one(self, stem: str) -> bool:
        """Whether a file's name without its ending stands for an operator of the case.

        It begins with the operator's name (matmul-shaders: MatMul), is a part of it (pool: AveragePool; batch-norm:
        BatchNormalization), or shares its first word (conv_util: ConvTranspose), and is not the whole name of another
        operator (transpose: not ConvTranspose).
        """
        flat, first = _flat(stem), _first_word(stem)
        family = next((mine for name, mine in self._families if flat.startswith(name)), None)
        if family is not None:
            return family
        if flat in _all_operators():
            return any(flat == name for name, _ in self._operators or ())
        return any(
            name in (flat, first)
            or (len(name) >= _LEAST and flat.startswith(name))
            or (len(flat) >= _LEAST and (name.startswith(flat) or name.endswith(flat)))
            or (len(first) >= _LEAST and first == word)
            for name, word in self._operators or ()
        )


@cache
def _all_operators() -> frozenset[str]:
    """The names of all operators of ONNX, as `_flat` has them."""
    return frozenset(_flat(schema.name) for schema in get_all_schemas())


def _flat(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _first_word(name: str) -> str:
    """The first word of CamelCase, or of words with - or _ between them, in small letters."""
    found = _WORD.search(name)
    return found[0].lower() if found else ""
