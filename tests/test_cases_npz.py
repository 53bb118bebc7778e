"""Data sets as numpy saves them."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bisect_bot import cases
from bisect_bot.cases.npz import parse_array, read_npz
from bisect_bot.errors import CaseError
from tests.test_cases_samples import identity_folder, identity_model, load, value

X = np.array([[1.5, -2.0, 0.25]], np.float32)


def difference(folder: Path) -> Path:
    """The model of y = a - b, without data sets."""
    node = helper.make_node("Sub", ["a", "b"], ["y"])
    graph = helper.make_graph([node], "g", [value("a", ("n", 3)), value("b", ("n", 3))], [value("y", ("n", 3))])
    folder.mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx"
    )
    return folder


@pytest.mark.parametrize("place", ["", "test_data_set_0"])
def test_arrays_are_matched_by_name_and_outputs_computed_when_there_are_none(tmp_path: Path, place: str) -> None:
    folder = difference(tmp_path / "sub")
    (folder / place).mkdir(exist_ok=True)
    np.savez(folder / place / "inputs.npz", b=X, a=X * 3)
    case = load(folder, tmp_path / "cache")
    (data_set,) = case.data_sets
    assert [t.name for t in data_set.inputs] == ["a", "b"]
    assert np.array_equal(data_set.expected[0].array(), X * 2)
    assert case.reference.startswith("onnxruntime")


def test_outputs_are_taken_as_given(tmp_path: Path) -> None:
    folder = difference(tmp_path / "sub")
    np.savez(folder / "inputs.npz", a=X, b=X)
    np.savez_compressed(folder / "outputs.npz", y=X)
    case = load(folder, tmp_path / "cache")
    assert case.reference == "files"
    assert np.array_equal(case.data_sets[0].expected[0].array(), X), "not what the model would give"


def test_several_data_sets_keep_their_order_and_say_who_made_the_outputs(tmp_path: Path) -> None:
    folder = difference(tmp_path / "sub")
    for number in (0, 2, 10):
        (folder / f"test_data_set_{number}").mkdir()
        np.savez(folder / f"test_data_set_{number}" / "inputs.npz", a=X * number, b=X * 0)
    np.savez(folder / "test_data_set_2" / "outputs.npz", y=X * 2)
    case = load(folder, tmp_path / "cache")
    assert [d.inputs[0].array()[0, 0] for d in case.data_sets] == [0, 3, 15]
    assert case.reference.startswith("onnxruntime") and case.reference.endswith(", files")


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2],
    ],
)
def test_the_layout_that_numpy_saved_does_not_matter(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    np.savez(tmp_path / "a.npz", x=array)
    (tensor,) = read_npz(tmp_path / "a.npz", "a.npz")
    assert (tensor.name, tensor.dtype, tensor.shape) == ("x", "float32", (2, 3))
    assert np.array_equal(tensor.array(), array)


@pytest.mark.parametrize("kind", ["float16", "float64", "int8", "uint8", "int16", "int64", "uint64", "bool"])
def test_every_type_that_numpy_has_is_read(tmp_path: Path, kind: str) -> None:
    array = np.array([1, 0, 1]).astype(kind)
    np.savez(tmp_path / "a.npz", **{"/deep/name": array})  # type: ignore[arg-type]
    (tensor,) = read_npz(tmp_path / "a.npz", "a.npz")
    assert (tensor.name, tensor.dtype) == ("/deep/name", kind)
    assert np.array_equal(tensor.array(), array)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"a": X}, "inputs.npz holds a, but the model has a, b"),
        ({"a": X, "b": X, "c": X}, "inputs.npz holds a, b, c, but the model has a, b"),
        ({"a": X, "b": X.astype(np.float64)}, "b is float64, but the model's is float32"),
        ({"a": X, "b": X[:, :2]}, "has shape [1, 2], but the model's b is ['n', 3]"),
        ({"a": X, "b": np.array(["text"])}, "has the element type 'str"),
        ({"a": X, "b": np.zeros(3, "f4,i4")}, "has the element type 'void"),
        ({"a": X, "b": np.zeros(3, complex)}, "has the element type 'complex128'"),
        ({"a": X, "b": np.array([{}])}, "has the element type 'object'"),
    ],
)
def test_arrays_that_do_not_fit_the_model_are_refused(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    folder = difference(tmp_path / "sub")
    np.savez(folder / "inputs.npz", **arrays)
    with pytest.raises(CaseError) as caught:
        load(folder, tmp_path / "cache")
    assert says in str(caught.value)
    assert not list((tmp_path / "cache").glob("cases/*"))


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "evil",))

    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content.getvalue() + pickle.dumps(Evil()))
    with pytest.raises(CaseError, match="has the element type 'object'"):
        read_npz(tmp_path / "a.npz", "a.npz")
    assert not (tmp_path / "evil").exists()


def npy(shape: str, data: bytes = b"", descr: str = "'<f4'") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + data


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is no numpy array"),
        (b"PK", "is no numpy array"),
        (npy("(2,)", b"\0" * 7), "holds 7 bytes of data where float32[2] needs 8"),
        (npy("(2,)", b"\0" * 9), "holds 9 bytes of data where float32[2] needs 8"),
        (npy("(1000000000,)"), "claims 3.73 GiB"),
        (npy("(2000000000, 2000000000)"), "claims"),
        (npy("(-2,)", b"\0" * 8), "has a negative dimension"),
        (npy("[2]", b"\0" * 8), "is no numpy array"),
        (npy("(2,)", descr="'<f4', 'descr': 5"), "is no numpy array"),
        (npy("(" * 5000 + ")" * 5000), "is no numpy array"),
        (npy("(2,)", descr="__import__('os').abort()"), "is no numpy array"),
        (npy("(2,)")[:20], "is no numpy array"),
        (npy("(" + "1," * 20000 + ")"), "is no numpy array"),
        (npy("(" + "1," * 80 + ")", b"\0" * 4), "has 80 dimensions"),
    ],
)
def test_a_damaged_array_is_refused(content: bytes, says: str) -> None:
    with pytest.raises(CaseError) as caught:
        parse_array(content, "x", "a.npz: x.npy")
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    folder = difference(tmp_path / "sub")
    (folder / "inputs.npz").write_bytes(b"junk")
    with pytest.raises(CaseError, match=r"inputs\.npz is no readable zip archive"):
        load(folder, tmp_path / "cache")


def test_both_ways_at_once_are_refused(tmp_path: Path) -> None:
    folder = identity_folder(tmp_path / "c")
    np.savez(folder / "inputs.npz", x=X[0, :2])
    with pytest.raises(CaseError, match=r"holds both inputs\.npz and test_data_set_0"):
        load(folder, tmp_path / "cache")


def test_a_data_set_without_its_inputs_is_named(tmp_path: Path) -> None:
    folder = difference(tmp_path / "sub")
    for number in (0, 1):
        (folder / f"test_data_set_{number}").mkdir()
    np.savez(folder / "test_data_set_0" / "inputs.npz", a=X, b=X)
    with pytest.raises(CaseError, match=r"test_data_set_1/inputs\.npz does not exist"):
        load(folder, tmp_path / "cache")


def test_a_zip_may_hold_npz_data_sets(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    onnx.save(identity_model(TensorProto.FLOAT, (1, 3)), folder / "net.onnx")
    np.savez(folder / "inputs.npz", x=X)
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"deep/net/{path.name}")
    (case,) = cases.load_all([str(tmp_path / "r.zip")], cases.Making(tmp_path / "cache"))
    assert case.name == "net"
    assert np.array_equal(case.data_sets[0].expected[0].array(), X)
