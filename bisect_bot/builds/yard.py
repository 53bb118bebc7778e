"""Where commits are built: a pool of folders, npm's packages, and the parts that come out of them."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from bisect_bot.builds import checkout as folders
from bisect_bot.builds import recipes as recipe_file
from bisect_bot.builds import wasm_build
from bisect_bot.builds.checkout import Folder, Listing
from bisect_bot.builds.commands import Commands, Failed
from bisect_bot.builds.disk import disk_errors
from bisect_bot.builds.install import Modules
from bisect_bot.builds.node import Node
from bisect_bot.builds.npm import Npm
from bisect_bot.builds.package import extract
from bisect_bot.builds.parts import Parts, bundle_of
from bisect_bot.builds.patching import apply
from bisect_bot.builds.recipes import JS, MODULES, Prepare, Quick, Recipe, Recipes
from bisect_bot.builds.store import Store
from bisect_bot.builds.typescript import build_bundles
from bisect_bot.builds.wasm_build import FullBuilder, Toolchain
from bisect_bot.errors import BuildUnusable
from bisect_bot.model import Artifact, Bundle, Commit, Part, PartKind
from bisect_bot.scratch import scratch

# Binaries that packages would download when they are installed.
_ENVIRONMENT: Mapping[str, str | None] = {
    "ELECTRON_SKIP_BINARY_DOWNLOAD": "1",
    "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1",
    "PUPPETEER_SKIP_DOWNLOAD": "1",
    "npm_config_update_notifier": "false",
    "NO_COLOR": "1",
    "FORCE_COLOR": None,
    # What a user's own shell may set for other work.
    "NODE_OPTIONS": None,
    "NODE_ENV": None,
    "npm_config_bundle_mode": None,
}


class Clone(Protocol):
    """What is asked of a clone: its git directory, the files of a commit, and their contents."""

    @property
    def path(self) -> Path:
        """The git directory, or a worktree with one."""

    def tree(self, commit: str, folders: Sequence[str]) -> Mapping[str, tuple[str, str]]:
        """Mode and object id of each file below `folders` (files, too) of a commit."""

    def objects(self, oids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The contents of blobs. Raises BuildUnusable when one cannot be had."""


def _silent(_words: str) -> None:
    """Tells nobody."""


