"""Models with weights beside them, in half precision and quantised, in published builds."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from bisect_bot import paths
from bisect_bot.builds import bundle_for, fetch
from bisect_bot.errors import CaseError
from bisect_bot.model import Adapter, Artifact, Bundle, Case, DataSet, Loader, Outcome, Target, Tensor, Verdict
from bisect_bot.probes import Limits, Probe, choose_target, plain_target, run_probe
from bisect_bot.probes.jobs import jobs, size_of
from bisect_bot.targets.browsers import load_config, locate
from bisect_bot.verdicts import judge, load_rules, load_tolerances
from tests.test_cases_samples import load, value

CONFIG = load_config()
Array = NDArray[np.generic]
RANDOM = np.random.default_rng(0)


def graph(
    nodes: Sequence[onnx.NodeProto], kind: int, shape: Sequence[int], weights: Iterable[TensorProto]
) -> ModelProto:
    """A model of `nodes` from `x` (`kind`, `shape`) to `y`, opset 13."""
    y = helper.make_tensor_value_info("y", _output_type(nodes[-1], kind), None)
    made = helper.make_graph(list(nodes), "g", [value("x", shape, kind)], [y], list(weights))
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def _output_type(last: onnx.NodeProto, kind: int) -> int:
    types = {
        "MatMulInteger": TensorProto.INT32,
        "DequantizeLinear": TensorProto.FLOAT,
        "QLinearConv": TensorProto.UINT8,
    }
    return types.get(last.op_type, kind)


def tensor(name: str, array: Array) -> TensorProto:
    return numpy_helper.from_array(array, name)


def drawn(*shape: int, kind: type[np.generic] = np.float32) -> Array:
    if issubclass(kind, np.floating):
        return RANDOM.standard_normal(shape).astype(kind)
    half = 2 ** (8 * np.dtype(kind).itemsize - 2)
    return RANDOM.integers(0 if np.dtype(kind).kind == "u" else -half, half, shape).astype(kind)


def external(folder: Path, location: str = "w.bin", offset: int = 0) -> Path:
    """A model of x @ w + b with w and b in one file beside it, b behind w."""
    weights, content = [], b"\0" * offset
    for name, array in (("w", drawn(64, 8)), ("b", drawn(8))):
        weight = TensorProto(name=name, data_type=1, dims=array.shape, data_location=TensorProto.EXTERNAL)
        for key, text in (("location", location), ("offset", len(content)), ("length", array.nbytes)):
            weight.external_data.add(key=key, value=str(text))
        weights.append(weight)
        content += array.tobytes()
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    (folder / location).write_bytes(content)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    onnx.save(graph(nodes, TensorProto.FLOAT, (2, 64), weights), folder / "external.onnx")
    return folder / "external.onnx"


def half(folder: Path) -> Path:
    """Convolution and multiplication in float16."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("MatMul", ["c", "m"], ["y"]),
    ]
    weights = [tensor("w", drawn(3, 2, 3, 3, kind=np.float16)), tensor("m", drawn(5, 4, kind=np.float16))]
    onnx.save(graph(nodes, TensorProto.FLOAT16, (1, 2, 5, 5), weights), folder / "half.onnx")
    return folder / "half.onnx"


