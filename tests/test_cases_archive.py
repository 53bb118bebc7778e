"""Zips: cases at any depth are found, and nothing that an archive holds can do harm."""

from __future__ import annotations

import random
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from bisect_bot import cases
from bisect_bot.cases import zips
from bisect_bot.cases.archive import unpack
from bisect_bot.cases.zips import open_archive
from bisect_bot.errors import CaseError, CaseUnsupported
from bisect_bot.model import Case
from tests.test_cases_samples import identity_folder, identity_model, write_folder

Names = Mapping[str, bytes]


def contents(folder: Path, prefix: str = "") -> dict[str, bytes]:
    """The files below `folder` by the name that they get in an archive."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {f"{prefix}{path.relative_to(folder).as_posix()}": path.read_bytes() for path in found}


def sample(place: Path, prefix: str = "") -> dict[str, bytes]:
    """The files of the identity case."""
    return contents(identity_folder(place), prefix)


def pack(path: Path, files: Names) -> Path:
    """A zip of `files` at `path`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def load_all(path: Path, tmp_path: Path, **dims: int) -> tuple[Case, ...]:
    return cases.load_all([str(path)], cases.Making(tmp_path / "cache", dims))


def left_behind(tmp_path: Path) -> list[str]:
    """What a refused archive left in the cache, and files outside it that were not there before."""
    cache = [str(p) for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    return cache + [str(p) for p in tmp_path.rglob("*evil*")]


@pytest.mark.parametrize("prefix", ["", "add/", "report/cases/deep/add/", "./add/"])
def test_a_case_is_found_at_any_depth_and_named_after_its_folder(tmp_path: Path, prefix: str) -> None:
    (case,) = load_all(pack(tmp_path / "report.zip", sample(tmp_path / "c", prefix)), tmp_path)
    assert case.name == ("add" if "add" in prefix else "report")
    assert case.data_sets[0].expected[0].array().tolist() == [1.5, -2.0]
    assert not list((tmp_path / "cache" / "tmp").iterdir()), "the unpacked archive is gone"


def test_several_cases_come_in_the_order_of_their_folders_with_their_own_names_told_apart(tmp_path: Path) -> None:
    files = sample(tmp_path / "a", "opset9/test_abs/") | sample(tmp_path / "b", "opset10/test_abs/")
    files["opset10/test_abs/test_data_set_0/output_0.pb"] = helper.make_tensor(
        "y", TensorProto.FLOAT, [2], [0.0, 0.0]
    ).SerializeToString()
    first, second = load_all(pack(tmp_path / "r.zip", files), tmp_path)
    assert first.data_sets[0].expected[0].array().tolist() == [1.5, -2.0], "opset9 comes before opset10"
    assert [case.name.partition("@")[0] for case in (first, second)] == ["test_abs", "test_abs"]
    assert first.name != second.name


def test_a_model_of_another_name_with_data_sets_beside_it_is_a_case(tmp_path: Path) -> None:
    files = {name.replace("model.onnx", "squeeze.onnx"): data for name, data in sample(tmp_path / "c", "net/").items()}
    (case,) = load_all(pack(tmp_path / "r.zip", files), tmp_path)
    assert (case.name, case.reference) == ("net", "files")


def test_a_bare_model_gets_its_inputs_and_sizes_as_one_outside_a_zip(tmp_path: Path) -> None:
    model = identity_model(shape=("n",)).SerializeToString()
    path = pack(tmp_path / "mine.zip", {"a/net.onnx": model, "b/model.onnx": model})
    one, two = load_all(path, tmp_path, n=3)
    assert ([one.name, two.name], one.data_sets[0].inputs[0].shape) == (["net", "b"], (3,))
    assert one.reference.startswith("onnxruntime")
    with pytest.raises(CaseError, match=r"free dimensions without a size: --dim n=…"):
        load_all(path, tmp_path)


def test_what_macos_and_the_reporter_pack_beside_it_is_left_alone(tmp_path: Path) -> None:
    files = sample(tmp_path / "c", "add/") | {
        "__MACOSX/add/._model.onnx": b"junk",
        "add/.DS_Store": b"junk",
        "add/._model.onnx": b"junk",
        "screenshot.png": b"junk",
        "log.txt": b"",
    }
    (case,) = load_all(pack(tmp_path / "r.zip", files), tmp_path)
    assert sorted(p.name for p in case.model.parent.iterdir()) == ["case.json", "model.onnx", "test_data_set_0"]


def test_weights_beside_the_model_come_along(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="weights/w.bin")
    model = identity_model()
    model.graph.initializer.append(weight)
    model.graph.node[0].op_type = "Add"
    model.graph.node[0].input.append("w")
    files = sample(tmp_path / "c", "add/") | {"add/model.onnx": model.SerializeToString()}
    with pytest.raises(CaseError, match=r"add/model\.onnx: external data weights/w\.bin does not exist"):
        load_all(pack(tmp_path / "r.zip", files), tmp_path)
    (case,) = load_all(pack(tmp_path / "r.zip", files | {"add/weights/w.bin": b"\0" * 8}), tmp_path)
    assert case.external == ("weights/w.bin",)


def test_weights_that_a_model_in_a_zip_seeks_outside_its_folder_are_refused(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="../other/secret")
    model = identity_model()
    model.graph.initializer.append(weight)
    files = sample(tmp_path / "c", "add/") | {"add/model.onnx": model.SerializeToString(), "other/secret": b"\0" * 8}
    with pytest.raises(CaseError, match="outside its folder"):
        load_all(pack(tmp_path / "r.zip", files), tmp_path)


def test_of_several_cases_the_damaged_ones_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    files = sample(tmp_path / "c", "a/") | sample(tmp_path / "c", "b/") | sample(tmp_path / "c", "c/")
    for name in ("b", "c"):
        files[f"{name}/test_data_set_0/input_0.pb"] = b"\xff"
    with pytest.raises(CaseError, match=r"r\.zip/b/test_data_set_0/input_0\.pb is not a tensor.*\(one of 2 .*, of 3\)"):
        load_all(pack(tmp_path / "r.zip", files), tmp_path)


def test_cases_that_no_build_could_be_given_are_left_out_and_said(tmp_path: Path) -> None:
    strings = identity_model(TensorProto.STRING)
    tensor = helper.make_tensor("x", TensorProto.STRING, [2], [b"a", b"b"])  # type: ignore[list-item]
    words = contents(write_folder(tmp_path / "s", strings, [tensor], [tensor]), "words/")
    said: list[str] = []
    path = pack(tmp_path / "r.zip", sample(tmp_path / "c", "a/") | words)
    made = cases.load_all([str(path)], cases.Making(tmp_path / "cache", say=said.append))
    assert [case.name for case in made] == ["a"]
    assert len(said) == 1
    assert "1 of 2 cases are left out" in said[0]
    assert "words/model.onnx: input 'x' holds strings" in said[0]
    with pytest.raises(CaseUnsupported):
        load_all(pack(tmp_path / "only.zip", words), tmp_path)


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16
    return info


def with_entry(info: zipfile.ZipInfo, content: bytes = b"/etc/passwd") -> Callable[[Path, Names], Path]:
    def make(path: Path, files: Names) -> Path:
        pack(path, files)
        with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
            warnings.simplefilter("ignore")  # of a name that is there already
            archive.writestr(info, content)
        return path

    return make


def patched(old: bytes, new: bytes) -> Callable[[Path, Names], Path]:
    def make(path: Path, files: Names) -> Path:
        content = pack(path, files).read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new))
        return path

    return make


