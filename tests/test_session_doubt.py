"""When values are what is wrong, another reference is asked once what it makes of the expected ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bisect_bot import cases, paths
from bisect_bot.model import Case, Cell, CellResult, Counts, Failure, Report, Request, Result, Signature
from bisect_bot.session import doubt
from bisect_bot.session.doubt import second_look
from bisect_bot.session.journal import Journal
from bisect_bot.verdicts import load_tolerances

TOLERANCES = load_tolerances(paths.config_file("tolerances.toml"))
REQUEST = Request("1.20.1", "1.21.0", ("smoke",))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A fresh journal."""
    with Journal.open(tmp_path / "journal.sqlite3") as opened:
        yield opened


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """The smoke case."""
    return cases.smoke(tmp_path)


def report(kind: Failure = Failure.MISMATCH) -> Report:
    """A report whose headline fails so."""
    cell = CellResult(
        Cell("smoke", "chrome", "webgpu"), Result.FOUND, None, None, signature=Signature(kind, "smoke", "sum")
    )
    return Report("s", Result.FOUND, (cell,), (), (), (), (), Counts(), (), "onnxruntime", (), "bisect-bot run", 1.5)


def look(journal: Journal, case: Case, kind: Failure = Failure.MISMATCH, request: Request = REQUEST) -> Report:
    return second_look(report(kind), request, (case,), TOLERANCES, journal)


def test_another_reference_that_agrees_is_told_and_asked_only_once(
    journal: Journal, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = look(journal, case)
    assert looked.warnings == ()
    said = dict(looked.environment)["second opinion"]
    assert said.startswith("onnx ")
    assert said.endswith("agrees with the expected outputs")
    monkeypatch.setattr(doubt, "LIMIT_S", 0.0)
    assert look(journal, case) == looked


def test_another_reference_that_says_something_else_casts_doubt_on_the_expected_outputs(
    journal: Journal, case: Case
) -> None:
    (data_set,) = case.data_sets
    (expected,) = data_set.expected
    other = replace(expected, data=np.add(expected.array(), np.float32(1)).tobytes())
    wrong = replace(case, digest="another", data_sets=(replace(data_set, expected=(other,)),), reference="files")
    (said,) = look(journal, wrong).warnings
    assert said.endswith("the expected outputs (files) may be what is wrong.")


def test_nobody_is_asked_where_expected_values_are_not_in_question(
    journal: Journal, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(doubt, "second_opinion", never)
    for kind in (Failure.ERROR, Failure.KERNEL_ERROR, Failure.HANG, Failure.FALLBACK):
        assert look(journal, case, kind) == report(kind)
    assert look(journal, case, request=replace(REQUEST, against="wasm")) == report()
    empty = replace(report(), cells=())
    assert second_look(empty, REQUEST, (case,), TOLERANCES, journal) == empty
