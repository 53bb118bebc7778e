"""Op manifests: the models and data that upstream's runner would make, names, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, ModelProto

from bisect_bot import cases
from bisect_bot.cases.manifest import choose, parse_manifest
from bisect_bot.cases.manifests import convert
from bisect_bot.cases.models import parse_model
from bisect_bot.errors import CaseError
from bisect_bot.model import Case
from tests.command import Shell
from tests.limits import CLONE
from tests.test_cases_gitobject import git

OPS = "js/web/test/data/ops"


def tensor(data: list[Any] | None, dims: list[int] | None = None, kind: str = "float32") -> dict[str, Any]:
    if data is None:
        return {"data": None, "type": kind}
    return {"data": data, "dims": [len(data)] if dims is None else dims, "type": kind}


def op_case(name: str = "T", inputs: list[Any] | None = None, outputs: list[Any] | None = None) -> dict[str, Any]:
    return {"name": name, "inputs": inputs or [tensor([1, 2])], "outputs": outputs or [tensor([1, 2])]}


def op_test(name: str = "t", operator: str = "Identity", **more: Any) -> dict[str, Any]:
    return {"name": name, "operator": operator, "attributes": [], "cases": [op_case()], **more}


def write(folder: Path, *tests: object, name: str = "ops.jsonc") -> Path:
    path = folder / name
    path.write_text(f"// a comment\n{json.dumps(tests)}\n")
    return path


def load(path: Path | str, root: Path, **more: Any) -> tuple[Case, ...]:
    return cases.load_all([str(path)], cases.Making(root, **more))


def only(folder: Path, **more: Any) -> tuple[ModelProto, Case]:
    """The one case of a manifest with one test, and its model."""
    (case,) = load(write(folder, op_test(**more)), folder / "cache")
    return parse_model(case.model.read_bytes(), "m"), case


def test_a_test_is_a_model_of_one_node_with_upstreams_names(tmp_path: Path) -> None:
    attributes = [
        {"name": "f", "type": "float", "data": 1.5},
        {"name": "i", "type": "int", "data": -3},
        {"name": "s", "type": "string", "data": "NHWC"},
        {"name": "fs", "type": "floats", "data": [1, 0.1]},
        {"name": "is", "type": "ints", "data": [1, -1]},
        {"name": "ss", "type": "strings", "data": ["a", "ä"]},
    ]
    opset = {"domain": "com.microsoft", "version": 1}
    model, case = only(tmp_path, name="a test", operator="FusedConv", opset=opset, attributes=attributes)
    (node,) = model.graph.node
    assert (node.op_type, node.name, node.domain) == ("FusedConv", "FusedConv", "com.microsoft")
    assert (list(node.input), list(node.output)) == (["input_0"], ["output_0"])
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("com.microsoft", 1)]
    assert (model.graph.name, case.name, case.reference) == ("a test", "a test", "files")
    values = {a.name: a for a in node.attribute}
    kinds = AttributeProto.AttributeType
    assert (values["f"].type, values["f"].f) == (kinds.FLOAT, 1.5)
    assert (values["i"].type, values["i"].i) == (kinds.INT, -3)
    assert (values["s"].type, values["s"].s) == (kinds.STRING, b"NHWC")
    assert (values["fs"].type, [round(f, 6) for f in values["fs"].floats]) == (kinds.FLOATS, [1.0, 0.1])
    assert (values["is"].type, list(values["is"].ints)) == (kinds.INTS, [1, -1])
    assert (values["ss"].type, list(values["ss"].strings)) == (kinds.STRINGS, [b"a", "ä".encode()])


@pytest.mark.parametrize(
    ("opset", "imports", "ir"),
    [
        ({}, [("", 21)], 10),
        ({"opset": {"domain": "", "version": 7}}, [("", 7)], 8),
        ({"opset": {"domain": "", "version": 19}}, [("", 19)], 9),
        ({"opset": {"domain": "", "version": 999}}, [("", 999)], 8),
        ({"opset": {"domain": "com.microsoft", "version": 1}}, [("com.microsoft", 1)], 8),
        ({"opsets": [{"domain": "", "version": 11}]}, [("", 11)], 8),
    ],
)
def test_the_ir_version_is_the_lowest_that_goes_with_the_opset(
    tmp_path: Path, opset: dict[str, Any], imports: list[tuple[str, int]], ir: int
) -> None:
    model, _ = only(tmp_path, **opset)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == imports
    assert model.ir_version == ir


@pytest.mark.parametrize(
    ("definitions", "shapes"),
    [
        (None, [None, None]),
        ("none", [None, None]),
        ("rankOnly", [["_input_0_d0", "_input_0_d1"], []]),
        ("static", [[2, 1], []]),
        ([["n", 1], None], [["n", 1], None]),
    ],
)
def test_inputs_have_the_shapes_that_the_test_defines_and_outputs_none(
    tmp_path: Path, definitions: object, shapes: list[list[int | str] | None]
) -> None:
    given = op_case(inputs=[tensor([1, 2], [2, 1]), tensor([3], [])])
    model, case = only(tmp_path, cases=[given], **({"inputShapeDefinitions": definitions} if definitions else {}))
    found = [
        [dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim]
        if port.type.tensor_type.HasField("shape")
        else None
        for port in model.graph.input
    ]
    assert found == shapes
    assert not model.graph.output[0].type.tensor_type.HasField("shape")
    assert [t.shape for t in case.data_sets[0].inputs] == [(2, 1), ()]


def test_values_without_data_are_left_out_of_the_node_the_graph_and_the_data(tmp_path: Path) -> None:
    given = op_case(
        inputs=[tensor([1]), tensor(None), tensor([2], kind="int32"), tensor(None, kind="bool")],
        outputs=[tensor(None), tensor([])],
    )
    model, case = only(tmp_path, cases=[given])
    assert list(model.graph.node[0].input) == ["input_0", "", "input_2", ""]
    assert list(model.graph.node[0].output) == ["", "output_1"]
    assert [port.name for port in model.graph.input] == ["input_0", "input_2"]
    (data_set,) = case.data_sets
    assert [(t.name, t.dtype) for t in data_set.inputs] == [("input_0", "float32"), ("input_2", "int32")]
    assert [(t.name, t.shape) for t in data_set.expected] == [("output_1", (0,))]


@pytest.mark.parametrize(
    ("kind", "data", "stored"),
    [
        ("float32", [1, 0.1, "NaN", 10**400], np.array([1, 0.1, np.nan, np.inf], "<f4").tobytes()),
        ("float64", [0.1], np.array([0.1], "<f8").tobytes()),
        ("float16", [1, 0.1, 70000], np.array([1, 0.1, np.inf], "<f2").tobytes()),
        ("int8", [-1, 127], b"\xff\x7f"),
        ("uint8", [255, 256, -1], b"\xff\x00\xff"),
        ("int16", [-2], b"\xfe\xff"),
        ("uint16", [65535], b"\xff\xff"),
        ("int32", [-(2**31)], b"\0\0\0\x80"),
        ("uint32", [2**32 - 1], b"\xff\xff\xff\xff"),
        ("int64", [-1, "9223372036854775807", 2**53 + 1], np.array([-1, 2**63 - 1, 2**53], "<i8").tobytes()),
        ("uint64", ["18446744073709551615"], b"\xff" * 8),
        ("bool", [True, False, 1, 0], b"\1\0\1\0"),
        ("int4", [1, -2, 7], b"\xe1\x07"),
        ("uint4", [15, 1, 2, 3], b"\x1f\x32"),
    ],
)
def test_every_numeric_type_is_stored_as_the_browser_would_be_given_it(
    tmp_path: Path, kind: str, data: list[Any], stored: bytes
) -> None:
    value = tensor(data, kind=kind)
    model, case = only(tmp_path, cases=[op_case(inputs=[value], outputs=[value])])
    for found in (case.data_sets[0].inputs[0], case.data_sets[0].expected[0]):
        assert (found.dtype, found.shape, found.data) == (kind, (len(data),), stored)
    assert model.ir_version == 10, "4-bit types need it"


def test_the_cases_of_a_test_are_data_sets_of_one_model_unless_they_are_isolated(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        op_test("first", cases=[op_case("small"), op_case("large", [tensor([1, 2, 3])]), op_case("small")]),
        op_test("second"),
        op_test("first"),
    )
    first, *rest = together = load(path, tmp_path / "cache")
    assert [case.name for case in together] == ["first", "second", "first (2)"]
    assert [data_set.name for data_set in first.data_sets] == ["small", "large", "small (2)"]
    assert len({case.page for case in together}) == 1
    assert cases.load_pinned(first.digest, first.name, tmp_path / "cache").data_sets == first.data_sets
    assert not first.external
    alone = load(path, tmp_path / "cache", isolate=True)
    assert [case.name for case in alone] == [
        "first/small",
        "first/large",
        "first/small (2)",
        *(case.name for case in rest),
    ]
    assert [data_set for case in alone[:3] for data_set in case.data_sets] == list(first.data_sets)


def test_cases_that_need_different_models_are_cases_of_their_own(tmp_path: Path) -> None:
    several = [op_case("one"), op_case("two", [tensor([1]), tensor([2])]), op_case("three", [tensor([1], kind="int8")])]
    found = load(write(tmp_path, op_test("t", cases=several)), tmp_path / "cache")
    assert [(case.name, len(case.data_sets[0].inputs)) for case in found] == [
        ("t/one", 1),
        ("t/two", 2),
        ("t/three", 1),
    ]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a/b", ["a/b"]),
        ("MatMul", ["MatMul", "MatMul (2)"]),
        ("MatMul (2)", ["MatMul (2)"]),
        ("MatMul/small", ["MatMul/small", "MatMul (2)"]),
        ("large 1", ["MatMul/large 1"]),
        ("MatMul/large 1", ["MatMul/large 1"]),
        ("T #1", ["a/b"]),
    ],
)
def test_a_name_means_a_test_else_one_of_its_cases(tmp_path: Path, name: str, found: list[str]) -> None:
    path = write(
        tmp_path,
        op_test("MatMul", cases=[op_case("small"), op_case("large 1")]),
        op_test("a/b", cases=[op_case("T #1")]),
        op_test("MatMul", cases=[op_case("small")]),
    )
    assert [case.name for case in load(f"{path}#{name}", tmp_path / "cache")] == found


def test_an_unknown_name_lists_what_is_close(tmp_path: Path) -> None:
    path = write(tmp_path, op_test("MatMul 2D", cases=[op_case("broadcast small 1")]), op_test("Other"))
    for name, advice in (("matmul 2d", "is one of these meant: MatMul 2D"), ("broadcast smal", "broadcast small 1")):
        with pytest.raises(CaseError, match=r"ops\.jsonc has no case") as caught:
            load(f"{path}#{name}", tmp_path / "cache")
        assert advice in caught.value.advice
    with pytest.raises(CaseError) as caught:
        load(f"{path}#", tmp_path / "cache")
    assert caught.value.advice == "it has: MatMul 2D; Other"


def test_names_are_text_of_a_stranger(tmp_path: Path) -> None:
    path = write(
        tmp_path, op_test("\x1b[2J<script>\n", cases=[op_case("../\0x\r\n")]), op_test("", cases=[op_case("")])
    )
    first, second = load(path, tmp_path / "cache")
    assert (first.name, first.data_sets[0].name) == ("<script>", "../x")
    assert (second.name, second.data_sets[0].name) == ("unnamed", "unnamed")
    assert load(f"{path}#<script>", tmp_path / "cache") == (first,)


def test_a_file_and_a_git_object_are_the_same_case(tmp_path: Path) -> None:
    path = write(tmp_path, op_test(cases=[op_case("one"), op_case("two")]))
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "ops.jsonc")
    git(tmp_path, "commit", "-q", "-m", "x")
    git(tmp_path, "tag", "v1")
    from_file = load(path, tmp_path / "cache")
    write(tmp_path, op_test("changed"))
    for text in ("v1:ops.jsonc", "main:ops.jsonc#t"):
        assert load(text, tmp_path / "cache", repo=str(tmp_path)) == from_file
    with pytest.raises(CaseError, match="none was named"):
        load("v1:ops.jsonc", tmp_path / "cache")


def test_tests_that_cannot_be_run_are_told_and_the_others_kept(tmp_path: Path) -> None:
    strings = op_test("words", cases=[op_case(outputs=[tensor(["a"], kind="string")])])
    path = write(tmp_path, op_test("good"), strings)
    heard: list[str] = []
    assert [case.name for case in load(path, tmp_path / "cache", say=heard.append)] == ["good"]
    (line,) = heard
    assert "1 of 2 tests are left out" in line
    assert "ops.jsonc#words: output_0 holds strings, which cannot be run" in line
    with pytest.raises(CaseError, match="words: output_0 holds strings"):
        load(f"{path}#words", tmp_path / "cache", say=heard.append)


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ({"cases": [op_case(inputs=[tensor([1], [2])])]}, "t: input_0 has 1 elements, but its shape is [2]"),
        ({"cases": [op_case(inputs=[tensor([], [0, 2**30, 2**30])], outputs=[tensor([])])]}, None),
        ({"cases": [op_case(inputs=[tensor([1], [2**30, 2**30])])]}, "claims 4.29e+09 GiB"),
        ({"cases": [op_case(inputs=[{"data": [1], "type": "int8"}])]}, "input_0 has data, but no dims"),
        ({"cases": [op_case(inputs=[tensor([1.5], kind="int32")])]}, "input_0 holds 1.5, which is no integer"),
        ({"cases": [op_case(inputs=[tensor(["x"])])]}, "input_0 holds 'x', which is no number"),
        ({"cases": [op_case(inputs=[tensor([None])])]}, "input_0 holds None, which is no number"),
        ({"cases": [op_case(inputs=[tensor([2], kind="bool")])]}, "is bool, but holds other numbers"),
        ({"cases": [op_case(inputs=[tensor([1], kind="float8")])]}, "has the element type 'float8'"),
        ({"cases": [op_case(outputs=[tensor(None)])]}, "expects no output"),
        ({"attributes": [{"name": "a", "type": "ints", "data": 1}]}, "attribute a is no list"),
        ({"attributes": [{"name": "a", "type": "int", "data": 2**70}]}, "attribute a does not fit in 64 bits"),
        ({"attributes": [{"name": "a", "type": "string", "data": 1}]}, "attribute a holds 1, which is no text"),
        ({"inputShapeDefinitions": [[1], [2]]}, "defines the shapes of 2 inputs, but has 1"),
        ({"inputShapeDefinitions": [[3]]}, "has shape [2], but the model's input_0 is [3]"),
        ({"inputShapeDefinitions": "static", "cases": [op_case(), op_case("x", [tensor([1])])]}, "static shapes"),
        ({"inputShapeDefinitions": "rankOnly", "cases": [op_case(inputs=[tensor(None)])]}, "has an input without data"),
    ],
)
def test_a_test_that_cannot_be_a_model_is_refused_by_name(
    tmp_path: Path, test: dict[str, Any], says: str | None
) -> None:
    path = write(tmp_path, op_test(**test))
    if says is None:
        assert len(load(path, tmp_path / "cache")) == 1
        return
    with pytest.raises(CaseError) as caught:
        load(path, tmp_path / "cache")
    assert says in str(caught.value)
    assert "ops.jsonc#t" in str(caught.value)


@pytest.mark.parametrize(
    ("tests", "says"),
    [
        ({"webgpu": {"ops": []}}, "is no op manifest: it holds no list of tests"),
        ([], "holds no tests"),
        ([op_test(cases=[])], "holds no tests"),
        ([1], "test 1: it: Input should be a valid dictionary"),
        ([op_test(), {"name": "b", "operator": "Add"}], "test 2 ('b'): cases: Field required"),
        ([op_test(optset=7)], "test 1 ('t'): optset: Extra inputs are not permitted"),
        ([op_test(opset={"domain": "", "version": -1})], "opset.version: Input should be greater"),
        ([op_test(attributes=[{"name": "a", "type": "tensor", "data": 0}])], "attributes.0.type"),
        ([op_test(cases=[op_case(inputs=[tensor([1], [-1])])])], "cases.0.inputs.0.dims.0"),
        ([op_test(cases=[op_case(inputs=[tensor([1], [2**40])])])], "cases.0.inputs.0.dims.0"),
    ],
)
def test_what_is_no_manifest_is_refused_with_the_place(tmp_path: Path, tests: object, says: str) -> None:
    path = tmp_path / "ops.jsonc"
    path.write_text(json.dumps(tests))
    with pytest.raises(CaseError) as caught:
        load(path, tmp_path / "cache")
    assert f"{path}" in str(caught.value)
    assert says in str(caught.value)


def test_data_may_have_fields_that_nothing_reads(tmp_path: Path) -> None:
    """Upstream's conv-transpose.jsonc has an output with a name."""
    value = {**tensor([1]), "name": "y"}
    assert len(load(write(tmp_path, op_test(cases=[op_case(outputs=[value])])), tmp_path / "cache")) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["t", "float32"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def nearly(form: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """What is like `form`, mostly: with fields missing or any value in the place of one."""
    right = st.fixed_dictionaries({}, optional=form)
    return right | right | st.fixed_dictionaries(form) | st.fixed_dictionaries(form) | JSON


KINDS = st.sampled_from(["float32", "float16", "int4", "uint4", "bool", "int64", "uint8", "string", "none"])
ELEMENTS = st.lists(st.integers(-300, 300) | st.integers() | st.booleans() | st.floats() | JSON, max_size=4)
VALUES = nearly({"data": st.none() | ELEMENTS, "dims": st.lists(st.integers(-1, 4), max_size=3), "type": KINDS})
CASES = nearly({"name": st.text(max_size=5), "inputs": st.lists(VALUES, max_size=3), "outputs": st.lists(VALUES)})
ATTRIBUTE_TYPES = st.sampled_from(["int", "ints", "float", "floats", "string", "strings", "tensor"])
SHAPES = st.sampled_from(["none", "rankOnly", "static"]) | st.lists(st.none() | st.lists(st.integers() | st.text()))
TESTS = nearly(
    {
        "name": st.text(max_size=5),
        "operator": st.text(max_size=8),
        "opset": nearly({"domain": st.text(max_size=5), "version": st.integers(0, 30) | st.integers()}),
        "attributes": st.lists(nearly({"name": st.text(), "type": ATTRIBUTE_TYPES, "data": JSON}), max_size=2),
        "inputShapeDefinitions": SHAPES,
        "cases": st.lists(CASES, max_size=3),
    }
)


def read_all(content: bytes) -> None:
    """What loading does with a manifest, but for writing it to the disk. Raises CaseError, and nothing else."""
    tests = parse_manifest(content, "x.jsonc")
    choose(tests, "t", "x.jsonc")
    for test in tests:
        for part in test.split() if not test.test.alike else (test,):
            model, runs = convert(part.test, "x.jsonc")
            assert parse_model(model, "m").graph.node
            assert runs


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(TESTS, max_size=3) | JSON)
def test_whatever_a_manifest_says_it_is_read_or_is_a_case_error(tests: object) -> None:
    try:
        read_all(json.dumps(tests).encode())
    except CaseError as error:
        assert str(error).isprintable()


@pytest.mark.clone
def test_all_of_upstreams_manifests_are_read_with_every_case() -> None:
    command = ["git", "-C", os.environ[CLONE], "ls-tree", "-r", "--name-only", "HEAD", f"{OPS}/"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert len(names) > 50
    for name in names:
        blob = ["git", "-C", os.environ[CLONE], "cat-file", "blob", f"HEAD:{name}"]
        content = subprocess.run(blob, capture_output=True, check=True).stdout
        tests = parse_manifest(content, name)
        parts = [part for test in tests for part in (test.split() if not test.test.alike else (test,))]
        runs = [run for part in parts for run in convert(part.test, name)[1]]
        assert 0 < len(runs) <= content.count(b'"outputs"'), "a few are commented out"


SHADERS_OF_ONE_KEY = [
    # Same ranks, another axis is broadcast: up to d9b91682f1 the second case got the first one's shader.
    op_case(
        "small 0",
        [tensor([1, 2, 3, 4], [1, 2, 2, 1]), tensor([5, 6], [2, 1, 1, 1])],
        [tensor([5, 10, 15, 20, 6, 12, 18, 24], [2, 2, 2, 1])],
    ),
    op_case(
        "small 1",
        [tensor([1, 2, 3, 4], [2, 1, 2, 1]), tensor([5, 6], [1, 2, 1, 1])],
        [tensor([5, 10, 6, 12, 15, 20, 18, 24], [2, 2, 2, 1])],
    ),
]


@pytest.mark.browser
@pytest.mark.network
def test_a_bug_between_cases_shows_in_one_session_and_goes_away_when_they_are_isolated(shell: Shell) -> None:
    write(shell.folder, op_test("MatMul", "MatMul", cases=SHADERS_OF_ONE_KEY))
    words = ("check", "1.21.0-dev.20241024-d9ca84ef96", "--case", "ops.jsonc")
    together, apart = shell.run(*words), shell.run(*words, "--isolate")
    assert (together.status, apart.status) == (1, 0), together.err + apart.err
    assert "in small 1" in together.err


@pytest.mark.browser
@pytest.mark.network
def test_packed_and_optional_inputs_reach_the_browser(shell: Shell) -> None:
    """DequantizeLinear of int4 on the CPU; Clip without its lower bound on WebGPU."""
    dequantize = op_case(
        inputs=[tensor([0, 1, 7, -4, -8], kind="int4"), tensor([2], []), tensor([1], [], "int4")],
        outputs=[tensor([-2, 0, 12, -10, -18])],
    )
    clip = op_case(inputs=[tensor([-1, 0, 9]), tensor(None), tensor([1], [])], outputs=[tensor([-1, 0, 1])])
    write(shell.folder, op_test("int4", "DequantizeLinear", cases=[dequantize]), op_test("clip", "Clip", cases=[clip]))
    done = shell.run(
        "check", "1.21.0-dev.20241205-d27fecd3d3", "--case", "ops.jsonc", "--backend", "wasm", "--backend", "webgpu"
    )
    assert done.status == 0, done.err


def test_one_test_in_two_manifests_is_two_cases_with_names_of_their_own(tmp_path: Path) -> None:
    paths = []
    for folder in ("d1", "d2"):
        (tmp_path / folder).mkdir()
        paths.append(str(write(tmp_path / folder, op_test("MatMul"), op_test(folder))))
    made = cases.load_all([*paths, paths[0]], cases.Making(tmp_path / "cache"))
    assert (len(made), len({case.name for case in made})) == (4, 4)
    one, two = (case for case in made if case.name.startswith("MatMul"))
    assert (one.digest, two.name) == (two.digest, f"{one.name}-2")
    assert one.page != two.page


def test_names_that_look_like_those_told_apart_stay_apart(tmp_path: Path) -> None:
    (case,) = load(write(tmp_path, op_test()), tmp_path / "cache")
    named = [replace(case, name=name) for name in ("a", f"a@{case.digest[:8]}", "a", f"a@{case.digest[:8]}-2", "a")]
    told = cases.told_apart(tuple(named))
    assert len({each.name for each in told}) == 5
    assert [told[1].name, told[3].name] == [named[1].name, named[3].name]
    assert cases.told_apart(told) == told
