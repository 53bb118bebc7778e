"""The halves of an artifact: kept in the store like artifacts, and put together from there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bisect_bot.builds.binding import Binding
from bisect_bot.builds.disk import disk_errors
from bisect_bot.builds.recipes import Recipe
from bisect_bot.builds.store import COMMIT_ID, Record, Store
from bisect_bot.errors import BuildUnusable, MachineError
from bisect_bot.model import Artifact, Bundle, Part, PartKind
from bisect_bot.scratch import scratch


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts in `store`."""

    store: Store

    def find(self, kind: PartKind, key: str, source: str, recipe: Recipe) -> Part | None:
        """The part of `key` if it is here, with every byte as it was stored; a damaged one is removed. MachineError."""
        found = self.store.find(key)
        if found is None or not self.store.is_intact(found):
            return None
        return _part(kind, source, found, recipe)

    def keep(self, kind: PartKind, key: str, source: str, recipe: Recipe, files: Path) -> Part:
        """Moves the folder `files` (below the store's `tmp`) into the store. Raises DiskFull, MachineError."""
        commits = {found.decode() for path in files.glob("*.wasm") for found in COMMIT_ID.findall(path.read_bytes())}
        record = Record(key=key, revision=source, commit=commits.pop() if len(commits) == 1 else None)
        return _part(kind, source, self.store.add(record, files), recipe)

    def taken(
        self, key: str, source: str, recipe: Recipe, folder: Path, names: Iterable[str], add: Callable[[Path], None]
    ) -> Part:
        """The wasm part of the files `names` of `folder`, by hard links where that is possible, and what `add` adds."""
        found = self.find(PartKind.WASM, key, source, recipe)
        if found is not None:
            return found
        with disk_errors(self.store.root), scratch(self.store.tmp) as place:
            files = place.path / "files"
            for name in names:
                link_or_copy(folder / name, files / name)
            add(files)
            return self.keep(PartKind.WASM, key, source, recipe, files)

    def assemble(self, js: Part, wasm: Part, revision: str, bindings: Iterable[Binding]) -> tuple[Artifact, bool]:
        """The artifact of both parts, and whether it was here.

        Where the wasm part has the scripts of one of `bindings`, they go into the bundles. Raises MachineError when a
        part was damaged since it was made (it is removed: asking for it again makes it anew), DiskFull.
        """
        key = f"parts:{js.digest}+{wasm.digest}"
        found = self.store.find(key)
        if found is not None:
            return replace(found, revision=revision), True
        for part in (js, wasm):
            if not self.store.is_intact(Artifact(part.source, part.key, part.digest, part.directory)):
                raise MachineError(f"The {part.kind} part of {part.source} was damaged on the disk.", "Try again.")
        with disk_errors(self.store.root), scratch(self.store.tmp) as place:
            files = place.path / "files"
            for part in (js, wasm):
                for path in sorted(each for each in part.directory.rglob("*") if each.is_file()):
                    link_or_copy(path, files / path.relative_to(part.directory))
            for binding in bindings:
                if all((files / name).is_file() for name in binding.files):
                    binding.put_into(files)
            commit = getattr(self.store.record(wasm.key), "commit", None)
            return self.store.add(Record(key=key, revision=revision, commit=commit), files), False


def link_or_copy(source: Path, target: Path) -> None:
    """Makes `target` a hard link to `source`, or a copy where the filesystem has none. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def bundle_of(part: Part, recipe: Recipe, backend: str, wish: str = "default") -> Bundle:
    """What a page loads for `backend`. Raises as `Recipe.bundle_for`, and when it is not there."""
    bundle = recipe.bundle_for(backend, wish)
    if not (part.directory / bundle.file).is_file():
        raise BuildUnusable(f"the JavaScript of {part.source} has no bundle {bundle.name}: {bundle.file} is not built")
    return bundle


def _part(kind: PartKind, source: str, kept: Artifact, recipe: Recipe) -> Part:
    bundles = _bundles(recipe, kept.directory) if kind is PartKind.JS else ()
    return Part(kind, source, kept.key, kept.digest, kept.directory, bundles)


def _bundles(recipe: Recipe, directory: Path) -> tuple[Bundle, ...]:
    """The bundles that are there; each with who computes for the backend that it is called by, or else WebGPU."""
    return tuple(
        Bundle(name, has.file, has.loader, has.implementation(name if name in has.backends else "webgpu"), has.backends)
        for name, has in recipe.bundle.items()
        if (directory / has.file).is_file()
    )
