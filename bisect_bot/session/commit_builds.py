"""Artifacts of commits: their own JavaScript with the WebAssembly that the ground gives them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bisect_bot.builds import Store
from bisect_bot.builds.yard import Yard
from bisect_bot.errors import BuildUnusable
from bisect_bot.model import Artifact, Bundle, Candidate, Commit, Part, PartKind, Revision
from bisect_bot.model.commits import PICK, REVERT, WASM_OF
from bisect_bot.session.ground import GLUE, WASM, Ground, Source


@dataclass(frozen=True, slots=True)
class Made:
    """What an artifact was put together from. `source` lent the WebAssembly; None where the commit has its own.

    `commit` is the one that was built, `patch` the diff that was applied to it.
    """

    commit: Commit
    patch: bytes | None
    js: Part
    wasm: Part
    source: Source | None
    digest: str


@dataclass(slots=True)
class CommitBuilds:
    """The builds of one ground's commits, and of their variants.

    `published` gives the artifact of a published build, `patch` the diff that a variant (`revert`, `pick`) needs.
    `bundle` is the one whose WebAssembly is built.
    """

    ground: Ground
    yard: Yard
    published: Callable[[str], tuple[Artifact, bool]]
    patch: Callable[[str, str], bytes]
    bundle: str = "webgpu"
    _unfit: set[tuple[str, str]] = field(default_factory=set)
    _made: dict[str, Made] = field(default_factory=dict)

    def wasm_groups(self, commit: Commit) -> tuple[str, ...]:
        """The groups of inputs (configs/recipes.toml) that the WebAssembly of `commit` is made of."""
        try:
            recipe = self.yard.recipes.of(commit)
        except BuildUnusable:
            return (WASM,)
        entry = recipe.bundle.get(self.bundle)
        return entry.inputs if entry else (WASM,)

    def holds(self, revision: Revision) -> bool:
        """Whether `revision` is a commit of this ground."""
        return self.ground.holds(revision.commit or "")

    def fetch(self, revision: Revision) -> tuple[Artifact, bool]:
        """The artifact of `revision`, and whether it was in the cache. Raises BuildUnusable, MachineError."""
        place = self.ground.place_of(revision.commit or "")
        commit = self.ground.commits[place]
        kind, _, word = revision.variant.partition(":")
        patch = self.patch(kind, word) if kind in (REVERT, PICK) else None
        js, js_reused = self.yard.js_part(commit, patch)
        source = Source(word) if kind == WASM_OF else self.source(place)
        wasm, wasm_reused = self._wasm(commit, source)
        artifact, _ = self.yard.assemble(js, wasm, revision.id)
        self._made[revision.id] = Made(commit, patch, js, wasm, source, artifact.digest)
        return artifact, js_reused and wasm_reused

    def _wasm(self, commit: Commit, source: Source | None) -> tuple[Part, bool]:
        if source is None:
            return self.yard.wasm_part(commit, self.bundle)
        artifact, _ = self.published(source.version)
        return self.yard.published_wasm(commit, source.version, artifact), True

    def source(self, place: int) -> Source | None:
        """Who lends the commit at `place` its WebAssembly; None where it builds its own. Raises BuildUnusable."""
        if self.ground.builds_wasm:
            return None
        choices = self.ground.choices(place)
        if not choices:
            raise BuildUnusable(
                "no published build can lend it a WebAssembly, and none can be built here",
                "Name one with --wasm VERSION, or build them with --wasm build.",
            )
        fitting = [source for source in choices if (self._glue(place), source.version) not in self._unfit]
        return next(iter(fitting), choices[0])

    def other_parts(self, revision: Revision) -> bool:
        """Hears that the parts of `revision` do not fit; whether there are others to be tried."""
        if revision.variant or self.ground.builds_wasm:
            return False
        place = self.ground.place_of(revision.commit or "")
        before = self.source(place)
        assert before is not None, "without a source nothing was built"
        self._unfit.add((self._glue(place), before.version))
        return self.source(place) != before and any(
            (self._glue(place), source.version) not in self._unfit for source in self.ground.choices(place)
        )

    def _glue(self, place: int) -> str:
        return self.ground.commits[place].key(GLUE)

    def bundle_for(self, revision: Revision, backend: str, wish: str) -> Bundle:
        """The file that a page loads of the artifact of `revision`, which was fetched. Raises BuildUnusable."""
        commit = self.ground.commits[self.ground.place_of(revision.commit or "")]
        return self.yard.bundle_for(commit, self._made[revision.id].js, backend, wish)

    def is_intact(self, artifact: Artifact, store: Store) -> bool:
        """Whether the bytes of `artifact` and of its parts, which share files with it, are unchanged."""
        mine = [made for made in self._made.values() if made.digest == artifact.digest]
        parts = {part for made in mine for part in (made.js, made.wasm)}
        entries = [artifact, *(Artifact("", part.key, part.digest, part.directory) for part in parts)]
        damaged = [entry for entry in entries if not store.is_intact(entry)]
        return not damaged

    def lent_by(self, revision: Revision) -> str:
        """The version whose WebAssembly stands in for the own one of `revision`; empty where nothing stands in."""
        made = self._made.get(revision.id)
        if made is None or made.source is None:
            return ""
        place = self.ground.place_of(revision.commit or "")
        return "" if self.ground.is_exact(place, made.source) else made.source.version

    def approximate(self, revision: Revision) -> tuple[str, ...]:
        """The commits (full ids) whose change of the WebAssembly `revision` was tested without, or with in advance."""
        made = self._made.get(revision.id)
        if made is None or made.source is None:
            return ()
        place = self.ground.place_of(revision.commit or "")
        source = next((s for s in self.ground.sources if s.version == made.source.version), made.source)
        return tuple(c.revision.commit or "" for c in self.ground.unseen(place, source))

    def lenders_around(self, old: Candidate, new: Candidate) -> tuple[Revision, Revision]:
        """The searched commits nearest to those that the WebAssembly of two candidates was made from."""
        ground = self.ground
        before, after = self.source_of(old.revision), self.source_of(new.revision)
        low = ground.begin if before is None or before.place is None else max(ground.begin, before.place)
        high = ground.end if after is None or after.place is None else min(ground.end, after.place)
        return ground.commits[low].revision, ground.commits[high].revision

    def lenders_differ(self, old: Candidate, new: Candidate) -> bool:
        """Whether the WebAssembly of another build came with the first commit of `new`."""
        before, after = self.source_of(old.revision), self.source_of(new.revision)
        return before != after and before is not None and after is not None

    def suspects(self, old: Candidate, new: Candidate, guilty: PartKind | None) -> tuple[Revision, ...]:
        """The commits that may be what changed between the artifacts of two neighbouring candidates, oldest first.

        Others than the first of `new` where the WebAssembly of another build came with it. `guilty` is the part that
        alone makes the difference there, where that is known.
        """
        if guilty is PartKind.JS:
            return (new.revision,)
        before, after = self.source_of(old.revision), self.source_of(new.revision)
        first = self.ground.place_of(new.revision.commit or "")
        if before is None or after is None or before.place is None or after.place is None:
            return (new.revision,)
        came = {c.revision.commit for c in self.ground.wasm_changes(before.place, after.place)}
        if guilty is None and self.ground.changes_js(first):
            came.add(new.revision.commit)
        return tuple(c.revision for c in self.ground.commits if c.revision.commit in came)

    def source_of(self, revision: Revision) -> Source | None:
        """Who lent `revision` its WebAssembly; None where nobody did, or it was not fetched."""
        made = self._made.get(revision.id)
        if made is None or made.source is None:
            return None
        # Another ground, which shares commits with this one, may have made it: places are counted from here.
        version = made.source.version
        return next((each for each in self.ground.sources if each.version == version), Source(version))

    def checkout(self, artifact: Artifact) -> AbstractContextManager[Path]:
        """A folder with the files that `artifact`, put together here, was built from, ready to run upstream's tests."""
        made = next(made for made in self._made.values() if made.digest == artifact.digest)
        return self.yard.checkout(made.commit, made.patch)

    def has_made(self, artifact: Artifact) -> bool:
        """Whether `artifact` was put together here."""
        return any(made.digest == artifact.digest for made in self._made.values())
