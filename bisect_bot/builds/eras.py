"""Which file of a published build a page loads, and who computes there: read from `configs/eras.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

import semver
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bisect_bot.errors import BuildUnusable, ConfigError, UsageError
from bisect_bot.model import Bundle, Loader
from bisect_bot.paths import config_file

Backend = Literal["webgpu", "wasm", "webgl"]
BACKENDS: tuple[Backend, ...] = ("webgpu", "wasm", "webgl")
WISHES = ("default", "webgpu", "all", "jspi")
_WHO = {"jsep": "JSEP", "native": "the native provider", "wasm": "WebAssembly", "webgl": "WebGL"}


class EraBundle(BaseModel):
    """One bundle as an era has it. `webgpu` names who computes for that backend, where the bundle has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=r"^\w[\w.-]*(/\w[\w.-]*)*$")
    loader: Loader
    backends: tuple[Backend, ...]
    wasm_files: tuple[str, ...]
    webgpu: Literal["jsep", "native"] | None = None

    @model_validator(mode="after")
    def _names_who_computes(self) -> EraBundle:
        if ("webgpu" in self.backends) != (self.webgpu is not None):
            raise ValueError("a bundle names who computes for webgpu if, and only if, it has that backend")
        return self

    def implementation(self, backend: str) -> str:
        """Who computes for `backend`: jsep, native, wasm or webgl."""
        return self.webgpu if backend == "webgpu" and self.webgpu else backend


class Era(BaseModel):
    """What changed at the version `since`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    since: str
    bundle: dict[str, EraBundle] = {}

    @field_validator("since")
    @classmethod
    def _is_a_version(cls, since: str) -> str:
        prerelease = semver.Version.parse(since).prerelease
        if prerelease and not re.fullmatch(r"dev\.\d{8}(-0|\.0)", prerelease):
            raise ValueError(f"{since} does not sort before the dev builds of its day: end it in -0")
        return since

    @field_validator("bundle")
    @classmethod
    def _can_be_wished_for(cls, bundle: dict[str, EraBundle]) -> dict[str, EraBundle]:
        unknown = bundle.keys() - {*BACKENDS, *WISHES} | bundle.keys() & {"default"}
        if unknown:
            raise ValueError(f"nobody can ask for the bundle {', '.join(sorted(unknown))}")
        return bundle


class Eras(BaseModel):
    """The whole file. `drop` are shell patterns of files below dist/ that no page needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    drop: tuple[str, ...]
    era: tuple[Era, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_in_order(self) -> Eras:
        for earlier, later in pairwise(self.era):
            if semver.Version.parse(earlier.since) >= semver.Version.parse(later.since):
                raise ValueError(f"the era {later.since} stands after {earlier.since}")
        return self

    def bundles(self, version: str) -> dict[str, EraBundle]:
        """The bundles of `version` by name. Raises BuildUnusable when it is older than every era."""
        point = _parse(version)
        bundles: dict[str, EraBundle] = {}
        for era in self.era:
            if semver.Version.parse(era.since) <= point:
                bundles |= era.bundle
        if not bundles:
            raise BuildUnusable(
                f"{version} is older than {self.era[0].since}, the first build that can be loaded",
                "Name a later build; `bisect-bot versions` lists them.",
            )
        return bundles

    def first_with(self, name: str) -> str | None:
        """The version at which the bundle `name` appears."""
        return next((era.since for era in self.era if name in era.bundle), None)


@cache
def load(path: Path | None = None) -> Eras:
    """The eras of `path` (default: the shipped file). Raises ConfigError when the file does not fit."""
    source = path or config_file("eras.toml")
    try:
        return Eras.model_validate(tomllib.loads(source.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        raise ConfigError(f"{source} cannot be used: {error}", "Restore the file that came with bisect-bot.") from error


def bundle_for(version: str, backend: str, wish: str = "default") -> Bundle:
    """The bundle that a page loads to run `backend` with the published build `version`.

    `wish` is `default` (what `import "onnxruntime-web/<backend>"` loads), `webgpu`, `all` or `jspi`.
    Raises BuildUnusable when that version has no such bundle or the bundle lacks the backend, UsageError for
    a backend or wish that no version has.
    """
    if backend not in BACKENDS:
        raise UsageError(f"There is no backend {backend!r}.", f"Choose one of: {', '.join(BACKENDS)}.")
    if wish not in WISHES:
        raise UsageError(f"There is no bundle {wish!r}.", f"Choose one of: {', '.join(WISHES)}.")
    name = backend if wish == "default" else wish
    found = load().bundles(version).get(name)
    if found is None:
        raise BuildUnusable(f"{version} has no bundle {name}: it came with {load().first_with(name)}")
    if backend not in found.backends:
        raise BuildUnusable(f"the bundle {name} of {version} ({found.file}) has no backend {backend}")
    return Bundle(name, found.file, found.loader, found.implementation(backend), tuple(found.backends))


def needed_files(version: str) -> frozenset[str]:
    """The files below dist/ without which `version` cannot be loaded: its default bundles and what they fetch.

    Raises BuildUnusable when the version is older than every era.
    """
    bundles = load().bundles(version)
    return frozenset(
        file for name in BACKENDS if (b := bundles.get(name)) is not None for file in (b.file, *b.wasm_files)
    )


def crossings(versions: Sequence[str], backend: str, wish: str = "default") -> tuple[str, ...]:
    """One sentence for each change of implementation along `versions`, compared in semver order.

    Versions that have no such bundle are passed over. Raises UsageError as `bundle_for` does.
    """
    loaded: list[tuple[str, Bundle]] = []
    for version in sorted(versions, key=_parse):
        try:
            loaded.append((version, bundle_for(version, backend, wish)))
        except BuildUnusable:
            continue
    return tuple(
        f"{old} runs {_who(before, after)}, {new} {_who(after, before)}: "
        f"verdicts on the two sides compare different implementations of {backend}."
        for (old, before), (new, after) in pairwise(loaded)
        if before.implementation != after.implementation
    )


def _who(mine: Bundle, other: Bundle) -> str:
    """Who computes, and in which file where that differs too."""
    name = _WHO[mine.implementation]
    return name if mine.file == other.file else f"{name} ({mine.file})"


def _parse(version: str) -> semver.Version:
    try:
        return semver.Version.parse(version)
    except ValueError as error:
        raise UsageError(f"{version!r} is not a version of a published build.") from error
