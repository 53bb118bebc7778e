"""What is known of each published build's place in upstream's history: `configs/published.toml`, read and written.

The file ships with the tool, so that the order of builds and which of them lie on main need no clone.
"""

from __future__ import annotations

import datetime as dt
import json
import tomllib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bisect_bot.errors import ConfigError
from bisect_bot.paths import config_file

_HEADER = """\
# Published builds of onnxruntime-web and their place in upstream's history: facts only, found by
# `bisect-bot versions --repo CLONE --save`. Do not edit: run that again with a newer clone.
#
#   how            commit: the build's commit is in the clone. sources: it is not, the package's lib/**/*.ts were
#                  compared with js/web/lib of main. none: neither says anything
#   date           of the commit (committer's, UTC)
#   main_ancestor  the nearest commit of main that the build contains (that is, its own commit when on_main). With
#                  how = "sources" the commit of main from which on js/web/lib fits best, and it stays so until
#                  main_until; `differing` counts the source files that differ there (fixes picked for a release)
"""


class How(StrEnum):
    """How a build's place was found."""

    COMMIT = "commit"  # its commit is in the clone
    SOURCES = "sources"  # its commit is not: the sources in the package were compared with main's
    NONE = "none"  # neither says anything


_TRUST = {How.NONE: 0, How.SOURCES: 1, How.COMMIT: 2}


class Known(BaseModel):
    """One build's place. `on_main` is None where nobody could tell; commits are hex, full where the clone has them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    how: How
    commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{7,40}$")
    date: dt.date | None = None
    title: str | None = None
    on_main: bool | None = None
    main_ancestor: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    main_until: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    ancestor_date: dt.date | None = None
    differing: int | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    build: tuple[Known, ...] = ()


def load(path: Path | None = None) -> dict[str, Known]:
    """What `path` (default: the shipped file) knows, by version. Raises ConfigError when it does not fit."""
    source = path or config_file("published.toml")
    try:
        builds = _File.model_validate(tomllib.loads(source.read_text(encoding="utf-8"))).build
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        raise ConfigError(f"{source} cannot be used: {error}", "Restore the file that came with bisect-bot.") from error
    return {build.version: build for build in builds}


def merge(shipped: Mapping[str, Known], found: Iterable[Known]) -> dict[str, Known]:
    """What was known before, replaced by what was found unless that rests on less (another clone may lack a commit)."""
    merged = dict(shipped)
    for known in found:
        before = merged.get(known.version)
        if before is None or _TRUST[known.how] >= _TRUST[before.how]:
            merged[known.version] = known
    return merged


def dump(builds: Iterable[Known]) -> str:
    """The text of a file from which `load` reads the same `builds`, in the given order."""
    blocks = [_HEADER]
    for build in builds:
        fields = build.model_dump(exclude_none=True)
        blocks.append("[[build]]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in fields.items()))
    return "\n".join(blocks)


def _toml(value: str | bool | int | dt.date) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    # A JSON string is a TOML string but for DEL, which TOML wants escaped.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
