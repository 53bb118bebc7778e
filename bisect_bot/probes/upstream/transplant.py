"""Puts pinned cases into a checkout in the form that upstream's test runner takes, and takes them out again."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_bot.cases.folder import DATA_SET, MODEL
from bisect_bot.cases.text import one_line
from bisect_bot.model import Case
from bisect_bot.probes.types import Probe

TESTS = Path("js/web/test")
MANIFEST = "bisect-bot.jsonc"
NODE_TESTS = Path("js/test/data/node")
"""Where the runner looks for ONNX's node tests, through a link that it makes itself: since 0c78b71352 (2022-07-20)."""
OPSETS = range(7, 27)
"""Folders of node tests that are made: the runner takes the newest for its default opset, and wants those that its
era has (it stops without any)."""
_SUITES = ("cpu", "onnxruntime", "wasm", "webgl", "webgpu", "webnn")
_OUR_OPSET = f"opset{OPSETS[-1]}"
_LABEL = 80


@dataclass(frozen=True, slots=True)
class Turn:
    """One case of one run of the runner; `index` is its place in `Probe.in_order`."""

    index: int
    case: Case
    backend: str

    @property
    def is_op(self) -> bool:
        """Whether it is run as an operator of a manifest rather than as a model."""
        return bool(self.case.manifest)


def turns_of(probe: Probe) -> Iterator[tuple[Turn, ...]]:
    """The cases of `probe` by the page that they share, in order: one run of the runner each.

    The smoke case comes first, once for each of its backends; these share a page.
    """
    together: list[Turn] = []
    for index, case in enumerate(probe.in_order):
        turn = Turn(index, case, probe.backend_of(index))
        smoke = 0 < index < probe.smokes
        if together and not smoke and not (probe.shares_page(index) and turn.is_op == together[-1].is_op):
            yield tuple(together)
            together = []
        together.append(turn)
    if together:
        yield tuple(together)


@contextlib.contextmanager
def transplanted(turns: Sequence[Turn], root: Path) -> Iterator[tuple[str, ...]]:
    """The tests of `turns`, all of one kind, in the checkout at `root`; gives the runner's mode and parameter.

    A test is called `case-<index>`, its data sets `set-<index>-<number>`, by which its results are known again.
    """
    for opset in OPSETS:
        (root / NODE_TESTS / f"opset{opset}").mkdir(parents=True, exist_ok=True)
    with _manifest(turns, root) if turns[0].is_op else _suite(turns, root) as words:
        yield words


@contextlib.contextmanager
def _manifest(turns: Sequence[Turn], root: Path) -> Iterator[tuple[str, ...]]:
    path = root / TESTS / "data" / "ops" / MANIFEST
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([_entry(turn) for turn in turns]), encoding="utf-8")
    try:
        yield ("op", MANIFEST)
    finally:
        path.unlink(missing_ok=True)


def _entry(turn: Turn) -> dict[str, object]:
    """The test of `turn` in a manifest, with names that no other has."""
    entry = json.loads(turn.case.manifest)
    for number, case in enumerate(entry["cases"]):
        case["name"] = f"{_set(turn, number)} {one_line(case['name'], _LABEL)}"
    return {"name": f"{_name(turn)} {one_line(turn.case.name, _LABEL)}", **entry}


@contextlib.contextmanager
def _suite(turns: Sequence[Turn], root: Path) -> Iterator[tuple[str, ...]]:
    """Models as the only tests of the suite. The order there is that of the folders' names."""
    tests = root / NODE_TESTS / _OUR_OPSET
    listed = root / TESTS / "suite-test-list.jsonc"
    before = listed.read_bytes() if listed.is_file() else None
    suites: dict[str, dict[str, list[str]]] = {name: {"onnx": [], "node": [], "ops": []} for name in _SUITES}
    places = []
    try:
        for turn in turns:
            suites.setdefault(turn.backend, {"onnx": [], "node": [], "ops": []})["node"].append(_name(turn))
            places.append(tests / _name(turn))
            _copy(turn, places[-1])
        listed.write_text(json.dumps(suites), encoding="utf-8")
        yield ("suite1",)
    finally:
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
        if before is None:
            listed.unlink(missing_ok=True)
        else:
            listed.write_bytes(before)


def _copy(turn: Turn, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    home = turn.case.model.parent
    shutil.copy(turn.case.model, place / MODEL)
    sets = sorted(
        (p for p in home.iterdir() if DATA_SET.fullmatch(p.name)), key=lambda p: int(p.name.rpartition("_")[2])
    )
    for number, folder in enumerate(sets):
        shutil.copytree(folder, place / _set(turn, number))


def _name(turn: Turn) -> str:
    return f"case-{turn.index:04}"


def _set(turn: Turn, number: int) -> str:
    return f"set-{turn.index:04}-{number:04}"