def cut(keep: float) -> Callable[[Path, Names], Path]:
    def make(path: Path, files: Names) -> Path:
        content = pack(path, files).read_bytes()
        path.write_bytes(content[: int(len(content) * keep)])
        return path

    return make


def compressed(method: int) -> Callable[[Path, Names], Path]:
    def make(path: Path, files: Names) -> Path:
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path

    return make


def encrypted(path: Path, files: Names) -> Path:
    content = bytearray(pack(path, files).read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    path.write_bytes(content)
    return path


def overlapping(path: Path, files: Names) -> Path:
    """Two entries of the directory that stand for the same bytes."""
    content = bytearray(pack(path, {**files, "evil.bin": b"x", "evil.bim": b"x"}).read_bytes())
    second = content.rindex(b"PK\x01\x02")
    first = content.rindex(b"PK\x01\x02", 0, second)
    content[second + 42 : second + 46] = content[first + 42 : first + 46]
    path.write_bytes(content)
    return path


def claiming(size: int) -> Callable[[Path, Names], Path]:
    """A directory that claims to be of `size` bytes."""

    def make(path: Path, files: Names) -> Path:
        content = bytearray(pack(path, files).read_bytes())
        end = content.rindex(b"PK\x05\x06")
        struct.pack_into("<I", content, end + 12, size)
        path.write_bytes(content)
        return path

    return make


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (with_entry(entry("../evil", stat.S_IFREG)), "leads out of the archive"),
        (with_entry(entry("add/../../evil", stat.S_IFREG)), "leads out of the archive"),
        (with_entry(entry("../evil/", stat.S_IFDIR), b""), "leads out of the archive"),
        (with_entry(entry("/tmp/evil", stat.S_IFREG)), "leads out of the archive"),
        (with_entry(entry("//host/evil", stat.S_IFREG)), "leads out of the archive"),
        (with_entry(entry("C:evil", stat.S_IFREG)), "leads out of the archive"),
        (with_entry(entry("C:/evil", stat.S_IFREG)), "leads out of the archive"),
        (with_entry(entry("..\\evil", stat.S_IFREG)), "a backslash in its name"),
        (with_entry(entry("ev\x1b[31mil\n<script>", stat.S_IFREG)), "control characters in its name"),
        (with_entry(entry("ev\u202eil", stat.S_IFREG)), "control characters in its name"),
        (with_entry(entry("e" * 300, stat.S_IFREG)), "too long a name"),
        (with_entry(entry("e/" * 600 + "e", stat.S_IFREG)), "too long a name"),
        (with_entry(entry("evil", stat.S_IFLNK)), "is a link or a device"),
        (with_entry(entry("evil", stat.S_IFIFO)), "is a link or a device"),
        (with_entry(entry("evil", stat.S_IFCHR)), "is a link or a device"),
        (with_entry(entry("add/model.onnx", stat.S_IFREG)), "holds 'add/model.onnx' twice"),
        (with_entry(entry("add/./model.onnx", stat.S_IFREG)), "needs the place of another entry"),
        (with_entry(entry("add/model.onnx/evil", stat.S_IFREG)), "needs the place of another entry"),
        (encrypted, ": entry 'add/model.onnx' is encrypted"),
        (overlapping, "entries that overlap"),
        (compressed(zipfile.ZIP_BZIP2), "is not compressed with deflate"),
        (compressed(zipfile.ZIP_LZMA), "is not compressed with deflate"),
        (patched(b"PK\x03\x04", b"PK\x03\x05"), "no readable zip archive: Bad magic number"),
        (cut(0.5), "no readable zip archive: File is not a zip file"),
        (cut(0), "no readable zip archive: File is not a zip file"),
        (claiming(2**31), "no readable zip archive"),
        (lambda path, _: pack(path, {"readme.txt": b""}), "holds no case"),
    ],
)
def test_an_archive_that_could_do_harm_is_refused_in_one_line_and_leaves_nothing(
    tmp_path: Path, make: Callable[[Path, Names], Path], says: str
) -> None:
    path = make(tmp_path / "r.zip", sample(tmp_path / "c", "add/"))
    with pytest.raises(CaseError) as caught:
        load_all(path, tmp_path)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()
    assert caught.value.advice
    assert left_behind(tmp_path) == []


