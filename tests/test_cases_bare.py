"""A bare model: inputs from a seed, outputs by onnxruntime on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from bisect_bot import cases
from bisect_bot.cases.bare import make_inputs
from bisect_bot.cases.models import signature
from bisect_bot.errors import CaseError
from tests.test_cases_samples import identity_model, load, value

KINDS = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.UINT8, TensorProto.INT8]
KINDS += [TensorProto.UINT16, TensorProto.INT16, TensorProto.UINT32, TensorProto.INT32, TensorProto.UINT64]
KINDS += [TensorProto.INT64, TensorProto.BOOL]


def saved(path: Path, model: onnx.ModelProto) -> Path:
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_gets_varied_inputs_of_its_type_and_the_outputs_that_onnxruntime_gives(
    tmp_path: Path, kind: int
) -> None:
    case = load(saved(tmp_path / "same.onnx", identity_model(kind, (4, 32))), tmp_path / "cache")
    (data_set,) = case.data_sets
    x, y = data_set.inputs[0].array(), data_set.expected[0].array()
    assert (case.name, x.shape) == ("same", (4, 32))
    assert case.reference == f"onnxruntime {onnxruntime.__version__} (CPU)"
    assert x.dtype == helper.tensor_dtype_to_np_dtype(kind)
    assert len(np.unique(x)) > 1
    assert np.array_equal(x, y)
    if x.dtype.kind in "iu":
        assert (x.min(), x.max()) == (0, 7)
    if x.dtype.kind == "f":
        assert abs(x.astype(float).mean()) < 0.5
        assert 0.5 < x.astype(float).std() < 1.5


def test_expected_outputs_are_computed_not_copied(tmp_path: Path) -> None:
    node = helper.make_node("Mul", ["x", "x"], ["y"])
    graph = helper.make_graph([node], "square", [value("x", (5,))], [value("y", (5,))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    data_set = load(saved(tmp_path / "m.onnx", model), tmp_path / "cache").data_sets[0]
    x = data_set.inputs[0].array().astype(np.float32)
    assert np.array_equal(data_set.expected[0].array(), x * x)


def test_the_same_seed_gives_the_same_case_and_another_seed_another(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", identity_model())
    first, again, other = (load(path, tmp_path / "cache", seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.digest != other.digest
    assert first.data_sets[0].inputs != other.data_sets[0].inputs


def test_free_dimensions_get_their_size_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", identity_model(shape=("batch", 2, None)))
    case = cases.load(str(path), cases.Making(tmp_path / "cache", {"batch": 3, "x:2": 4}, 0))
    assert case.data_sets[0].inputs[0].shape == (3, 2, 4)


def test_free_dimensions_without_a_size_are_listed_as_options_to_type(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", identity_model(shape=("batch", 2, None, "batch")))
    with pytest.raises(CaseError, match=r"--dim batch=… --dim x:2=…$"):
        load(path, tmp_path / "cache")


@pytest.mark.parametrize("size", [-1, 2**40])
def test_an_impossible_size_is_refused_before_it_is_allocated(tmp_path: Path, size: int) -> None:
    path = saved(tmp_path / "m.onnx", identity_model(shape=("n",)))
    with pytest.raises(CaseError, match=r"input 'x' (has a negative dimension|claims 4\.1e\+03 GiB)"):
        load(path, tmp_path / "cache", n=size)


def test_a_size_that_no_case_uses_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", identity_model(shape=("batch",)))
    with pytest.raises(CaseError, match="no case has a free dimension bach") as caught:
        load(path, tmp_path / "cache", bach=1, batch=1)
    assert "batch" in caught.value.advice


def test_each_of_several_cases_takes_the_sizes_that_are_its_own(tmp_path: Path) -> None:
    one = saved(tmp_path / "one.onnx", identity_model(shape=("batch",)))
    two = saved(tmp_path / "two.onnx", identity_model(shape=("length",)))
    made = cases.load_all([str(one), str(two)], cases.Making(tmp_path / "cache", {"batch": 3, "length": 5}, 0))
    assert [case.data_sets[0].inputs[0].shape for case in made] == [(3,), (5,)]


def test_two_cases_of_one_name_are_told_apart_and_a_repeated_one_is_taken_once(tmp_path: Path) -> None:
    paths = []
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        paths.append(str(saved(tmp_path / str(number) / "model.onnx", identity_model(shape=(number,)))))
    made = cases.load_all([*paths, paths[0]], cases.Making(tmp_path / "cache", {}, 0))
    assert [case.name for case in made] == [f"model@{case.digest[:8]}" for case in made]
    assert len({case.name for case in made}) == 2


def test_an_input_of_unknown_rank_is_refused() -> None:
    with pytest.raises(CaseError, match="input 'x' does not say how many dimensions it has"):
        make_inputs(signature(identity_model(shape=None), "m.onnx"), {}, 0, "m.onnx")


def test_4_bit_inputs_need_files(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="x is int4, which onnxruntime for Python cannot pass"):
        load(saved(tmp_path / "m.onnx", identity_model(TensorProto.INT4)), tmp_path / "cache")


def test_what_onnxruntime_says_when_it_fails_is_passed_on_in_one_line(tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    ports = [value("x", (1,)), value("i", (64,), TensorProto.INT64)]
    graph = helper.make_graph([node], "g", ports, [value("y", (64,))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(CaseError, match=r"m\.onnx: onnxruntime cannot run it: .*Gather") as caught:
        load(saved(tmp_path / "m.onnx", model), tmp_path / "cache")
    assert str(caught.value).isprintable()
    assert "bisect-bot-" not in str(caught.value), "the user never typed our scratch folder"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"<!DOCTYPE html><html></html>", b"\0" * 100])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(CaseError, match=r"m\.onnx is not an ONNX model"):
        load(tmp_path / "m.onnx", tmp_path / "cache")
