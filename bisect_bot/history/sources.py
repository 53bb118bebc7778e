"""Compares the sources inside packages with every state that main's `js/web/lib` has had. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

# Written anew by every release, so that it differs where nothing else does.
GENERATED = frozenset({"lib/version.ts"})
# More than this share of files differing is no fit but another layout.
MAX_DIFFERING = 0.5
_BELOW = "js/web/"


@dataclass(frozen=True, slots=True)
class Run:
    """Positions of main, begin to before end, in which the sources stayed the same; `differing` files differ."""

    begin: int
    end: int
    differing: int


@dataclass(frozen=True, slots=True)
class Fit:
    """The commits of main, first to last, whose sources are nearest to a package's; `differing` files differ."""

    first: str
    last: str
    differing: int


def replay(
    log: str, packages: Mapping[str, Mapping[str, str]], position: Mapping[str, int], length: int
) -> dict[str, tuple[Run, ...]]:
    """For each package (name to blob ids by path) how many of its files differ, all along main.

    `log` is `git log --reverse --raw -z --format=%x01%H` over js/web/lib: a change of one file changes a count by
    one at most, so that a history of thousands of commits is one pass. `position` and `length` are main's.
    """
    wanted = {name: _sources(sources) for name, sources in packages.items()}
    tree: dict[str, str] = {}
    # Against an empty tree every file of the package is missing.
    differing = {name: len(sources) for name, sources in wanted.items()}
    states: list[tuple[int, dict[str, int]]] = []
    for block in log.split("\x01")[1:]:
        commit, _, rest = block.lstrip("\n\0").partition("\0")
        for path, blob in _changes(rest):
            before = tree.get(path)
            if blob is None:
                tree.pop(path, None)
            else:
                tree[path] = blob
            for name, sources in wanted.items():
                mine = sources.get(path)
                differing[name] += (mine != blob) - (mine != before)
        states.append((position[commit], dict(differing)))
    ends = [begin for begin, _ in states[1:]] + [length]
    return {
        name: tuple(Run(begin, end, counts[name]) for (begin, counts), end in zip(states, ends, strict=True))
        for name in wanted
    }


def fit(runs: Sequence[Run], begin: int, end: int, files: int) -> tuple[int, int, int] | None:
    """First and last position and count of differing files of the best run within begin to before end.

    The latest of several equally good ones; None when even the best differs in too many of the `files`.
    """
    clipped = [Run(max(r.begin, begin), min(r.end, end), r.differing) for r in runs if r.begin < end and r.end > begin]
    if not clipped:
        return None
    least = min(r.differing for r in clipped)
    if least > MAX_DIFFERING * files:
        return None
    best = [r for r in clipped if r.differing == least][-1]
    return best.begin, best.end - 1, least


def _changes(raw: str) -> list[tuple[str, str | None]]:
    """Path (below js/web) and new blob of each change of a source file; None for a removed one."""
    fields = raw.strip("\n").split("\0")
    pairs = [(meta, path) for meta, path in pairwise(fields) if meta.startswith((":", "\n:"))]
    changes = [(path.removeprefix(_BELOW), meta.split()[3]) for meta, path in pairs]
    return [(path, blob if blob.strip("0") else None) for path, blob in changes if _is_source(path)]


def _sources(sources: Mapping[str, str]) -> dict[str, str]:
    return {path: blob for path, blob in sources.items() if _is_source(path)}


def _is_source(path: str) -> bool:
    return path.endswith(".ts") and path not in GENERATED
