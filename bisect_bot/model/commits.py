"""What a search among commits passes on: Commit, Part, Approximation, Culprit."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from bisect_bot.model.pipeline import Bundle, Revision

# What Revision.variant begins with, before a colon.
WASM_OF, REVERT, PICK = "wasm", "revert", "pick"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of first-parent history, with what its build depends on.

    `keys` name groups of input paths (`js`, `wasm`, `glue`, …: configs/recipes.toml), each with a hex digest over the
    git object ids below them; empty where the commit has none of them. Equal digests are equal inputs. `changed` are,
    for the groups that it changes, the files of theirs that differ from its first parent; nothing is told of a commit
    that was asked for alone.
    """

    revision: Revision
    keys: tuple[tuple[str, str], ...] = ()
    changed: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), repr=False, compare=False)

    def key(self, group: str) -> str:
        """The digest of one group of inputs; empty for a group without inputs, or unknown."""
        return dict(self.keys).get(group, "")

    def files(self, *groups: str) -> tuple[str, ...]:
        """The files of these groups that the commit changes."""
        return tuple(dict.fromkeys(path for group, paths in self.changed if group in groups for path in paths))


class PartKind(StrEnum):
    """The two halves of an artifact, built and cached apart."""

    JS = "js"
    WASM = "wasm"


@dataclass(frozen=True, slots=True)
class Part:
    """One half of an artifact: the files in `directory`, complete and unchanging.

    `source` says in a reader's words what it was made from, `key` is its address in the cache, `digest` that of its
    bytes. `bundles` are what a page can load of a js part, one for each name of `--bundle` that it has.
    """

    kind: PartKind
    source: str
    key: str
    digest: str
    directory: Path
    bundles: tuple[Bundle, ...] = ()


@dataclass(frozen=True, slots=True)
class Culprit:
    """What is known of the commit that an answer names. `pull_request` is the number in its title, where it has one."""

    commit: str
    author: str
    date: str
    title: str
    pull_request: int | None
    files: tuple[str, ...]
