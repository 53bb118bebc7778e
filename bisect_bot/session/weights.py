"""How likely each candidate among commits is to hold the change, by what it changes in the artifact. Pure.

It decides the order of the tests, and never the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from bisect_bot.cases.operators import operators
from bisect_bot.history.priors import Asked, Prior, load, mean, weigh
from bisect_bot.model import Candidate, Case, Commit, PartKind
from bisect_bot.session.commit_builds import CommitBuilds
from bisect_bot.session.ground import JS, Ground


def priors(
    builds: CommitBuilds, runs: Sequence[Candidate], case: Case, backend: str, guilty: PartKind | None = None
) -> tuple[Prior, ...]:
    """How likely each of `runs` is to be the first new one for `case`. Of the first, nobody asks.

    `runs` are those of the ground for the part that is `guilty`, where that is known: what a candidate changes in the
    other part then says nothing. Raises ConfigError.
    """
    asked = Asked(operators(case), frozenset((backend,)))
    return weigh([None, *changes(builds.ground, runs, builds.wasm_groups, guilty)], asked, load())


def priors_of_all(
    builds: CommitBuilds, runs: Sequence[Candidate], cases: Sequence[Case], backends: Sequence[str]
) -> tuple[Prior, ...]:
    """How likely each of `runs` is where all `cases` are searched together on all `backends`. Raises ConfigError."""
    return mean([priors(builds, runs, case, backend) for case in cases for backend in backends])


def changes(
    ground: Ground,
    runs: Sequence[Candidate],
    wasm_groups: Callable[[Commit], Sequence[str]],
    guilty: PartKind | None = None,
) -> Iterator[tuple[str, ...] | None]:
    """The files by which each candidate but the first differs from the one before it in what may be guilty.

    None where nobody knows what a lent WebAssembly brought. `wasm_groups` are the inputs that a commit's is made of.
    """
    places = [ground.place_of(run.revision.commit or "") for run in runs]
    for before, place in pairwise(places):
        js = () if guilty is PartKind.WASM else ground.commits[place].files(JS)
        wasm = () if guilty is PartKind.JS else _of_wasm(ground, wasm_groups, before, place)
        yield None if wasm is None else tuple(dict.fromkeys((*js, *wasm)))


def _of_wasm(
    ground: Ground, groups: Callable[[Commit], Sequence[str]], before: int, place: int
) -> tuple[str, ...] | None:
    """The files by which the WebAssembly differs: lent ones differ in all that changed between the two lenders."""
    if ground.builds_wasm:
        changed = [ground.commits[place]]
    else:
        old, new = (next(iter(ground.choices(each)), None) for each in (before, place))
        if old == new:
            return ()
        if old is None or new is None or old.place is None or new.place is None:
            return None
        changed = list(ground.wasm_changes(old.place, new.place))
    return tuple(path for commit in changed for path in commit.files(*groups(commit)))
