"""Upstream's `js/web/test/suite-test-list.jsonc`: which tests its own runner runs, by backend.

    {"webgpu": {"onnx": […], "node": ["test_abs", "opset{7,8}/test_clip", …], "ops": ["abs.jsonc", …]}, …}

An entry is a text, or an object with `name` and `platformCondition`.
"""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from bisect_bot.cases.files import read
from bisect_bot.cases.finding import Found, files_below, find_cases
from bisect_bot.cases.gitobject import GitObject
from bisect_bot.cases.jsonc import MAX_BYTES, parse_jsonc
from bisect_bot.cases.making import Making, Source
from bisect_bot.cases.manifests import manifest_source
from bisect_bot.cases.sets import Member, make_set
from bisect_bot.cases.text import one_line
from bisect_bot.cases.tree import member
from bisect_bot.errors import CaseError
from bisect_bot.model import Case

KINDS = ("node", "ops")
# Beside the list since it exists; as the runner links it, in js/test since 0c78b71352 (2022-07-20).
NODE_FOLDERS = ("data/node", "../../test/data/node")
OPS_FOLDER = "data/ops"
MAX_PATTERNS = 1000
_SHOWN = 5
_DENIED = re.compile(r"!\((.*)\)")
_SUITE = re.compile(
    r"(?P<file>(?:(?P<rev>[^:]*):)?(?P<path>(?:.*[\\/])?suite-test-list[^\\/]*\.jsonc?))(?:#(?P<chosen>.*))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Listed:
    """The tests of one backend: patterns of folders of node tests, and names of operator manifests."""

    node: tuple[str, ...]
    ops: tuple[str, ...]


def suite_source(text: str) -> Source | None:
    """The tests of upstream's list that `text` names for one backend; None where it names no such list.

    `text` is `suite-test-list.jsonc#webgpu`, or `…#webgpu/ops` and `…#webgpu/node` for one kind of them, or one of
    these after `REV:`, read from the clone of `Making.repo`. As in upstream's own `suite1` these are ONNX's node tests
    and operator manifests, from the checkout that the list lies in (`data/ops`, and `data/node` or `js/test/data/node`
    beside it). `onnx` (models of the ONNX zoo) is not read, and every `platformCondition` counts as met.

    Making them raises CaseError for what is no such list, for a backend that it does not have, and for tests that are
    not there.
    """
    typed = _SUITE.fullmatch(text)
    if typed is None:
        return None
    # A drive of Windows is no revision, nor is a colon in a folder's name.
    in_git = typed["rev"] is not None and not Path(typed["file"]).exists()
    label, chosen = typed["file"], typed["chosen"] or ""

    def make(making: Making) -> list[Case]:
        if in_git:
            content = GitObject(typed["rev"], typed["path"]).read(making.repo, MAX_BYTES)
        else:
            content = read(Path(label).expanduser(), label)
        listed = _chosen(parse_suite(content, label), chosen, label)
        missing: list[str] = []
        members = [] if in_git else _node_members(Path(label).expanduser().parent, listed.node, label, missing)
        missing += listed.node if in_git else ()
        members += _op_members(PurePosixPath(label) if in_git else Path(label), listed.ops, missing)
        if missing:
            more = ", …" if len(missing) > _SHOWN else ""
            raise CaseError(
                f"{one_line(label)}: {len(missing)} of the tests that it lists are not there: "
                f"{one_line(', '.join(missing[:_SHOWN]))}{more}",
                "`npm run prepare-node-tests` in js fetches node tests; #…/ops, as in #webgpu/ops, does without them",
            )
        if not members:
            raise CaseError(f"{one_line(label)} lists no tests for {one_line(chosen)}")
        return make_set(label, members, making)

    return Source(make)


def _chosen(lists: Mapping[str, Listed], chosen: str, label: str) -> Listed:
    backend, _, kind = chosen.partition("/")
    if backend not in lists or kind not in ("", *KINDS):
        known = ", ".join(f"#{name}" for name, listed in lists.items() if listed.node or listed.ops)
        said = f"has no #{one_line(chosen)}" if chosen else "lists the tests of several backends"
        raise CaseError(
            f"{one_line(label)} {said}",
            f"say which: {one_line(known) or 'it is empty'}; #webgpu/ops or #webgpu/node takes one kind only",
        )
    listed = lists[backend]
    return Listed(() if kind == "ops" else listed.node, () if kind == "node" else listed.ops)


def parse_suite(content: bytes, where: str) -> Mapping[str, Listed]:
    """The lists in `content` by backend. Raises CaseError, naming `where`, for what is no such list."""
    read_list = parse_jsonc(content, where)
    if not isinstance(read_list, dict) or not all(isinstance(kinds, dict) for kinds in read_list.values()):
        raise CaseError(f"{one_line(where)} is no list of tests by backend")
    return {
        backend: Listed(_names(kinds, "node", where), _names(kinds, "ops", where))
        for backend, kinds in read_list.items()
    }


def braces(pattern: str) -> tuple[str, ...]:
    """`pattern` with each of its `{a,b}` spelled out, in order. Raises ValueError for more than 1,000 of them."""
    spelled = [""]
    while pattern:
        before, opened, after = pattern.partition("{")
        inside, closed, rest = after.partition("}")
        choices, pattern = (inside.split(","), rest) if closed else ([opened + after], "")
        if len(spelled) * len(choices) > MAX_PATTERNS:
            raise ValueError(f"more than {MAX_PATTERNS} patterns")
        spelled = [f"{start}{before}{choice}" for start in spelled for choice in choices]
    return tuple(spelled)


def _names(kinds: Mapping[str, Any], kind: str, where: str) -> tuple[str, ...]:
    entries = kinds.get(kind, [])
    if not isinstance(entries, list):
        raise CaseError(f"{one_line(where)}: {kind} is no list of tests")
    return tuple(
        _name(entry.get("name") if isinstance(entry, dict) else entry, f"{where}: {kind}") for entry in entries
    )


def _name(entry: object, where: str) -> str:
    parts = PurePosixPath(entry).parts if isinstance(entry, str) else ()
    if not isinstance(entry, str) or not parts or parts[0] == "/" or ".." in parts or "\\" in entry:
        raise CaseError(f"{one_line(where)} holds {one_line(repr(entry), 80)}, which is no name of a test")
    return entry


def _op_members(suite: PurePath, names: Sequence[str], missing: list[str]) -> list[Member]:
    """The manifests `names` beside the list `suite`; those that are not there are added to `missing`."""
    members: list[Member] = []
    for name in names:
        file = suite.parent / OPS_FOLDER / name
        source = manifest_source(str(file))
        if source is None or (isinstance(file, Path) and not file.expanduser().is_file()):
            missing.append(name)
        else:
            members.append(source.make)
    return members


def _node_members(beside: Path, patterns: Sequence[str], label: str, missing: list[str]) -> list[Member]:
    """The node tests that `patterns` name; those without any are added to `missing`."""
    root = next((beside / name for name in NODE_FOLDERS if (beside / name).is_dir()), beside / NODE_FOLDERS[0])
    by_name: dict[str, list[Found]] = defaultdict(list)
    for case in find_cases(files_below(root, label)):
        by_name[case.folder.name].extend([] if case.bare else [case])
    wanted: dict[Found, None] = {}
    for pattern in patterns:
        try:
            matching = [
                case
                for text in braces(pattern)
                for name in fnmatch.filter(by_name, PurePosixPath(text).name)
                for case in by_name[name]
                if _matches(case.folder, text)
            ]
        except ValueError as error:
            raise CaseError(f"{one_line(label)}: {one_line(pattern)} is no pattern: {one_line(error)}") from error
        if not matching:
            missing.append(pattern)
        wanted.update(dict.fromkeys(matching))
    return [member(root, case, label) for case in wanted]


def _matches(folder: PurePosixPath, pattern: str) -> bool:
    """Whether `folder` ends as `pattern` says, which may deny a part, as in `!(opset14|opset15)/test_abs`."""
    wanted = PurePosixPath(pattern).parts
    ends = folder.parts[-len(wanted) :] if len(wanted) <= len(folder.parts) else ()
    for part, wish in zip(ends, wanted, strict=False):
        denied = _DENIED.fullmatch(wish)
        if denied is None and not fnmatch.fnmatchcase(part, wish):
            return False
        if denied is not None and any(fnmatch.fnmatchcase(part, each) for each in denied[1].split("|")):
            return False
    return bool(ends)
