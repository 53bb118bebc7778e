"""What every kind of case is made from: what was typed beside its name, and the recipe that its kind gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisect_bot.model import Case


@dataclass(frozen=True, slots=True)
class Making:
    """How cases are made: pinned under `root` (the cache's root), from these options.

    For a `.onnx` model `dims` gives free dimensions their size and `seed` makes the inputs. `frames` (0: not asked
    for), `feed` (output, input) and `initial_state` make a recurrent case of a model. `repo` is the clone that
    `REV:path` is read from.
    """

    root: Path
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    frames: int = 0
    feed: tuple[tuple[str, str], ...] = ()
    initial_state: str = "given"
    repo: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """What a text names: how to make its cases, in order, and the free dimensions that they have."""

    make: Callable[[Making], Sequence[Case]]
    free: tuple[str, ...] = ()
