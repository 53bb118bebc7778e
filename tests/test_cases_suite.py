"""Upstream's list of tests: only those that it lists are run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bisect_bot import cases
from bisect_bot.cases.suite import braces, parse_suite, suite_source
from bisect_bot.errors import CaseError
from tests.test_cases_samples import identity_folder

MANIFEST = [
    {
        "name": "Abs",
        "operator": "Abs",
        "attributes": [],
        "cases": [
            {
                "name": "T[2]",
                "inputs": [{"data": [-1, 2], "dims": [2], "type": "float32"}],
                "outputs": [{"data": [1, 2], "dims": [2], "type": "float32"}],
            }
        ],
    }
]
LIST = """{
  // backends
  "webgpu": {
    "onnx": ["resnet50"],
    "node": [
      "test_abs", // everywhere
      // "test_off",
      "opset{9,10}/test_clip",
      "!(opset10)/test_not",
      { "name": "test_big", "platformCondition": "^((?!iOS).)*$" },
    ],
    "ops": ["abs.jsonc", { "name": "neg.jsonc" }]
  },
  "wasm": { "onnx": [], "node": [], "ops": ["abs.jsonc"] },
  "webnn": {}
}"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A checkout: the list, manifests beside it, and node tests where the runner's script puts them."""
    web = tmp_path / "js" / "web" / "test"
    (web / "data" / "ops").mkdir(parents=True)
    for name in ("abs", "neg", "unlisted"):
        (web / "data" / "ops" / f"{name}.jsonc").write_text(json.dumps(MANIFEST).replace("T[2]", name))
    for name in (
        "opset9/test_abs", "opset10/test_abs", "opset8/test_clip", "opset9/test_clip", "opset10/test_clip",
        "opset9/test_not", "opset10/test_not", "opset9/test_big", "opset9/test_off",
    ):  # fmt: skip
        identity_folder(tmp_path / "js" / "test" / "data" / "node" / name)
    path = web / "suite-test-list.jsonc"
    path.write_text(LIST)
    return path


def names(text: str, tmp_path: Path, repo: Path | None = None) -> list[str]:
    source = suite_source(text)
    assert source is not None
    return [case.name for case in source.make(cases.Making(tmp_path / "cache", repo=str(repo) if repo else None))]


def test_only_the_listed_tests_of_the_backend_are_taken_in_order(suite: Path, tmp_path: Path) -> None:
    nodes = ["test_abs", "test_abs", "test_clip", "test_clip", "test_not", "test_big"]
    assert names(f"{suite}#webgpu/node", tmp_path) == nodes
    assert names(f"{suite}#webgpu/ops", tmp_path) == ["Abs", "Abs"]
    assert names(f"{suite}#webgpu", tmp_path) == [*nodes, "Abs", "Abs"]
    assert names(f"{suite}#wasm", tmp_path) == ["Abs"]


def test_the_command_line_takes_it_like_any_case(suite: Path, tmp_path: Path) -> None:
    (case,) = cases.load_all([f"{suite}#wasm"], cases.Making(tmp_path / "cache"))
    assert case.data_sets[0].expected[0].array().tolist() == [1, 2]


def test_node_tests_of_an_old_checkout_lie_beside_the_list(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "js" / "test" / "data" / "node").rename(suite.parent / "data" / "node")
    assert len(names(f"{suite}#webgpu/node", tmp_path)) == 6


def test_tests_that_are_not_there_are_named_with_the_way_to_get_them(suite: Path, tmp_path: Path) -> None:
    (suite.parent / "data" / "ops" / "neg.jsonc").unlink()
    (tmp_path / "js" / "test").rename(tmp_path / "gone")
    with pytest.raises(
        CaseError, match=r"5 of the tests .* not there: test_abs, opset\{9,10\}/test_clip, .*neg\.json"
    ) as caught:
        names(f"{suite}#webgpu", tmp_path)
    assert "npm run prepare-node-tests" in caught.value.advice


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ("", "lists the tests of several backends"),
        ("#cuda", "has no #cuda"),
        ("#webgpu/onnx", "has no #webgpu/onnx"),
        ("#webnn", "lists no tests for webnn"),
        ("#wasm/node", "lists no tests for wasm/node"),
    ],
)
def test_a_backend_has_to_be_chosen(suite: Path, tmp_path: Path, chosen: str, says: str) -> None:
    with pytest.raises(CaseError, match=says):
        names(f"{suite}{chosen}", tmp_path)


def test_a_list_in_a_revision_of_a_clone_gives_its_manifests(suite: Path, tmp_path: Path) -> None:
    for words in (["init", "-q"], ["add", "js/web"], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
    suite.unlink()
    text = "HEAD:js/web/test/suite-test-list.jsonc"
    assert names(f"{text}#webgpu/ops", tmp_path, tmp_path) == ["Abs", "Abs"]
    with pytest.raises(CaseError, match="4 of the tests that it lists are not there"):
        names(f"{text}#webgpu", tmp_path, tmp_path)


@pytest.mark.parametrize("text", ["x.jsonc", "suite-test-list.txt", "suite-test-list.jsonc/x", "suite-test-list", ""])
def test_other_texts_are_left_to_others(text: str) -> None:
    assert suite_source(text) is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[]", "is no list of tests by backend"),
        (b'{"webgpu": []}', "is no list of tests by backend"),
        (b'{"webgpu": {"node": "test_abs"}}', "node is no list of tests"),
        (b'{"webgpu": {"node": [1]}}', "node holds 1, which is no name of a test"),
        (b'{"webgpu": {"ops": [{"title": "abs.jsonc"}]}}', "ops holds None, which is no name of a test"),
        (b'{"webgpu": {"ops": ["../../../etc/passwd"]}}', "which is no name of a test"),
        (b'{"webgpu": {"ops": ["/etc/passwd"]}}', "which is no name of a test"),
        (b'{"webgpu": {"node": ["a\\\\..\\\\b"]}}', "which is no name of a test"),
        (b'{"webgpu": {"node": [""]}}', "which is no name of a test"),
        (b"{", "line 1"),
        (b"[" * 100_000, "is no list|nest"),
    ],
)
def test_what_is_no_such_list_is_refused(content: bytes, says: str) -> None:
    with pytest.raises(CaseError, match=says) as caught:
        parse_suite(content, "suite-test-list.jsonc")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("pattern", "spelled"),
    [
        ("test_abs", ["test_abs"]),
        ("opset{9,10}/test_{a,b}", ["opset9/test_a", "opset9/test_b", "opset10/test_a", "opset10/test_b"]),
        ("{a", ["{a"]),
        ("a}{b}", ["a}b"]),
        ("", [""]),
    ],
)
def test_braces_are_spelled_out(pattern: str, spelled: list[str]) -> None:
    assert list(braces(pattern)) == spelled


def test_braces_that_multiply_without_end_are_refused(suite: Path, tmp_path: Path) -> None:
    suite.write_text(json.dumps({"webgpu": {"node": ["{a,b}" * 40], "ops": []}}))
    with pytest.raises(CaseError, match="is no pattern: more than 1000 patterns"):
        names(f"{suite}#webgpu", tmp_path)
