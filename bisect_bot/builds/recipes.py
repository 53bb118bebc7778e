"""How a commit becomes an artifact in its era of upstream: read from `configs/recipes.toml`."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bisect_bot.builds.binding import Binding
from bisect_bot.builds.eras import BACKENDS, WISHES, Backend, EraBundle
from bisect_bot.errors import BuildUnusable, ConfigError, UsageError
from bisect_bot.history.inputs import HAS, Inputs
from bisect_bot.model import Bundle, Commit
from bisect_bot.paths import config_file

# Groups that every recipe asks for by these names.
JS, WASM, GLUE, MODULES = "js", "wasm", "glue", "modules"
_PATH = re.compile(r"[\w.@-]+(/[\w.@-]+)*")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Command(_Frozen):
    """A command run in `folder` of a commit's files; `{node}`, `{npm}` and the like stand for programs."""

    folder: str = "."
    command: tuple[str, ...] = Field(min_length=1)

    @field_validator("folder")
    @classmethod
    def _stays_inside(cls, folder: str) -> str:
        return _inside(folder)


class Quick(_Frozen):
    """A command that does enough of a step for a bundle, where the file `needs` is there."""

    needs: str
    command: tuple[str, ...] = Field(min_length=1)


class Prepare(Command):
    """A step whose outputs stay in the folder: it runs again when what lies below `inputs` has changed."""

    name: str
    inputs: tuple[str, ...]
    quick: Quick | None = None


class FastBuild(Command):
    """A command that makes bundles: `products` are files, and what they are called in the js part."""

    products: dict[str, str] = Field(min_length=1)

    @field_validator("products")
    @classmethod
    def _stay_inside(cls, products: dict[str, str]) -> dict[str, str]:
        return {_inside(path): _inside(name) for path, name in products.items()}


class FullBuild(Command):
    """A command that makes WebAssembly for `bundles`.

    `products` are files of the folder `from`, and what they are called in the wasm part.
    """

    bundles: tuple[str, ...]
    source: str = Field(alias="from")
    products: dict[str, str] = Field(min_length=1)


class Pull(Command):
    """A command that downloads a build of WebAssembly into the folder `from`."""

    source: str = Field(alias="from")


class RecipeBundle(EraBundle):
    """A bundle of a built commit. `inputs` are the groups that its WebAssembly is made of.

    A file without the text `proof` is not what its name says: an error, or an `optional` bundle that is not there.
    """

    inputs: tuple[str, ...] = (WASM,)
    proof: str = ""
    optional: bool = False


class Recipe(_Frozen):
    """One era. `unsupported` says why its commits cannot be built, where they cannot."""

    name: str
    when: tuple[str, ...]
    unless: tuple[str, ...] = ()
    like: str = ""
    unsupported: str = ""
    node: int
    cmake: str
    folders: tuple[str, ...]
    placed: dict[str, str]
    install: tuple[Command, ...]
    prepare: tuple[Prepare, ...]
    build: tuple[FastBuild, ...] = ()
    pull: Pull
    bundle: dict[str, RecipeBundle] = {}
    full: tuple[FullBuild, ...] = ()
    binding: Binding | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Recipe:
        if unknown := self.bundle.keys() - {*BACKENDS, *WISHES} | self.bundle.keys() & {"default"}:
            raise ValueError(f"nobody can ask for the bundle {', '.join(sorted(unknown))}")
        made = {name for build in self.build for name in build.products.values()}
        if lacking := sorted({bundle.file for bundle in self.bundle.values()} - made):
            raise ValueError(f"the recipe {self.name} makes no {', '.join(lacking)}")
        if not self.unsupported and not self.bundle:
            raise ValueError(f"the recipe {self.name} makes no bundle")
        return self

    @property
    def js_digest(self) -> str:
        """Hex, over all of the recipe that can change a js part."""
        return self._digest({"node", "folders", "placed", "install", "prepare", "build", "bundle", "binding"})

    @property
    def full_digest(self) -> str:
        """Hex, over all of the recipe that can change a wasm part that is built."""
        return self._digest({"full", "bundle", "binding"})

    def _digest(self, fields: set[str]) -> str:
        return hashlib.sha256(self.model_dump_json(include=fields).encode()).hexdigest()[:16]

    def fits(self, commit: Commit) -> bool:
        """Whether `commit` is of this era, by the markers in its keys."""
        return all(commit.key(HAS + path) for path in self.when) and not any(
            commit.key(HAS + path) for path in self.unless
        )

    def bundle_for(self, backend: str, wish: str = "default") -> Bundle:
        """The bundle that a page loads to run `backend`; `wish` as in `eras.bundle_for`.

        `default` is the bundle named like the backend. Raises BuildUnusable when the era has no such bundle or that
        lacks the backend, UsageError for a backend or wish that no era has.
        """
        found = self.bundles_entry(backend, wish)
        name = backend if wish == "default" else wish
        return Bundle(name, found.file, found.loader, found.implementation(backend), tuple(found.backends))

    def bundles_entry(self, backend: str, wish: str = "default") -> RecipeBundle:
        """What the recipe says of that bundle; raises as `bundle_for`."""
        if backend not in BACKENDS:
            raise UsageError(f"There is no backend {backend!r}.", f"Choose one of: {', '.join(BACKENDS)}.")
        if wish not in WISHES:
            raise UsageError(f"There is no bundle {wish!r}.", f"Choose one of: {', '.join(WISHES)}.")
        if self.unsupported:
            raise BuildUnusable(self.unsupported, _UNSUPPORTED)
        name = backend if wish == "default" else wish
        found = self.bundle.get(name)
        if found is None:
            raise BuildUnusable(f"a commit of the era {self.name!r} has no bundle {name}")
        if backend not in found.backends:
            raise BuildUnusable(f"the bundle {name} of the era {self.name!r} ({found.file}) has no backend {backend}")
        return found

    def wasm_files(self, wishes: Iterable[str] = ()) -> tuple[str, ...]:
        """The files of the WebAssembly that the bundles `wishes` (none named: all) fetch, sorted."""
        wanted = set(wishes) or self.bundle.keys()
        return tuple(sorted({file for name in wanted if name in self.bundle for file in self.bundle[name].wasm_files}))


