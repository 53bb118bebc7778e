"""report.json: all keys for every result, nothing that JSON cannot hold, and the schema that says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from bisect_bot.model import Boundary, Failure, Mismatch, Outcome, Report, Result, Revision
from bisect_bot.reports.json_report import dumps, to_json
from tests.test_reports_samples import (
    BUILDS,
    FRAMES,
    HOSTILE,
    POOL,
    SAMPLES,
    comparison,
    drifting,
    found_regression,
    hostile,
    trial,
    verdict_table,
)

SCHEMA = json.loads((Path(__file__).parent.parent / "docs" / "report.schema.json").read_text(encoding="utf-8"))
EVERY = {**SAMPLES, "tested": verdict_table(), "hostile": hostile()}
# What other tools read, by the design of schema 1.
FIXED = [
    *("schema", "result", "direction", "boundary", "candidates", "cases", "targets", "matrix", "proofs", "counts"),
    *("confidence", "other_boundaries", "other_failures", "reference", "wall_s", "environment", "reproduce"),
    "git_bisect_log",
]


def check(value: object) -> None:
    """Raises jsonschema.ValidationError when `value` is no report of schema 1."""
    jsonschema.Draft202012Validator(SCHEMA).validate(value)


def test_the_schema_is_itself_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("report", EVERY.values(), ids=list(EVERY))
def test_every_result_has_all_keys_and_fits_the_schema(report: Report) -> None:
    read = json.loads(dumps(report))
    check(read)
    assert set(FIXED) <= set(read)
    assert read == to_json(report)


@pytest.mark.parametrize("key", FIXED)
def test_the_schema_refuses_a_report_without_a_fixed_key(key: str) -> None:
    value = to_json(found_regression())
    del value[key]
    with pytest.raises(jsonschema.ValidationError):
        check(value)


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("result",), "broken"),
        (("boundary",), None),
        (("direction",), None),
        (("boundary", "last_old", "commit"), "d9ca84ef96"),
        (("matrix", 0, "verdict"), "ugly"),
        (("matrix", 0, "max_abs_err"), "nan"),
        (("matrix", 0, "artifact"), "d9ca84ef96"),
        (("proofs", 1, "reason"), None),
        (("counts", "builds"), -1),
    ],
)
def test_the_schema_refuses_a_wrong_value(path: tuple[str | int, ...], wrong: object) -> None:
    value: Any = to_json(found_regression())
    place = value
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = wrong
    with pytest.raises(jsonschema.ValidationError):
        check(value)


@pytest.mark.parametrize("result", ["same", "unusable"])
def test_a_report_that_found_nothing_has_no_boundary_even_when_the_session_names_the_ends(result: str) -> None:
    report = SAMPLES[result]
    named = replace(report, cells=(replace(report.cells[0], boundary=Boundary(BUILDS[0], BUILDS[7])),))
    value = to_json(named)
    check(value)
    assert value["boundary"] is None
    assert value["cases"][0]["boundary"] is None


@pytest.mark.parametrize(
    ("commit", "full", "prefix"),
    [
        ("d9ca84ef96", None, "d9ca84ef96"),
        ("D9CA84EF96BAE72DA9EBCAC5C591FACA8DD52E78", "d9ca84ef96bae72da9ebcac5c591faca8dd52e78", None),
        ("not hex", None, None),
        (None, None, None),
    ],
)
def test_a_commit_is_full_or_null_and_its_abbreviation_stands_apart(
    commit: str | None, full: str | None, prefix: str | None
) -> None:
    report = replace(found_regression(), revisions=(Revision("1.20.1", "1.20.1", commit),))
    revision = to_json(report)["revisions"][0]
    assert (revision["commit"], revision["commit_prefix"]) == (full, prefix)


@pytest.mark.parametrize(
    ("actual", "told"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (True, True),
        (2**63 - 1, 2**63 - 1),
        (np.float32(0.5), 0.5),
    ],
)
def test_an_element_that_json_cannot_hold_is_told_from_a_missing_one(actual: float, told: object) -> None:
    bad = trial(BUILDS[4], POOL, Outcome.BAD)
    differs = replace(comparison(Outcome.BAD), first=(Mismatch((0, 3), actual, 1.0),), max_abs_err=float(actual))
    report = replace(found_regression(), trials=(replace(bad, verdict=replace(bad.verdict, comparisons=(differs,))),))
    row = json.loads(dumps(report))["matrix"][0]
    assert row["first_mismatch"] == {
        "data_set": "test_data_set_0",
        "output": "y",
        "index": [0, 3],
        "actual": told,
        "expected": 1.0,
    }


def test_the_text_of_the_file_is_plain_ascii_and_says_the_same() -> None:
    text = dumps(hostile())
    assert text.replace("\n", "").isascii()
    assert text.replace("\n", "").isprintable()
    assert json.loads(text)["warnings"] == [HOSTILE.replace("\ud800", "\ufffd")]


def test_a_failure_of_another_kind_and_a_second_boundary_are_told() -> None:
    failures = to_json(SAMPLES["range"])["other_failures"]
    assert [(f["revision"], f["verdict"]) for f in failures] == [(BUILDS[4].id, "skip")]
    others = to_json(SAMPLES["inconclusive"])["other_boundaries"]
    assert [(b["last_old"]["id"], b["first_new"]["id"]) for b in others] == [
        (BUILDS[0].id, BUILDS[1].id),
        (BUILDS[1].id, BUILDS[3].id),
    ]
    assert to_json(SAMPLES["found regression"])["other_boundaries"] == []


def test_the_path_of_the_browser_is_not_published() -> None:
    assert "/opt/browser" not in dumps(found_regression())


def test_the_error_of_every_step_and_frame_is_told_with_what_is_odd_about_it() -> None:
    bad = next(row for row in to_json(drifting())["matrix"] if row["revision"] == BUILDS[4].id)
    assert [step["data_set"] for step in bad["steps"]] == [f"frame {number}" for number in range(1, FRAMES + 1)]
    assert [step["matches"] for step in bad["steps"]] == [True] * 8 + [False] * 5
    assert bad["steps"][8] == {
        "step": "",
        "data_set": "frame 9",
        "matches": False,
        "max_abs_err": 0.98,
        "cosine": 0.0,
        "odd": "all zero",
    }
    assert bad["cosine"] == 0.0
    assert bad["foreground"][8] == {
        "step": "",
        "data_set": "frame 9",
        "output": "output",
        "actual": 0.0,
        "expected": 0.53,
    }
    assert bad["log"][-1] == "GPU: device lost: unknown"


def test_what_a_script_asked_for_stands_beside_what_ran() -> None:
    report = found_regression()
    asked = replace(report, trials=(replace(report.trials[0], providers=(("webgpu", "wasm"), ("wasm",))),))
    check(to_json(asked))
    assert to_json(asked)["matrix"][0]["asked_providers"] == [["webgpu", "wasm"], ["wasm"]]


def test_other_failures_are_all_there_with_how_often_and_since_when() -> None:
    found = to_json(drifting())["other_failures"]
    told = [(f["revision"], f["signature"]["kind"], f["signature"]["when"], f["times"], f["reason"]) for f in found]
    assert told == [
        ("1.20.1", "kernel-error", "", 2, "run: Kernel failed"),
        (BUILDS[6].id, "device-lost", "run 2", 1, "the GPU device was lost"),
    ]


def test_the_schema_knows_every_kind_of_failure_and_every_result() -> None:
    kinds = SCHEMA["$defs"]["signature"]["oneOf"][1]["properties"]["kind"]["enum"]
    assert (set(kinds), set(SCHEMA["$defs"]["result"]["enum"])) == (set(Failure), set(Result))


def test_the_schema_still_takes_a_report_from_before_these_keys() -> None:
    value = to_json(found_regression())
    for row in value["matrix"]:
        for key in ("steps", "foreground", "cosine", "log", "asked_providers"):
            del row[key]
        if row["signature"]:
            del row["signature"]["when"]
    check(value)


# The many numbers of the frames are looked at above.
@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "drift"])
def test_json_of_each_sample(name: str, snapshot: SnapshotAssertion) -> None:
    assert dumps(SAMPLES[name]) == snapshot
