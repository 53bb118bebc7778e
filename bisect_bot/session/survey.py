"""Plans the ground between two commits: what lies between, and which published builds can lend their WebAssembly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bisect_bot.history.clone import Clone
from bisect_bot.history.commits import Inputs, plan
from bisect_bot.model import Commit, Revision
from bisect_bot.session.ground import Ground, Source

AUTO, BUILD = "auto", "build"


def survey(
    clone: Clone,
    old: str,
    new: str,
    inputs: Inputs,
    builds: Sequence[Revision],
    wasm: str,
    wasm_key: Callable[[Commit], str],
) -> Ground:
    """The ground between the commits `old` and `new` (full ids, `old` the ancestor of `new`, or the same).

    `builds` are all published builds; those made from a commit of main between the two, and the nearest on either
    side, can lend their WebAssembly; of commits beside main, the nearest before and after they left it. `wasm` is
    `auto`, `build` (each commit builds its own) or the version of a published build among `builds`, which alone is
    taken then; `wasm_key` tells what a commit's own is made of. Raises UsageError where git cannot tell what lies
    between.
    """
    line, position = clone.main.commits, clone.main.position
    lenders = {} if wasm == BUILD else _lenders(builds, line, wasm)
    low, high = position.get(old), position.get(new)
    first, last = old, new
    later: tuple[str, ...] = ()
    if low is not None and high is not None:
        places = sorted(position[sha] for sha in lenders.values() if sha)
        first = line[max([p for p in places if p <= low], default=low)]
        last = line[min([p for p in places if p >= high], default=high)]
    elif wasm == AUTO:
        first, later = _beside_main(clone, old, lenders)
    commits = plan(clone.git, first, last, inputs)
    where = {commit.revision.commit or "": index for index, commit in enumerate(commits)}
    sources = tuple(Source(version, where.get(sha)) for version, sha in lenders.items() if sha in where or wasm != AUTO)
    sources += tuple(Source(version) for version in later)
    keys = tuple(wasm_key(commit) for commit in commits)
    return Ground(commits, where[old], where[new], sources, wasm == BUILD, keys)


def _beside_main(clone: Clone, old: str, lenders: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Where to begin so that commits beside main, from `old` on, have a lender, and a later one in case it is unfit.

    Nobody knows how far the WebAssembly of the later one, which main had after they left it, is from theirs.
    """
    line, position = clone.main.commits, clone.main.position
    down = clone.git.read("rev-list", "--first-parent", old, "--").split()
    left = next((position[sha] for sha in down if sha in position), None)
    if left is None:
        return old, ()
    places = {position[sha]: version for version, sha in lenders.items()}
    earlier = max((place for place in places if place <= left), default=None)
    later = min((place for place in places if place > left), default=None)
    return old if earlier is None else line[earlier], () if later is None else (places[later],)


def _lenders(builds: Sequence[Revision], line: Sequence[str], wasm: str) -> Mapping[str, str]:
    """The published builds that can lend, each with the commit of main that it was made from (empty: unknown)."""
    if wasm != AUTO:
        return {wasm: _full(next(build.commit for build in builds if build.version == wasm), line)}
    made = {b.version: _full(b.commit, line) for b in builds if b.version and b.commit and b.on_main is not False}
    return {version: sha for version, sha in made.items() if sha}


def _full(commit: str | None, line: Sequence[str]) -> str:
    """The commit of `line` that begins with the hex digits `commit`; empty where there is not just one."""
    if not commit:
        return ""
    found = [sha for sha in line if sha.startswith(commit)]
    return found[0] if len(found) == 1 else ""