def test_a_wrong_checksum_is_damage(tmp_path: Path) -> None:
    """One byte of a stored file is another one."""
    path = tmp_path / "r.zip"
    files = sample(tmp_path / "c", "add/")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    content = path.read_bytes()
    model = files["add/model.onnx"]
    path.write_bytes(content.replace(model, model[:-1] + bytes([model[-1] ^ 1])))
    with pytest.raises(CaseError, match="no readable zip archive: Bad CRC-32"):
        load_all(path, tmp_path)
    assert left_behind(tmp_path) == []


def test_a_bomb_is_noticed_by_what_was_read_not_by_what_it_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sample(tmp_path / "c", "add/")
    path = pack(tmp_path / "r.zip", {**files, "add/evil.bin": bytes(8 * 2**20)})
    monkeypatch.setattr(zips, "SMALL_BYTES", 2**20)
    with pytest.raises(CaseError, match="unpacks to more than 100 times its size"):
        load_all(path, tmp_path)
    monkeypatch.setattr(zips, "MAX_RATIO", 1e9)
    monkeypatch.setattr(zips, "MAX_TOTAL_BYTES", 4 * 2**20)
    with pytest.raises(CaseError, match=r"unpacks to more than 0\.00390625 GiB"):
        load_all(path, tmp_path)
    assert left_behind(tmp_path) == []