class Recipes(_Frozen):
    """The whole file: groups of input paths, and the recipes, newest first."""

    inputs: dict[str, tuple[str, ...]]
    recipe: tuple[Recipe, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _inherit(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Gives each recipe what `every` has and what the one that it is `like` has, unless it says otherwise."""
        every = data.pop("every", {})
        stated = {recipe.get("name"): recipe for recipe in data.get("recipe", [])}
        own = ("name", "when", "unless", "like")
        for recipe in data.get("recipe", []):
            alike = stated.get(recipe.get("like"), {})
            inherited = {key: value for key, value in alike.items() if key not in own}
            recipe |= {key: value for key, value in (every | inherited).items() if key not in recipe}
        return data

    @model_validator(mode="after")
    def _names_its_groups(self) -> Recipes:
        used = {JS, WASM, GLUE, MODULES}
        used |= {group for recipe in self.recipe for bundle in recipe.bundle.values() for group in bundle.inputs}
        if lacking := sorted(used - self.inputs.keys()):
            raise ValueError(f"there is no group {', '.join(lacking)} of inputs")
        return self

    def history_inputs(self) -> Inputs:
        """What history has to look at in each commit: all groups, and the markers of all recipes."""
        markers = dict.fromkeys(path for recipe in self.recipe for path in (*recipe.when, *recipe.unless))
        return Inputs(tuple(self.inputs.items()), tuple(markers))

    def paths(self, group: str) -> tuple[str, ...]:
        """The paths of one group; "!path" leaves out what lies below."""
        return self.inputs[group]

    def of(self, commit: Commit) -> Recipe:
        """The recipe of `commit`. Raises BuildUnusable when no era fits, or its era cannot be built."""
        for recipe in self.recipe:
            if recipe.fits(commit):
                if recipe.unsupported:
                    raise BuildUnusable(f"{commit.revision.id}: {recipe.unsupported}", _UNSUPPORTED)
                return recipe
        raise BuildUnusable(
            f"{commit.revision.id} has the layout of no era that can be built",
            "Is it a commit of onnxruntime from 2023-10 on? The eras are in configs/recipes.toml.",
        )

    def wasm_key(self, commit: Commit, backend: Backend | str, wish: str = "default") -> str:
        """A hex digest of all that the WebAssembly of the bundle for `backend` is made of in `commit`.

        Two commits with equal ones have the same WebAssembly. Raises as `of` and `Recipe.bundle_for` do.
        """
        groups = self.of(commit).bundles_entry(backend, wish).inputs
        return hashlib.sha256("\n".join(commit.key(group) for group in groups).encode()).hexdigest()


_UNSUPPORTED = "Published builds of that time can be tested: --source published."


@cache
def load(path: Path | None = None) -> Recipes:
    """The recipes of `path` (default: the shipped file). Raises ConfigError when the file does not fit."""
    source = path or config_file("recipes.toml")
    try:
        return Recipes.model_validate(tomllib.loads(source.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        raise ConfigError(f"{source} cannot be used: {error}", "Restore the file that came with bisect-bot.") from error


def _inside(path: str) -> str:
    if path != "." and (not _PATH.fullmatch(path) or ".." in path.split("/")):
        raise ValueError(f"{path!r} is no path below the commit's files")
    return path
