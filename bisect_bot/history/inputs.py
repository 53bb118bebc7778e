"""What a build depends on, as paths of upstream's tree, and the digests of what lies below them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

HAS = "has:"
_MODULUS = 1 << 256


@dataclass(frozen=True, slots=True)
class Inputs:
    """Named groups of paths (files or folders from the top of the tree), and `markers` that tell eras apart.

    In a group "!path" leaves out what lies at and below it; of two entries that cover a file the longer one decides.
    """

    groups: tuple[tuple[str, tuple[str, ...]], ...]
    markers: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths whose content is asked for, each once."""
        named = [path for _, paths in self.groups for path in paths if not path.startswith("!")]
        return tuple(dict.fromkeys(_plain(path) for path in (*named, *self.markers)))


class Content:
    """The inputs as one commit has them, changed file by file into those of another.

    A group's digest is the sum of the hashes of its files (path, mode, object id) modulo 2^256: it says the same as
    the list of them, whatever order they came in, and one changed file costs one addition.
    """

    def __init__(self, inputs: Inputs) -> None:
        """Nothing is there yet."""
        self._names = [name for name, _ in inputs.groups]
        self._markers = inputs.markers
        self._entries = _entries(inputs)
        self._covering: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._files: dict[str, int] = {}
        self._sums = [0] * len(self._names)
        self._counts = [0] * len(self._names)
        self._present = [0] * len(self._markers)
        self._keys: tuple[tuple[str, str], ...] | None = None
        self._same: dict[str, str] = {}

    def change(self, files: Iterable[tuple[str, str, str]]) -> None:
        """Each (path, mode, object id) is how that file, link or submodule is now; with an empty id it is gone."""
        for path, mode, oid in files:
            groups, markers = self._covered_by(path)
            if groups or markers:
                before = self._files.pop(path, None)
                if before is not None:
                    self._count(groups, markers, before, -1)
                if oid:
                    self._files[path] = value = _hash(path, mode, oid)
                    self._count(groups, markers, value, 1)

    def groups_of(self, paths: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Those of `paths` that count for a group, by group. Equal paths are one string in all answers."""
        found: dict[int, list[str]] = {}
        for path in paths:
            for group in self._covered_by(path)[0]:
                found.setdefault(group, []).append(self._same.setdefault(path, path))
        return tuple((self._names[group], tuple(each)) for group, each in found.items())

    def keys(self) -> tuple[tuple[str, str], ...]:
        """A hex digest for each group (empty where it has no file), then "has:<marker>" with "1" or ""."""
        if self._keys is None:
            digests = [f"{total:064x}" if count else "" for total, count in zip(self._sums, self._counts, strict=True)]
            present = [
                (HAS + name, "1" if count else "") for name, count in zip(self._markers, self._present, strict=True)
            ]
            self._keys = (*zip(self._names, digests, strict=True), *present)
        return self._keys

    def _count(self, groups: tuple[int, ...], markers: tuple[int, ...], value: int, sign: int) -> None:
        for group in groups:
            self._sums[group] = (self._sums[group] + sign * value) % _MODULUS
            self._counts[group] += sign
        for marker in markers:
            self._present[marker] += sign
        self._keys = None

    def _covered_by(self, path: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The groups that the file counts for, and the markers at or above it."""
        found = self._covering.get(path)
        if found is None:
            found = self._covering[path] = self._look_up(path)
        return found

    def _look_up(self, path: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        groups: dict[int, bool] = {}
        markers: list[int] = []
        end = 0
        while end != len(path):
            end = path.find("/", end + 1)
            end = len(path) if end < 0 else end
            entry = self._entries.get(path[:end])
            if entry is not None:
                # From the top down: the longest entry is the last word.
                groups.update(entry.groups)
                markers.extend(entry.markers)
        return tuple(group for group, inside in groups.items() if inside), tuple(markers)


@dataclass(slots=True)
class _Entry:
    """What was declared of one path: for which groups it is in or out, and which markers it is."""

    groups: dict[int, bool]
    markers: list[int]


def _entries(inputs: Inputs) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    for index, (_, paths) in enumerate(inputs.groups):
        for path in paths:
            entry = entries.setdefault(_plain(path.removeprefix("!")), _Entry({}, []))
            entry.groups[index] = not path.startswith("!")
    for index, path in enumerate(inputs.markers):
        entries.setdefault(_plain(path), _Entry({}, [])).markers.append(index)
    return entries


def _plain(path: str) -> str:
    return path.strip("/")


def _hash(path: str, mode: str, oid: str) -> int:
    text = f"{mode} {oid} {path}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.sha256(text).digest(), "big")