def test_reading_holds_little_of_a_large_entry_at_once(tmp_path: Path) -> None:
    path = pack(tmp_path / "r.zip", {"large.bin": random.Random(0).randbytes(3 * 2**20)})
    with open_archive(path, "r.zip") as archive:
        sizes = [len(piece) for piece in archive.chunks(archive.entries[0])]
        assert max(sizes) <= zips.CHUNK_BYTES
        assert sum(sizes) == 3 * 2**20
        with pytest.raises(CaseError, match=r"r\.zip/large\.bin is larger than"):
            archive.read(archive.entries[0], 2**20)


def test_nothing_is_written_outside_whatever_the_caller_checked_before(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = with_entry(entry("../evil", stat.S_IFREG))(tmp_path / "r.zip", {"a": b""})
    with open_archive(path, "r.zip") as archive, pytest.raises(CaseError, match="leads out"):
        unpack(archive, tmp_path / "in")
    assert not (tmp_path / "evil").exists()


def test_too_many_entries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zips, "MAX_ENTRIES", 3)
    with pytest.raises(CaseError, match="holds 4 entries, more than 3"):
        load_all(pack(tmp_path / "r.zip", {f"{n}": b"" for n in range(4)}), tmp_path)


def test_a_directory_too_large_to_be_held_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pack(tmp_path / "r.zip", {f"{n}": b"" for n in range(40)})
    monkeypatch.setattr(zips, "MAX_DIRECTORY_BYTES", 1000)
    with pytest.raises(CaseError, match="its directory takes more than"):
        load_all(path, tmp_path)


def test_a_zip_of_a_zip_says_what_to_do(tmp_path: Path) -> None:
    inner = pack(tmp_path / "inner.zip", sample(tmp_path / "c", "add/"))
    outer = pack(tmp_path / "outer.zip", {"inner.zip": inner.read_bytes()})
    with pytest.raises(CaseError, match=r"holds no case, but another zip: inner\.zip"):
        load_all(outer, tmp_path)


@pytest.mark.parametrize("name", ["model.onnx", "deep/model.onnx"])
def test_a_bare_model_that_is_damaged_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(CaseError, match=rf"r\.zip/{name} is not an ONNX model"):
        load_all(pack(tmp_path / "r.zip", {name: b"\xff\xff"}), tmp_path)


def test_a_case_in_a_zip_is_found_again_without_it(tmp_path: Path) -> None:
    path = pack(tmp_path / "r.zip", sample(tmp_path / "c", "add/"))
    (case,) = load_all(path, tmp_path)
    path.unlink()
    assert cases.load_pinned(case.digest, case.name, tmp_path / "cache") == case
    assert onnx.load(case.model).graph.name == "identity"
