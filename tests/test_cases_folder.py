"""The ONNX folder form: what is read from it, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from bisect_bot import cases
from bisect_bot.errors import CaseError
from tests import models
from tests.test_cases_samples import identity_folder, identity_model, load, value, write_folder

KINDS = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "uint16": TensorProto.UINT16,
    "int16": TensorProto.INT16,
    "uint32": TensorProto.UINT32,
    "int32": TensorProto.INT32,
    "uint64": TensorProto.UINT64,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("raw", [True, False])
def test_every_numeric_type_is_read_whether_its_data_is_raw_or_typed(tmp_path: Path, name: str, raw: bool) -> None:
    array = np.array([[1, 0, 1], [0, 1, 1]]).astype(name)
    typed = helper.make_tensor("x", KINDS[name], [2, 3], array.flatten().tolist())
    tensor = numpy_helper.from_array(array, "x") if raw else typed
    assert tensor.HasField("raw_data") == raw
    case = load(write_folder(tmp_path / "c", identity_model(KINDS[name], (2, 3)), [tensor], [tensor]), tmp_path / "r")
    read = case.data_sets[0].inputs[0]
    assert read.dtype == name
    assert np.array_equal(read.array(), array)


@pytest.mark.parametrize(("kind", "name"), [(TensorProto.INT4, "int4"), (TensorProto.UINT4, "uint4")])
@pytest.mark.parametrize("raw", [True, False])
def test_4_bit_types_stay_packed_two_to_a_byte(tmp_path: Path, kind: int, name: str, raw: bool) -> None:
    typed = helper.make_tensor("x", kind, [3], [1, 2, 7])
    packed = bytes([0x21, 0x07])
    tensor = TensorProto(name="x", data_type=kind, dims=[3], raw_data=packed) if raw else typed
    case = load(write_folder(tmp_path / "c", identity_model(kind, (3,)), [tensor], [tensor]), tmp_path / "r")
    assert (case.data_sets[0].inputs[0].dtype, case.data_sets[0].inputs[0].data) == (name, packed)


def test_files_are_ordered_by_number_and_named_after_the_graph(tmp_path: Path) -> None:
    names = [f"in{i}" for i in range(12)]
    node = helper.make_node("Sum", names, ["total"])
    graph = helper.make_graph([node], "g", [value(n, (1,)) for n in names], [value("total", (1,))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    inputs = [helper.make_tensor("", TensorProto.FLOAT, [1], [float(i)]) for i in range(12)]
    output = helper.make_tensor("", TensorProto.FLOAT, [1], [66.0])
    case = load(write_folder(tmp_path / "sum", model, inputs, [output]), tmp_path / "r")
    assert [(t.name, t.array().item()) for t in case.data_sets[0].inputs] == [(n, i) for i, n in enumerate(names)]


def test_data_sets_are_ordered_by_number(tmp_path: Path) -> None:
    for number in (10, 2, 0):
        tensor = helper.make_tensor("x", TensorProto.FLOAT, [2], [float(number), 0.0])
        write_folder(tmp_path / "c", identity_model(), [tensor], [tensor], number)
    case = load(tmp_path / "c", tmp_path / "r")
    assert [d.name for d in case.data_sets] == ["test_data_set_0", "test_data_set_2", "test_data_set_10"]


def test_an_input_that_has_an_initialiser_needs_no_file(tmp_path: Path) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 1.0])
    node = helper.make_node("Add", ["w", "x"], ["y"])
    graph = helper.make_graph([node], "g", [value("w", (2,)), value("x", (2,))], [value("y", (2,))], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    x = helper.make_tensor("x", TensorProto.FLOAT, [2], [1.0, 2.0])
    case = load(write_folder(tmp_path / "c", model, [x], [x]), tmp_path / "r")
    assert [tensor.name for tensor in case.data_sets[0].inputs] == ["x"]


def _folder_without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _put(name: str, content: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return spoil


def _cut(name: str, keep: int) -> Callable[[Path], None]:
    return lambda folder: _put(name, (folder / name).read_bytes()[:keep])(folder)


def _tensor(kind: int, dims: list[int], raw: bytes = b"") -> bytes:
    return bytes(TensorProto(data_type=kind, dims=dims, raw_data=raw).SerializeToString())


INPUT, OUTPUT = "test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_folder_without("model.onnx"), "model.onnx does not exist"),
        (_cut("model.onnx", 30), "model.onnx is not an ONNX model"),
        (_put("model.onnx", b""), "model.onnx is not an ONNX model: it has no graph"),
        (_put("model.onnx", b"version https://git-lfs.github.com/spec/v1\n"), "model.onnx is not an ONNX model"),
        (_folder_without(OUTPUT), "test_data_set_0 has no expected outputs"),
        (_folder_without(INPUT), "test_data_set_0 has 0 input files, but the model has 1 inputs"),
        (_put("test_data_set_0/input_1.pb", _tensor(1, [1], b"abcd")), "has 2 input files, but the model has 1"),
        (_put("test_data_set_0/output_2.pb", _tensor(1, [1], b"abcd")), "lacks output files"),
        (_cut(INPUT, 7), "input_0.pb is not a tensor"),
        (_put(INPUT, b""), "input_0.pb is not a tensor: it has no element type"),
        (_put(INPUT, _tensor(TensorProto.FLOAT, [2], b"\0" * 7)), "input_0.pb holds 7 bytes of data where"),
        (_put(INPUT, _tensor(TensorProto.FLOAT, [2])), "input_0.pb holds 0 bytes of data where"),
        (_put(INPUT, _tensor(TensorProto.FLOAT, [-2], b"\0" * 8)), "input_0.pb has a negative dimension"),
        (_put(INPUT, _tensor(TensorProto.FLOAT, [1 << 62, 1 << 62])), "input_0.pb claims"),
        (_put(INPUT, _tensor(TensorProto.INT32, [2], b"\0" * 8)), "input_0.pb is int32, but the model's x is float32"),
        (_put(INPUT, _tensor(TensorProto.FLOAT, [3], b"\0" * 12)), "input_0.pb has shape [3], but the model's x is"),
        (_put(INPUT, _tensor(TensorProto.BFLOAT16, [2], b"\0" * 4)), "element type bfloat16, which cannot be run"),
        (_put(INPUT, _tensor(TensorProto.STRING, [1])), "input_0.pb holds strings, which cannot be run"),
        (_put(INPUT, _tensor(9999, [1])), "element type unknown (9999)"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line_that_names_the_file(
    tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    folder = identity_folder(tmp_path / "case")
    spoil(folder)
    with pytest.raises(CaseError) as caught:
        load(folder, tmp_path / "cache")
    message = str(caught.value)
    assert says in message
    assert message.startswith(str(folder))
    assert message.isprintable()
    assert not list((tmp_path / "cache").glob("cases/*")), "a refused case leaves nothing pinned"


def test_typed_data_that_does_not_fill_the_shape_is_refused(tmp_path: Path) -> None:
    folder = identity_folder(tmp_path / "case")
    short = TensorProto(data_type=TensorProto.FLOAT, dims=[2], float_data=[1.0])
    (folder / INPUT).write_bytes(short.SerializeToString())
    with pytest.raises(CaseError, match=r"input_0\.pb is damaged"):
        load(folder, tmp_path / "cache")


def test_a_folder_without_data_sets_says_that_outputs_are_missing_and_names_the_way_out(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    onnx.save(identity_model(), folder / "model.onnx")
    with pytest.raises(CaseError, match="has no expected outputs") as caught:
        load(folder, tmp_path / "cache")
    assert f"{folder}/model.onnx" in caught.value.advice


def test_a_model_that_the_checker_refuses_is_refused(tmp_path: Path) -> None:
    model = identity_model()
    model.graph.node[0].op_type = "NoSuchOperator"
    tensor = helper.make_tensor("x", TensorProto.FLOAT, [2], [0.0, 0.0])
    with pytest.raises(CaseError, match=r"model\.onnx is not a valid model: No Op registered for NoSuchOperator"):
        load(write_folder(tmp_path / "c", model, [tensor], [tensor]), tmp_path / "r")


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])), "is of type sequence"),
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2])), "is of type optional"),
        (helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, [2])), "is of type map"),
        (helper.make_tensor_type_proto(TensorProto.STRING, [2]), "holds strings"),
        (helper.make_tensor_type_proto(TensorProto.FLOAT8E5M2, [2]), "has element type float8e5m2"),
    ],
)
def test_what_onnxruntime_web_cannot_be_fed_is_refused_with_the_reason(
    tmp_path: Path, made: onnx.TypeProto, says: str
) -> None:
    model = identity_model()
    for port in (*model.graph.input, *model.graph.output):
        port.type.CopyFrom(made)
    tensor = helper.make_tensor("x", TensorProto.FLOAT, [2], [0.0, 0.0])
    with pytest.raises(CaseError, match="which cannot be run") as caught:
        load(write_folder(tmp_path / "c", model, [tensor], [tensor]), tmp_path / "r")
    assert f"input 'x' {says}" in str(caught.value)


def _external_model(location: str) -> ModelProto:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [value("x", (2,))], [value("y", (2,))], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _external_folder(folder: Path, location: str) -> Path:
    tensor = helper.make_tensor("x", TensorProto.FLOAT, [2], [1.0, 2.0])
    return write_folder(folder, _external_model(location), [tensor], [tensor])


def test_external_data_is_pinned_beside_the_model(tmp_path: Path) -> None:
    folder = _external_folder(tmp_path / "c", "weights/w.bin")
    (folder / "weights").mkdir()
    (folder / "weights" / "w.bin").write_bytes(b"\0" * 8)
    case = load(folder, tmp_path / "cache")
    (folder / "weights" / "w.bin").unlink()
    assert case.external == ("weights/w.bin",)
    assert (case.model.parent / "weights" / "w.bin").read_bytes() == b"\0" * 8


@pytest.mark.parametrize(
    "location", ["../secret", "/etc/passwd", "a/../../secret", "C:\\secret", "..\\secret", "", "a\nb"]
)
def test_external_data_outside_the_folder_is_refused_by_its_name(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 8)
    with pytest.raises(CaseError, match=r"model\.onnx keeps weights at .* outside its folder") as caught:
        load(_external_folder(tmp_path / "c", location), tmp_path / "cache")
    assert str(caught.value).isprintable()


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_external_data_that_a_link_takes_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 8)
    folder = _external_folder(tmp_path / "c", "w.bin")
    (folder / "w.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(CaseError, match=r"external data w\.bin lies outside the model's folder"):
        load(folder, tmp_path / "cache")


def test_external_data_in_a_nested_graph_is_found_too(tmp_path: Path) -> None:
    inner = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    inner.external_data.add(key="location", value="../secret")
    constant = helper.make_node("Constant", [], ["y"], value=inner)
    branch = helper.make_graph([constant], "branch", [], [value("y", (2,))])
    node = helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph([node], "g", [value("x", (1,), TensorProto.BOOL)], [value("y", (2,))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(CaseError, match="outside its folder"):
        load(write_folder(tmp_path / "c", model, [], []), tmp_path / "cache")


@pytest.mark.parametrize("location", ["case.json", "model.onnx", "Model.ONNX", "test_data_set_0/input_0.pb"])
def test_external_data_may_not_take_a_name_that_the_case_needs(tmp_path: Path, location: str) -> None:
    with pytest.raises(CaseError, match="a name that the case itself needs"):
        load(_external_folder(tmp_path / "c", location), tmp_path / "cache")


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"external data w\.bin does not exist"):
        load(_external_folder(tmp_path / "c", "w.bin"), tmp_path / "cache")


@pytest.mark.skipif(os.name == "nt", reason="there are no named pipes in Windows' folders")
def test_a_pipe_in_the_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    folder = identity_folder(tmp_path / "c")
    (folder / INPUT).unlink()
    os.mkfifo(folder / INPUT)
    with pytest.raises(CaseError, match=r"input_0\.pb is not a regular file"):
        load(folder, tmp_path / "cache")


@pytest.mark.parametrize("text", ["", "nowhere", "no\0where", "\x1b[31mred.onnx", "~nobody-of-that-name/x.onnx"])
def test_a_text_that_names_nothing_is_a_usage_error_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(CaseError) as caught:
        load(text, tmp_path / "cache")
    assert str(caught.value).isprintable()
    assert "\x1b" not in str(caught.value)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "case.txt").write_text("hello")
    with pytest.raises(CaseError, match=r"neither a folder .* nor an \.onnx model"):
        load(tmp_path / "case.txt", tmp_path / "cache")


@pytest.mark.skipif(os.name == "nt", reason="Windows allows no such names")
def test_a_name_with_control_characters_is_shown_without_them(tmp_path: Path) -> None:
    case = load(identity_folder(tmp_path / "ev\x1b[31mil\n\u202ename"), tmp_path / "cache")
    assert case.name == "evil name"


def test_an_output_without_a_declared_shape_is_no_fault_of_the_model(tmp_path: Path) -> None:
    folder = models.add(tmp_path)
    case = cases.load(str(folder), cases.Making(tmp_path / "cache", {}, 0))
    assert case.data_sets[0].expected[0].shape == (2, 3)
    assert sorted(p.name for p in case.model.parent.iterdir()) == ["case.json", "model.onnx", "test_data_set_0"]


@pytest.mark.parametrize("place", ["input", "dimension", "location"])
def test_names_in_a_model_that_are_no_text_are_refused(tmp_path: Path, place: str) -> None:
    model = identity_model(shape=("ABCD",)) if place == "dimension" else identity_model()
    if place == "input":
        model.graph.input[0].name = model.graph.node[0].input[0] = "ABCD"
    if place == "location":
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value="ABCD")
        model.graph.initializer.append(weight)
    tensor = helper.make_tensor("x", TensorProto.FLOAT, [2], [0.0, 0.0])
    folder = write_folder(tmp_path / "c", model, [tensor], [tensor])
    content = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(content.replace(b"ABCD", b"\xff\xfe\xfdD"))
    with pytest.raises(CaseError, match="holds a name that is no text") as caught:
        load(folder, tmp_path / "cache")
    assert str(caught.value).isprintable()


def test_more_dimensions_than_an_array_can_have_are_refused(tmp_path: Path) -> None:
    folder = identity_folder(tmp_path / "case")
    (folder / OUTPUT).write_bytes(_tensor(TensorProto.FLOAT, [1] * 65, b"\0" * 4))
    with pytest.raises(CaseError, match=r"output_0\.pb has 65 dimensions, more than 64"):
        load(folder, tmp_path / "cache")
