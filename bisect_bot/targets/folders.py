"""Places in a configuration: paths with `${NAME}` of environment variables in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_VARIABLE = re.compile(r"\$\{([^}]+)\}")


def expand(place: str) -> Path | None:
    """`place` with its environment variables filled in; None when one of them is not set."""
    if any(not os.environ.get(name) for name in _VARIABLE.findall(place)):
        return None
    return Path(_VARIABLE.sub(lambda match: os.environ[match.group(1)], place))


def expanded(places: Iterable[str]) -> Iterator[Path]:
    """Those of `places` whose environment variables are set."""
    for place in places:
        path = expand(place)
        if path is not None:
            yield path