def quantised(folder: Path) -> Path:
    """QuantizeLinear, QLinearConv, DequantizeLinear, as quantisation tools write it."""
    scale, zero, signed = tensor("s", np.array(0.05, np.float32)), np.array(120, np.uint8), np.array(0, np.int8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s", "z", "w", "s", "zw", "s", "z"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    weights = [scale, tensor("z", zero), tensor("zw", signed), tensor("w", drawn(3, 2, 3, 3, kind=np.int8))]
    onnx.save(graph(nodes, TensorProto.FLOAT, (1, 2, 5, 5), weights), folder / "quantised.onnx")
    return folder / "quantised.onnx"


def integers(folder: Path) -> Path:
    """MatMulInteger of uint8 and int8."""
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    weights = [tensor("w", drawn(6, 4, kind=np.int8))]
    onnx.save(graph([node], TensorProto.UINT8, (2, 6), weights), folder / "integers.onnx")
    return folder / "integers.onnx"


@functools.cache
def adapter() -> Target:
    """The installed browser with the adapter that it gives."""
    return choose_target(locate("chrome", CONFIG), "any", (), CONFIG)


def verdicts(made: Sequence[Case], version: str, backend: str) -> dict[str, Verdict]:
    """The verdict on each case with a published build, by name."""
    tolerances = load_tolerances(paths.config_file("tolerances.toml"))
    rules = load_rules(paths.config_file("verdicts.toml"))
    target = adapter() if backend == "webgpu" else plain_target(locate("chrome", CONFIG), "any", ())
    artifact, _ = fetch(version, cache=paths.cache_root())
    probe = Probe(artifact, bundle_for(version, backend), target, backend, tuple(made), limits=Limits(60, 300))
    seen = run_probe(probe, CONFIG)
    return {case.name: judge(each, case, tolerances, rules) for each, case in zip(seen, made, strict=True)}


@pytest.mark.network
@pytest.mark.browser
@pytest.mark.parametrize("backend", ["wasm", "webgpu"])
@pytest.mark.parametrize("version", ["1.20.1", "1.30.0"])
def test_external_half_and_quantised_models_are_right(tmp_path: Path, version: str, backend: str) -> None:
    paths_ = [external(tmp_path, "weights/w.bin", offset=4096), half(tmp_path), quantised(tmp_path), integers(tmp_path)]
    made = [load(path, tmp_path / "cache") for path in paths_]
    found = verdicts(made, version, backend)
    outcomes = {name: verdict.outcome for name, verdict in found.items()}
    expected = dict.fromkeys(outcomes, Outcome.GOOD)
    if backend == "webgpu" and (adapter().adapter or Adapter("", "")).software:
        assert "not applicable" in found["half"].reason, "SwiftShader has no shader-f16"
        expected["half"] = Outcome.SKIP
    if (version, backend) == ("1.20.1", "webgpu"):
        # Its DequantizeLinear subtracts an unsigned zero point from a smaller value without a sign.
        expected["quantised"] = Outcome.BAD
    assert outcomes == expected, {name: verdict.reason for name, verdict in found.items()}


@pytest.mark.network
@pytest.mark.browser
def test_a_build_that_cannot_load_external_data_is_no_answer(tmp_path: Path) -> None:
    found = verdicts([load(external(tmp_path), tmp_path / "cache")], "1.18.0", "wasm")
    assert found["external"].outcome is Outcome.SKIP
    assert found["external"].reason.startswith("not applicable: this build cannot load external data")


# The model's bytes are words: whether create() looks at the external data, and whether it fails.
BUILD = """
export class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } }
export class InferenceSession {
  static async create(bytes, options) {
    const words = new TextDecoder().decode(bytes);
    const files = options.externalData || [];
    const first = words.includes('look') ? [files[0].path, ...files[0].data] : ['', files.length];
    if (words.includes('fail')) { throw new Error('no session'); }
    const session = new InferenceSession();
    session.first = first.join(' ');
    return session;
  }
  async run() { console.log(this.first); return { y: new Tensor('uint8', new Uint8Array([1]), [1]) }; }
}
"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("look", ["log: weights/w.bin 7 8 9"]),
        ("", ["log:  1"]),
        ("look fail", "Error: no session"),
        ("fail", "Error: this build did not take the external data: Error: no session"),
        ("fail, without any", "Error: no session"),
    ],
)
def test_a_failure_is_blamed_on_external_data_only_when_the_build_never_looked(
    tmp_path: Path, words: str, says: str | list[str]
) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(bytes([7, 8, 9]))
    (tmp_path / "model").write_text(words)
    (tmp_path / "ort.mjs").write_text(BUILD)
    external_data = () if "without" in words else ("weights/w.bin",)
    expected = Tensor("y", "uint8", (1,), b"\1")
    case = Case("c", "c", tmp_path / "model", (DataSet("0", (), (expected,)),), "files", external=external_data)
    bundle = Bundle("planted", "ort.mjs", Loader.MODULE, "planted")
    target = plain_target(locate("chrome", CONFIG), "any", ())
    probe = Probe(Artifact("p", "p", "sha256:p", tmp_path), bundle, target, "wasm", (case,), limits=Limits(20, 60))
    (seen,) = run_probe(probe, CONFIG)
    assert (list(seen.console) if isinstance(says, list) else seen.errors[0].message) == says


def test_external_data_counts_in_what_is_sent(tmp_path: Path) -> None:
    case = load(external(tmp_path), tmp_path / "cache")
    bundle = Bundle("planted", "ort.mjs", Loader.MODULE, "planted")
    target = plain_target(locate("chrome", CONFIG), "any", ())
    probe = Probe(Artifact("p", "p", "sha256:p", tmp_path), bundle, target, "wasm", (case,))
    header, blobs = jobs(probe, [0], 1)
    assert sum(map(len, blobs)) == size_of(case)
    (file,) = header["cases"][0]["external"]  # type: ignore[index]
    assert file["path"] == "w.bin"
    assert blobs[file["blob"]] == (tmp_path / "w.bin").read_bytes()


def test_a_case_too_large_for_a_page_is_refused_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bisect_bot.cases.folder.MAX_CASE_BYTES", 2000)
    with pytest.raises(CaseError, match="larger than 2 GiB"):
        load(external(tmp_path), tmp_path / "cache")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"length": 10**12}, "has 1000000000000 bytes of external data where its shape needs 2048"),
        ({"length": 4}, "has 4 bytes of external data where its shape needs 2048"),
        ({"offset": 10**12}, r"w\.bin has 2080 bytes where 1000000002048 are needed"),
        ({"offset": 33}, r"w\.bin has 2080 bytes where 2081 are needed"),
        ({"offset": -5}, "has external data with offset '-5'"),
        ({"offset": "\x1b[31m"}, "has external data with offset "),
        ({"offset": "9" * 400}, "has external data with offset "),
    ],
)
def test_external_data_that_is_not_where_the_model_says_is_refused(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    path = external(tmp_path)
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = str(changes.get(entry.key, entry.value))
    onnx.save(model, path)
    with pytest.raises(CaseError, match=says) as caught:
        load(path, tmp_path / "cache")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("count", [10**11, 10**15])
def test_a_model_that_needs_more_memory_than_there_is_is_refused(tmp_path: Path, count: int) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["c"]),
        helper.make_node("ReduceSum", ["c"], ["r"], keepdims=0),
        helper.make_node("Add", ["r", "x"], ["y"]),
    ]
    model = graph(nodes, TensorProto.FLOAT, (1,), [tensor("s", np.array([count], np.int64))])
    onnx.save(model, tmp_path / "large.onnx")
    with pytest.raises(CaseError, match=r"large\.onnx: onnxruntime cannot run it"):
        load(tmp_path / "large.onnx", tmp_path / "cache")
