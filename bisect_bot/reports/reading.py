"""Reads somebody's JSON file as what we know of it. It is a stranger's file: nothing in it is run or followed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, ValidationError

from bisect_bot.errors import UsageError
from bisect_bot.reports.escaping import line, shorten

# Tables of many cases make reports of some megabytes.
MAX_BYTES = 32 * 2**20

Name = Annotated[str, Field(min_length=1, max_length=300)]
_DIGEST = re.compile(r"\bsha256 ([0-9a-f]{16})$")
_Kind = TypeVar("_Kind", bound=BaseModel)


def read_report(kind: type[_Kind], path: Path) -> _Kind:
    """The report.json at `path` as a `kind`, which names the fields of schema 1 that are wanted.

    Raises UsageError when it cannot be read, is too large, or is no such report.
    """
    return _parse(kind, _read(path), path)


def case_digests(environment: Mapping[str, object]) -> dict[str, str]:
    """The first 16 digits of what each case's content hashed to, by its name, as a report's `environment` has them."""
    found = {}
    for key, value in environment.items():
        name, digest = key.removeprefix("case "), _DIGEST.search(value) if isinstance(value, str) else None
        if name != key and digest:
            found[name] = digest[1]
    return found


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise UsageError(f"there is no file {path}", "Name a report.json.")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "Name a report.json.") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} has more than {MAX_BYTES >> 20} MiB: no report has", "Name a report.json.")
    return data


def _parse(kind: type[_Kind], data: bytes, path: Path) -> _Kind:
    try:
        # pydantic's own parser limits how deep it nests and how long its numbers are.
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]).removesuffix("schema_")
        told = shorten(line(f"{where}: {first['msg']}" if where else first["msg"]), 300)
        raise UsageError(f"{path} is no report of schema 1: {told}", "Name a report.json of bisect-bot.") from error
