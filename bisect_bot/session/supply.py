"""Where a session's revisions and artifacts come from: published builds, and commits of a clone."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bisect_bot.builds import Store, crossings
from bisect_bot.builds.wasm_build import Toolchain
from bisect_bot.builds.yard import Yard
from bisect_bot.errors import BuildUnusable, UnknownRevision, UsageError
from bisect_bot.history import is_older, resolve
from bisect_bot.history.clone import Clone, open_clone
from bisect_bot.history.ends import oldest_first
from bisect_bot.history.merges import on_one_line
from bisect_bot.history.patches import diff_of, reverse_diff_of
from bisect_bot.model import Artifact, Bundle, Commit, Request, Revision
from bisect_bot.model.commits import PICK
from bisect_bot.session.commit_builds import CommitBuilds, Made
from bisect_bot.session.ground import JS, WASM
from bisect_bot.session.judging import UPSTREAM
from bisect_bot.session.survey import AUTO, BUILD, survey
from bisect_bot.session.workshop import Workshop

PUBLISHED, COMMITS = "published", "commits"


@dataclass(slots=True)
class Supply:
    """What `request` can be answered with. `builds` are all published builds, in the order of history.

    `notes` are sentences for the report about the revisions that stand for what was named.
    """

    request: Request
    workshop: Workshop
    builds: tuple[Revision, ...]
    notes: list[str] = field(default_factory=list)
    _clone: Clone | None = None
    _yard: Yard | None = None
    _toolchain: Toolchain | None = None
    _grounds: list[CommitBuilds] = field(default_factory=list)
    _made: dict[str, Made] = field(default_factory=dict)  # what all of them made: grounds may overlap

    @classmethod
    def of(cls, request: Request, workshop: Workshop) -> Supply:
        """The supply of `request`. Raises UsageError, and NpmError where no list of builds is to be had."""
        if request.source == PUBLISHED and request.wasm != AUTO:
            raise UsageError("--wasm is for commits: a published build brings its own", "Leave it out.")
        builds = workshop.revisions()
        if request.wasm not in (AUTO, BUILD, *(build.version for build in builds)):
            raise UsageError(
                f"no published build is called {request.wasm!r}", "--wasm takes auto, build or a version; see: versions"
            )
        return cls(request, workshop, builds)

    # --- revisions ------------------------------------------------------------------------------

    def meant(self, text: str) -> Revision:
        """The revision that `text` names; says which where it is not the name itself. Raises UnknownRevision."""
        revision = self._resolve(text)
        self._say_what_is_meant(text, revision)
        return revision

    def ends(self, good: str, bad: str) -> tuple[Revision, Revision]:
        """The two revisions that are meant, both published builds or both commits. Raises UnknownRevision."""
        found = self._resolve(good), self._resolve(bad)
        if len({revision.version is None for revision in found}) > 1:
            found = self._commit(good), self._commit(bad)
        for text, revision in zip((good, bad), found, strict=True):
            self._say_what_is_meant(text, revision)
        return self._on_one_line(*found) if self.request.full_history and found[0].version is None else found

    def _on_one_line(self, good: Revision, bad: Revision) -> tuple[Revision, Revision]:
        """The two ends, or what is tested for one that is on a side branch. Raises UsageError."""
        *ends, said = on_one_line(self.clone.git, good.commit or "", bad.commit or "")
        if said:
            self.workshop.watcher.say(said)
            self.notes.append(said)
            good, bad = (self.clone.revision(sha) for sha in ends)
        return good, bad

    def _say_what_is_meant(self, text: str, revision: Revision) -> None:
        if revision.id != text:
            self.workshop.watcher.say(f"{text} is taken for {revision.id}")

    def _resolve(self, text: str) -> Revision:
        # Upstream's runner needs a commit's files, whatever build was made of it.
        wants_commit = self.request.driver == UPSTREAM and self.request.source != PUBLISHED
        if self.request.source == COMMITS or wants_commit:
            return self._commit(text)
        try:
            return resolve(text, self.builds)
        except UnknownRevision as error:
            if self.request.source == PUBLISHED:
                raise
            if self.request.repo is None:
                raise UnknownRevision(
                    str(error), f"{error.advice} To search among commits, name a clone with --repo."
                ) from error
        return self._commit(text)

    def _commit(self, text: str) -> Revision:
        return self.clone.resolve(text, self.builds)

    def commit_of(self, build: Revision) -> Revision:
        """The commit of main that the published `build` was made from, or grew from. Raises UnknownRevision."""
        return self._commit(build.version or build.id)

    def in_order(self, one: Revision, other: Revision) -> tuple[Revision, Revision]:
        """Two builds or two commits, the older first. Raises UsageError for commits on different branches."""
        if one.version is not None:
            return (one, other) if is_older(one, other) else (other, one)
        old, _ = oldest_first(self.clone.git, one.commit or "", other.commit or "")
        return (one, other) if old == one.commit else (other, one)

    @property
    def has_clone(self) -> bool:
        """Whether commits can be looked up without asking for more than the user named."""
        return self.request.repo is not None or self._clone is not None

    @property
    def clone(self) -> Clone:
        """The clone that `--repo` names, opened at its first use. Raises UsageError, MachineError."""
        if self._clone is None:
            watcher = self.workshop.watcher
            self._clone = open_clone(self.request.repo, self.workshop.cache, say=watcher.say, doing=watcher.doing)
        return self._clone

    @property
    def yard(self) -> Yard:
        """Where commits of the clone are built."""
        if self._yard is None:
            watcher = self.workshop.watcher
            self._yard = Yard(self.workshop.cache, self.clone, say=watcher.say, doing=watcher.doing)
        return self._yard

    @property
    def toolchain(self) -> Toolchain:
        """What the full WebAssembly build needs, and whether it is here; looked for once."""
        if self._toolchain is None:
            self._toolchain = self.yard.toolchain()
        return self._toolchain

    # --- artifacts ------------------------------------------------------------------------------

    def open_ground(self, old: Revision, new: Revision) -> CommitBuilds:
        """The builds of the commits from `old` to `new`. Raises UsageError where one is no ancestor of the other."""
        self.workshop.watcher.doing(f"planning the commits from {old.id} to {new.id}")
        wasm = self.request.wasm
        if wasm == AUTO and self.toolchain.able:
            wasm = BUILD
        ground = survey(
            self.clone,
            old.commit or "",
            new.commit or "",
            self.yard.recipes.history_inputs(),
            self.builds,
            wasm,
            self._wasm_key,
        )
        wish = self.request.bundle
        bundle = self.request.backends[0] if wish == "default" else wish
        builds = CommitBuilds(ground, self.yard, self._published, self._patch, bundle, _made=self._made)
        self._grounds.append(builds)
        return builds

    def _wasm_key(self, commit: Commit) -> str:
        """What the WebAssembly of all asked backends is made of in `commit`; its group where no recipe fits."""
        try:
            keys = [self.yard.recipes.wasm_key(commit, b, self.request.bundle) for b in self.request.backends]
        except BuildUnusable:
            return commit.key(WASM)
        return "\n".join(keys)

    def _patch(self, kind: str, commit: str) -> bytes:
        paths = self.yard.recipes.inputs[JS]
        make = diff_of if kind == PICK else reverse_diff_of
        return make(self.clone.git, commit, paths)

    def _published(self, version: str) -> tuple[Artifact, bool]:
        found = next((build for build in self.builds if build.version == version), None)
        if found is None:
            raise BuildUnusable(f"there is no published build {version}")
        return self.workshop.fetch(found)

    def _of(self, revision: Revision) -> CommitBuilds:
        for builds in self._grounds:
            if builds.holds(revision):
                return builds
        return self.open_ground(revision, revision)

    def builds_of(self, revision: Revision) -> CommitBuilds:
        """The builds among which the commit `revision` is. Raises as `open_ground`, where nobody asked for it yet."""
        return self._of(revision)

    def fetch(self, revision: Revision) -> tuple[Artifact, bool]:
        """The artifact of `revision`, and whether it was in the cache. Raises BuildUnusable, MachineError."""
        return self.workshop.fetch(revision) if revision.version else self._of(revision).fetch(revision)

    def bundle_for(self, revision: Revision, backend: str) -> Bundle:
        """The file that a page loads of `revision`, which was fetched, for `backend`. Raises BuildUnusable."""
        wish = self.request.bundle
        if revision.version:
            return self.workshop.bundle_for(revision, backend, wish)
        return self._of(revision).bundle_for(revision, backend, wish)

    def is_intact(self, artifact: Artifact) -> bool:
        """Whether the bytes of an artifact in the cache are unchanged; damaged ones are removed."""
        store = Store(self.workshop.cache)
        mine = [builds for builds in self._grounds if builds.has_made(artifact)]
        return all(builds.is_intact(artifact, store) for builds in mine) if mine else store.is_intact(artifact)

    def checkout(self, artifact: Artifact) -> AbstractContextManager[Path]:
        """A folder with the files of the commit that `artifact` was made of, ready to run upstream's tests.

        Raises BuildUnusable for artifacts that no commit was built for.
        """
        for builds in self._grounds:
            if builds.has_made(artifact):
                return builds.checkout(artifact)
        raise BuildUnusable("upstream's test runner needs a commit: no published build has it")

    def other_parts(self, revision: Revision) -> bool:
        """Hears that the parts of `revision` do not fit; whether there are others to be tried."""
        return not revision.version and self._of(revision).other_parts(revision)

    def lent(self, revision: Revision) -> tuple[str, tuple[str, ...]]:
        """The published build whose WebAssembly stands in for that of `revision` (empty: none), and what it lacks."""
        if revision.version:
            return "", ()
        builds = self._of(revision)
        return builds.lent_by(revision), builds.approximate(revision)

    def crossings(self, revisions: tuple[Revision, ...]) -> list[str]:
        """Where `revisions`, published builds, change from one implementation to another, in sentences."""
        versions = [r.version for r in revisions if r.version]
        found = [
            text for backend in self.request.backends for text in crossings(versions, backend, self.request.bundle)
        ]
        return list(dict.fromkeys(found))
