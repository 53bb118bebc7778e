"""What an examination of this machine finds: one item for each thing that matters, in words and as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from bisect_bot import __version__
from bisect_bot.reports.escaping import line, shorten

_LONGEST = 400


class State(StrEnum):
    """How a thing stands."""

    OK = "ok"
    WARNING = "warning"  # there, or not needed, but something cannot be done with it as it is
    MISSING = "missing"


class Item(BaseModel):
    """One thing that was looked at. Text in it is one line, and holds no path below the user's home in full."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(description="Stable name: `node`, `browser`, `adapter`; several items may have one.")
    state: State
    value: str = Field(description="What was found, for a person.")
    means: str = Field(description="What it is for, or what cannot be done without it.")
    do: str = Field(default="", description="What to do about it; empty where nothing has to be done.")
    needed: bool = Field(default=False, description="Whether the main job cannot run while this is missing.")
    details: dict[str, JsonValue] = Field(default={}, description="The same in parts, by stable names.")


class Examination(BaseModel):
    """The output of `bisect-bot doctor --json`. Keys are only ever added within schema 1."""

    model_config = ConfigDict(frozen=True)

    schema_: int = Field(default=1, serialization_alias="schema")
    version: str = Field(default=__version__, description="Of bisect-bot.")
    ready: bool = Field(description="Whether the main job can run here.")
    items: tuple[Item, ...]


def examination(items: tuple[Item, ...]) -> Examination:
    """The examination that `items` make: ready when nothing that is needed is missing."""
    return Examination(ready=not any(i.needed and i.state is State.MISSING for i in items), items=items)


def guarded(key: str, look: Callable[[], Iterator[Item]], *, needed: bool = False) -> Iterator[Item]:
    """The items of `look`; when it fails, one that says so. Nothing that is looked at may stop the others."""
    try:
        yield from (tidy(item) for item in look())
    except Exception as error:  # whatever it is, the next item is looked at
        told = f"could not be looked at: {type(error).__name__}: {error}"
        yield tidy(Item(key=key, state=State.MISSING, value=told, means="unknown", needed=needed))


def tidy(item: Item) -> Item:
    """`item` with text of one line each, and `~` for the user's home in all of it."""
    return Item.model_validate(
        {name: value if name in ("state", "needed") else _tidy(value) for name, value in item.model_dump().items()}
    )


def _tidy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _tidy(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_tidy(each) for each in value]
    if not isinstance(value, str):
        return value
    home = str(Path.home())
    short = value.replace(home, "~") if len(home) > 1 else value
    return shorten(line(short), _LONGEST)
