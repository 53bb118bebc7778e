"""What is known of upstream's messages and names: the patterns and tables of `configs/verdicts.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bisect_bot.errors import ConfigError
from bisect_bot.model import Outcome, Stage
from bisect_bot.verdicts.messages import MAX_INPUT, normalise
from bisect_bot.verdicts.tolerance import misfit, read_toml


@dataclass(frozen=True, slots=True)
class Rule:
    """A message that `pattern` is found in gives `outcome` (skip or infra), because of what `says` says.

    With a `stage`, only of errors that happened there; with `console`, only where that is found in the console.
    """

    outcome: Outcome
    pattern: re.Pattern[str]
    says: str
    stage: Stage | None = None
    console: re.Pattern[str] | None = None

    def fits(self, message: str, stage: Stage, console: str) -> bool:
        """Whether it is about `message`, which came up at `stage` after the lines of `console`."""
        if self.stage not in (None, stage) or (self.console is not None and not self.console.search(console)):
            return False
        return self.pattern.search(message) is not None


@dataclass(frozen=True, slots=True)
class Provider:
    """An execution provider as the runtime's log calls it: the backend that it computes for, and its short name."""

    backend: str
    says: str


@dataclass(frozen=True, slots=True)
class KernelFailure:
    """The operator whose kernel failed, and what was wrong, without what differs between builds."""

    operator: str
    what: str

    def __str__(self) -> str:
        return f"{self.operator}: {self.what}" if self.what else self.operator


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in the order in which they are tried, and the messages that leave the cause to the console.

    `kernels` find the operator (group `op`) in messages of failed kernels; what follows the match is the failure.
    `providers` are the execution providers by their name in the log, `becomes` the operators that a graph optimiser
    puts in the place of another, `takes_several` those of them that stand for several nodes at once.
    """

    rules: tuple[Rule, ...]
    says_nothing: tuple[re.Pattern[str], ...]
    kernels: tuple[re.Pattern[str], ...] = ()
    providers: Mapping[str, Provider] = field(default_factory=dict)
    becomes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    takes_several: frozenset[str] = frozenset()

    def first(
        self, messages: Iterable[str], stage: Stage = Stage.RUN, console: Sequence[str] = ()
    ) -> tuple[Rule, str] | None:
        """The first rule that fits one of `messages` at `stage`, with that message; None when none does.

        `console` are the lines that came before.
        """
        texts, before = tuple(messages), "\n".join(console)
        return next(((rule, text) for rule in self.rules for text in texts if rule.fits(text, stage, before)), None)

    def is_empty(self, message: str) -> bool:
        """Whether `message` tells only that something failed."""
        return any(pattern.search(message) for pattern in self.says_nothing)

    def kernel_failure(self, message: str) -> KernelFailure | None:
        """The failed kernel that `message` names; of several, the first that failed. None when it names none."""
        message = message[:MAX_INPUT]
        found = next((match for kernel in self.kernels if (match := kernel.search(message))), None)
        if found is None:
            return None
        rest = message[found.end() :]
        others = (match.start() for kernel in self.kernels if (match := kernel.search(rest, 1)))
        return KernelFailure(found["op"], normalise(rest[: min(others, default=len(rest))]).removesuffix(" [WebGPU]"))

    def fitting(self, operator: str) -> tuple[str, ...]:
        """The types that a node of the type `operator` may have in the log: its own, and what optimisers make of it."""
        found = [operator]
        for each in found:
            found += [name for name in self.becomes.get(each, ()) if name not in found]
        return tuple(found)

    def provider(self, name: str) -> Provider:
        """The provider that the log calls `name`; one that nobody knows computes for no backend."""
        return self.providers.get(name) or Provider("", name.removesuffix("ExecutionProvider") or name)


class _Rule(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    pattern: str = Field(min_length=1)
    says: str = Field(min_length=1)
    stage: Stage | None = None
    console: str | None = Field(default=None, min_length=1)


class _Provider(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    backend: str = Field(min_length=1)
    says: str = Field(min_length=1)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: Literal[1] = Field(alias="schema")
    says_nothing: list[str]
    kernels: list[str] = Field(default_factory=list)
    infra: list[_Rule]
    skip: list[_Rule]
    providers: dict[str, _Provider] = Field(default_factory=dict)
    becomes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    takes_several: frozenset[str] = frozenset()


def load_rules(path: Path) -> Rules:
    """The rules in the TOML file `path`: those for infra come before those for skip.

    Raises ConfigError when it cannot be read, does not fit, or holds something that is no regular expression.
    """
    try:
        file = _File.model_validate(read_toml(path))
    except ValidationError as error:
        raise misfit(path, error) from error
    try:
        kernels = tuple(re.compile(text, re.DOTALL) for text in file.kernels)
        rules = tuple(_compiled(rule, Outcome.INFRA) for rule in file.infra)
        rules += tuple(_compiled(rule, Outcome.SKIP) for rule in file.skip)
        silent = tuple(re.compile(text, re.IGNORECASE) for text in file.says_nothing)
    except re.error as error:
        raise ConfigError(f"{path}: not a regular expression: {error.pattern!r}: {error}") from error
    if nameless := [pattern.pattern for pattern in kernels if "op" not in pattern.groupindex]:
        raise ConfigError(f"{path}: kernels: {nameless[0]!r} has no group 'op'")
    providers = {name: Provider(entry.backend, entry.says) for name, entry in file.providers.items()}
    return Rules(rules, silent, kernels, providers, file.becomes, file.takes_several)


def _compiled(rule: _Rule, outcome: Outcome) -> Rule:
    console = re.compile(rule.console, re.DOTALL) if rule.console else None
    return Rule(outcome, re.compile(rule.pattern, re.IGNORECASE), rule.says, rule.stage, console)