@dataclass
class Yard:
    """Builds commits of `clone` below the folder `cache`; `doing` hears what takes long, `say` what is worth knowing.

    Several processes may do so at once. `node` None: the one in the PATH, looked for when something is built.
    """

    cache: Path
    clone: Clone
    recipes: Recipes = field(default_factory=recipe_file.load)
    node: Node | None = None
    doing: Callable[[str], None] = _silent
    say: Callable[[str], None] = _silent

    def js_part(self, commit: Commit, patch: bytes | None = None) -> tuple[Part, bool]:
        """The JavaScript of `commit`, and whether it was in the cache.

        `patch` is a git diff that is applied before it is built. Raises BuildUnusable when the commit (or the diff)
        gives none, NpmError, DiskFull, MachineError.
        """
        recipe = self.recipes.of(commit)
        words = f"js:{recipe.js_digest}:{commit.key(JS)}:node{self._node.major}"
        key = f"{words}:patch:{hashlib.sha256(patch).hexdigest()}" if patch else words
        source = f"{commit.revision.id}, changed" if patch else commit.revision.id
        found = self._parts.find(PartKind.JS, key, source, recipe)
        if found is not None:
            return found, True
        with disk_errors(self.cache), self._prepared(commit, recipe, patch, for_tests=False) as folder:
            self.doing(f"building the TypeScript of {source}")
            with scratch(self._parts.store.tmp) as place:
                files = place.path / "files"
                build_bundles(recipe, folder.root, files, self._commands, commit.revision.id)
                return self._parts.keep(PartKind.JS, key, source, recipe, files), False

    def wasm_part(self, commit: Commit, bundle: str = "webgpu") -> tuple[Part, bool]:
        """The WebAssembly that the bundle `bundle` fetches, built from `commit`, and whether it was in the cache.

        Takes an hour or more. Raises BuildUnusable with what went wrong and where the log is, DiskFull, MachineError.
        """
        recipe = self.recipes.of(commit)
        key = f"wasm:{recipe.full_digest}:{bundle}:{self.recipes.wasm_key(commit, *_asked(bundle))}"
        found = self._parts.find(PartKind.WASM, key, commit.revision.id, recipe)
        if found is not None:
            return found, True
        self.doing(f"building the WebAssembly of {commit.revision.id} (an hour or more)")
        with disk_errors(self.cache), scratch(self._parts.store.tmp) as place:
            files = place.path / "files"
            builder = FullBuilder(self.clone.path, self._commands)
            builder.build(recipe, commit.revision.commit or "", bundle, files)
            return self._parts.keep(PartKind.WASM, key, commit.revision.id, recipe, files), False

    def pulled_wasm(self, commit: Commit) -> Part:
        """What `npm run pull:wasm` brings: the newest build of main, whatever the commit. Each call downloads it.

        Raises BuildUnusable when it brings nothing, DiskFull, MachineError.
        """
        recipe = self.recipes.of(commit)
        today = dt.datetime.now(dt.UTC).date()
        with disk_errors(self.cache), self._prepared(commit, recipe, None, for_tests=False) as folder:
            self.doing("downloading the newest WebAssembly of main (npm run pull:wasm)")
            pull = recipe.pull
            try:
                self._commands.run(
                    "npm run pull:wasm", pull.command, cwd=folder.root / pull.folder, subject=commit.revision.id
                )
            except Failed as error:
                raise error.unusable() from error
            got = folder.root / pull.source
            names = [name for name in recipe.wasm_files() if (got / name).is_file()]
            if not names:
                raise BuildUnusable(
                    f"npm run pull:wasm ended well but brought none of {', '.join(recipe.wasm_files())}"
                )
            source = f"npm run pull:wasm of {today}"
            with scratch(self._parts.store.tmp) as place:
                files = place.path / "files"
                files.mkdir()
                for name in names:
                    (got / name).rename(files / name)
                return self._parts.keep(PartKind.WASM, f"wasm:pull:{recipe.full_digest}:{today}", source, recipe, files)

    def published_wasm(self, commit: Commit, version: str, artifact: Artifact) -> Part:
        """The WebAssembly of the published build `version`, whose artifact is `artifact`, for the bundles of `commit`.

        Raises BuildUnusable when the build has not all that one of the bundles fetches, NpmError, DiskFull.
        """
        recipe = self.recipes.of(commit)
        complete = [name for name in recipe.bundle if _has(artifact.directory, recipe.wasm_files([name]))]
        names = recipe.wasm_files(complete) if complete else ()
        if not names:
            lacking = ", ".join(name for name in recipe.wasm_files() if not (artifact.directory / name).is_file())
            raise BuildUnusable(f"parts do not fit: {version} lacks {lacking}, which {commit.revision.id} fetches")
        key = f"wasm:published:{artifact.digest}:{','.join(names)}"

        def add(files: Path) -> None:
            if recipe.binding is not None:
                self.doing(f"fetching {version} again, for the glue of its WebAssembly")
                with scratch(self._parts.store.tmp) as place:
                    tarball = Npm.find().pack(version, place.path)
                    extract(tarball.path, recipe.binding.packaged, recipe.binding.files, files)

        return self._parts.taken(key, version, recipe, artifact.directory, names, add)

    def assemble(self, js: Part, wasm: Part, revision: str) -> tuple[Artifact, bool]:
        """What a page loads of both parts, in one folder, and whether it was in the cache. `revision` is its name.

        Raises MachineError when a part was damaged since it was made, DiskFull.
        """
        bindings = [recipe.binding for recipe in self.recipes.recipe if recipe.binding]
        return self._parts.assemble(js, wasm, revision, bindings)

    def bundle_for(self, commit: Commit, part: Part, backend: str, wish: str = "default") -> Bundle:
        """The file of the js part of `commit` that a page loads for `backend`. Raises BuildUnusable, UsageError."""
        return bundle_of(part, self.recipes.of(commit), backend, wish)

    def toolchain(self, commit: Commit | None = None) -> Toolchain:
        """Whether the full WebAssembly build of `commit` (None: of the newest era) can run here. Takes seconds."""
        recipe = self.recipes.of(commit) if commit else self.recipes.recipe[0]
        return wasm_build.toolchain(recipe, self.cache)

    @contextlib.contextmanager
    def checkout(self, commit: Commit, patch: bytes | None = None) -> Iterator[Path]:
        """A folder with the files of `commit`, packages and compiled scripts in place, locked until it is left.

        `patch` is a git diff that is applied to the files.

        js/web/dist is there and empty. Whatever is changed or added in it is undone when it is used the next time.
        Raises as `js_part`.
        """
        recipe = self.recipes.of(commit)
        with self._prepared(commit, recipe, patch, for_tests=True) as folder:
            with disk_errors(self.cache):
                (folder.root / "js/web/dist").mkdir(parents=True, exist_ok=True)
            yield folder.root

    @cached_property
    def _parts(self) -> Parts:
        return Parts(Store(self.cache))

    @cached_property
    def _node(self) -> Node:
        return self.node or Node.find()

    @cached_property
    def _commands(self) -> Commands:
        words = {"node": self._node.executable, "npm": self._node.npm, **wasm_build.words()}
        return Commands(self.cache / "logs", self._parts.store.tmp, words, _ENVIRONMENT)

    @contextlib.contextmanager
    def _prepared(self, commit: Commit, recipe: Recipe, patch: bytes | None, *, for_tests: bool) -> Iterator[Folder]:
        """A folder with the files of `commit`, changed by `patch`, in which every step of `recipe` was done."""
        self._node.require(recipe.node)
        modules = Modules(self.cache, self._commands, self._node, self.recipes.paths(MODULES), self.doing)
        listing: Listing = self.clone.tree(commit.revision.commit or "", recipe.folders)
        with contextlib.ExitStack() as stack:
            with disk_errors(self.cache):
                digest = modules.digest(recipe, listing)
                folder = stack.enter_context(folders.borrow(self.cache / "trees", digest))
                folder.write(listing, lambda oids: dict(self.clone.objects(oids)))
                if patch:
                    listing = apply(patch, folder, listing, self._commands, commit.revision.id)
                if not for_tests:
                    folder.overlay({path: text.encode() for path, text in recipe.placed.items()})
                    folder.overlay(recipe.binding.placeholders() if recipe.binding else {})
                digest = modules.bring(folder, recipe, listing, commit.revision.id)
                self._prepare(folder, recipe, listing, digest, commit.revision.id, for_tests=for_tests)
            yield folder

    def _prepare(
        self, folder: Folder, recipe: Recipe, listing: Listing, modules: str, subject: str, *, for_tests: bool
    ) -> None:
        for step in recipe.prepare:
            inputs = [f"{path} {oid}" for path, (_, oid) in sorted(listing.items()) if _is_below(path, step.inputs)]
            quick = step.quick if not for_tests and step.quick and (folder.root / step.quick.needs).is_file() else None
            words = [modules, step.name, step.folder, *step.command, *(quick.command if quick else ()), *inputs]
            digest = hashlib.sha256("\n".join(words).encode()).hexdigest()

            def run(step: Prepare = step, quick: Quick | None = quick) -> None:
                what, cwd = f"preparing {step.name}", folder.root / step.folder
                self.doing(f"{what} of {subject}")
                if quick:
                    with contextlib.suppress(Failed):
                        self._commands.run(f"{what} quickly", quick.command, cwd=cwd, subject=subject)
                        return
                try:
                    self._commands.run(what, step.command, cwd=cwd, subject=subject)
                except Failed as error:
                    raise error.unusable() from error

            folder.step(step.name, digest, run, self.cache / "steps")


def _is_below(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _has(directory: Path, names: Sequence[str]) -> bool:
    return bool(names) and all((directory / name).is_file() for name in names)


def _asked(bundle: str) -> tuple[str, str]:
    """Backend and wish that mean the bundle `bundle`."""
    return (bundle, "default") if bundle in ("wasm", "webgl") else ("webgpu", bundle)
