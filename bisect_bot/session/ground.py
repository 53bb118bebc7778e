"""What a search among commits walks on: which commits are the same artifact, and whose WebAssembly each one gets. Pure.

A commit's JavaScript is always built from it. Its WebAssembly is its own where that can be built, or where a published
build was made from the same inputs; else a published build stands in, and what changed in C++ between the two cannot
be told apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, groupby

from bisect_bot.model import Candidate, Commit, PartKind

JS, WASM, GLUE = "js", "wasm", "glue"


@dataclass(frozen=True, slots=True)
class Source:
    """A published build whose WebAssembly can be taken.

    `place` is the index of its commit in the ground's commits, None where that is not among them.
    """

    version: str
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """Commits of first-parent history, oldest first; those from `begin` to `end` (both included) are searched.

    `sources` are published builds whose WebAssembly may be taken. With `builds_wasm` every commit gets its own.
    `wasm_keys` tell for each commit what its WebAssembly is made of, by default the digest of its group `wasm`.
    """

    commits: tuple[Commit, ...]
    begin: int
    end: int
    sources: tuple[Source, ...] = ()
    builds_wasm: bool = False
    wasm_keys: tuple[str, ...] = ()
    _changes: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.wasm_keys:
            object.__setattr__(self, "wasm_keys", tuple(commit.key(WASM) for commit in self.commits))
        changed = (int(self.changes_wasm(place)) for place in range(len(self.commits)))
        object.__setattr__(self, "_changes", tuple(accumulate(changed)))
        places = {commit.revision.commit or "": place for place, commit in enumerate(self.commits)}
        object.__setattr__(self, "_places", places)

    def choices(self, place: int) -> tuple[Source, ...]:
        """The sources that the commit at `place` can be tried with, the best first; none where it builds its own.

        First those made from the same inputs. Then those with the same glue between JavaScript and WebAssembly, the
        fewest changes away. Then the others, later ones before earlier ones: what a newer WebAssembly offers more than
        an older JavaScript asks for does no harm. Whether parts fit is seen when they run.
        """
        if self.builds_wasm:
            return ()
        return tuple(sorted(self.sources, key=lambda source: self._rank(place, source)))

    def _rank(self, place: int, source: Source) -> tuple[bool, bool, bool, int, int]:
        if source.place is None:
            return True, True, True, len(self.commits), len(self.commits)
        mine, other = self.commits[place], self.commits[source.place]
        same_glue = mine.key(GLUE) == other.key(GLUE)
        earlier = source.place < place
        return (
            not self.is_exact(place, source),
            not same_glue,
            earlier and not same_glue,
            self._distance(place, source.place),
            source.place,
        )

    def is_exact(self, place: int, source: Source) -> bool:
        """Whether the WebAssembly of `source` is made from the very inputs that the commit at `place` has."""
        if source.place is None:
            return False
        return self.wasm_keys[place] == self.wasm_keys[source.place]

    def unseen(self, place: int, source: Source) -> tuple[Commit, ...]:
        """The commits whose change of the WebAssembly the commit at `place` has and `source` lacks, or the reverse.

        None where nobody knows which they are.
        """
        if source.place is None or self.is_exact(place, source):
            return ()
        return self.wasm_changes(place, source.place)

    def wasm_changes(self, one: int, other: int) -> tuple[Commit, ...]:
        """The commits after the earlier of two places, up to the later, that change inputs of the WebAssembly."""
        low, high = sorted((one, other))
        return tuple(self.commits[i] for i in range(low + 1, high + 1) if self.changes_wasm(i))

    def changes_wasm(self, place: int) -> bool:
        """Whether the commit at `place` has other inputs of the WebAssembly than the one before it."""
        return place > 0 and self.wasm_keys[place] != self.wasm_keys[place - 1]

    def changes_js(self, place: int) -> bool:
        """Whether the commit at `place` has other inputs of the JavaScript than the one before it."""
        return place > 0 and self.commits[place].key(JS) != self.commits[place - 1].key(JS)

    def _distance(self, one: int, other: int) -> int:
        return abs(self._changes[one] - self._changes[other])

    def candidates(self, guilty: PartKind | None = None) -> tuple[Candidate, ...]:
        """The searched commits in runs that give the same artifact, oldest first.

        Where the JavaScript is known to be `guilty` and a WebAssembly is lent, commits that touch only C++ are no
        candidates of their own. In all other cases a run must not hold two artifacts: what is said of its last commit
        rests on the test of its first.
        """
        places = range(self.begin, self.end + 1)
        runs = groupby(places, key=lambda place: self._identity(place, guilty))
        return tuple(Candidate(tuple(self.commits[i].revision for i in run)) for _, run in runs)

    def _identity(self, place: int, guilty: PartKind | None) -> tuple[str, ...]:
        commit = self.commits[place]
        js = commit.key(JS)
        if self.builds_wasm:
            return js, self.wasm_keys[place]
        if guilty is PartKind.JS:
            return (js,)
        # By the glue rather than by the source: which source fits is only seen when it runs, and then holds for all.
        nearest = next(iter(self.choices(place)), None)
        return js, commit.key(GLUE), nearest.version if nearest else ""

    def place_of(self, sha: str) -> int:
        """The place of the commit with the full id `sha`. Raises KeyError."""
        return self._places[sha]

    def holds(self, sha: str) -> bool:
        """Whether the commit with the full id `sha` is one of the ground's."""
        return sha in self._places
