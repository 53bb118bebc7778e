"""Which error messages say nothing about the revision: the patterns of `configs/verdicts.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bisect_bot.errors import ConfigError
from bisect_bot.model import Outcome
from bisect_bot.verdicts.tolerance import misfit, read_toml


@dataclass(frozen=True, slots=True)
class Rule:
    """A message that `pattern` is found in gives `outcome` (skip or infra), because of what `says` says."""

    outcome: Outcome
    pattern: re.Pattern[str]
    says: str


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in the order in which they are tried, and the messages that leave the cause to the console."""

    rules: tuple[Rule, ...]
    says_nothing: tuple[re.Pattern[str], ...]

    def first(self, messages: Iterable[str]) -> tuple[Rule, str] | None:
        """The first rule that fits one of `messages`, with that message; None when none does."""
        texts = tuple(messages)
        return next(((rule, text) for rule in self.rules for text in texts if rule.pattern.search(text)), None)

    def is_empty(self, message: str) -> bool:
        """Whether `message` tells only that something failed."""
        return any(pattern.search(message) for pattern in self.says_nothing)


class _Rule(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    pattern: str = Field(min_length=1)
    says: str = Field(min_length=1)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: Literal[1] = Field(alias="schema")
    says_nothing: list[str]
    infra: list[_Rule]
    skip: list[_Rule]


def load_rules(path: Path) -> Rules:
    """The rules in the TOML file `path`: those for infra come before those for skip.

    Raises ConfigError when it cannot be read, does not fit, or holds something that is no regular expression.
    """
    try:
        file = _File.model_validate(read_toml(path))
    except ValidationError as error:
        raise misfit(path, error) from error
    try:
        rules = [Rule(Outcome.INFRA, re.compile(r.pattern, re.IGNORECASE), r.says) for r in file.infra]
        rules += [Rule(Outcome.SKIP, re.compile(r.pattern, re.IGNORECASE), r.says) for r in file.skip]
        return Rules(tuple(rules), tuple(re.compile(text, re.IGNORECASE) for text in file.says_nothing))
    except re.error as error:
        raise ConfigError(f"{path}: not a regular expression: {error.pattern!r}: {error}") from error
