"""What every kind of case is made from: what was typed beside its name, and the recipe that its kind gives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from bisect_bot.model import Case


@dataclass(frozen=True, slots=True)
class Making:
    """How cases are made: pinned under `root` (the cache's root), from these options.

    For a `.onnx` model `dims` gives free dimensions their size and `seed` makes the inputs. `frames` (0: not asked
    for), `feed` (output, input) and `initial_state` make a recurrent case of a model. `repo` is the clone that
    `REV:path` is read from. With `isolate`, what a manifest runs in one session becomes cases of their own.
    """

    root: Path
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    frames: int = 0
    feed: tuple[tuple[str, str], ...] = ()
    initial_state: str = "given"
    repo: str | None = None
    isolate: bool = False
    say: Callable[[str], None] = lambda _text: None

    def only(self, free: Collection[str]) -> Self:
        """The same with the sizes of those dimensions that are in `free`."""
        return replace(self, dims={name: size for name, size in self.dims.items() if name in free})


@dataclass(frozen=True, slots=True)
class Source:
    """What a text names: how to make its cases, in order, and the free dimensions that they have."""

    make: Callable[[Making], Sequence[Case]]
    free: tuple[str, ...] = ()
