"""Pinned cases: found again, complete or absent."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from bisect_bot import cases
from bisect_bot.cases.pin import pin
from bisect_bot.errors import CaseError, DiskFull, MachineError
from tests.test_cases_samples import identity_folder, load


@pytest.mark.parametrize("text", ["builtin:smoke", "builtin:demo"])
def test_a_pinned_case_is_the_same_after_it_is_loaded_again(tmp_path: Path, text: str) -> None:
    case = load(text, tmp_path)
    assert cases.load_pinned(case.digest, case.name, tmp_path) == case


def test_a_pinned_case_outlives_the_users_files(tmp_path: Path) -> None:
    folder = identity_folder(tmp_path / "case")
    case = load(folder, tmp_path / "cache")
    shutil.rmtree(folder)
    again = cases.load_pinned(case.digest, "case", tmp_path / "cache")
    assert again == case
    assert again.model.is_file()


def test_files_that_do_not_belong_to_the_case_are_not_pinned(tmp_path: Path) -> None:
    folder = identity_folder(tmp_path / "case")
    (folder / "holiday.jpg").write_bytes(b"x" * 100)
    (folder / "test_data_set_0" / "notes.txt").write_text("notes")
    home = load(folder, tmp_path / "cache").model.parent
    files = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert files == {"case.json", "model.onnx", "test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb"}


def test_a_case_that_is_pinned_already_is_not_written_again(tmp_path: Path) -> None:
    folder = identity_folder(tmp_path / "case")
    before = load(folder, tmp_path / "cache").model.stat()
    after = load(folder, tmp_path / "cache").model.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_digest_follows_the_content_and_not_the_name(tmp_path: Path) -> None:
    one, two, three = (load(identity_folder(tmp_path / name), tmp_path / "cache") for name in ("one", "two", "three"))
    assert one.digest == two.digest == three.digest
    output = tmp_path / "two" / "test_data_set_0" / "output_0.pb"
    output.write_bytes(output.read_bytes()[:-1] + b"\x41")
    assert load(tmp_path / "two", tmp_path / "cache").digest != one.digest


def test_a_pinned_case_that_was_changed_is_refused_and_pinning_again_repairs_it(tmp_path: Path) -> None:
    folder = identity_folder(tmp_path / "case")
    case = load(folder, tmp_path / "cache")
    case.model.write_bytes(b"broken")
    with pytest.raises(CaseError, match="was changed"):
        cases.load_pinned(case.digest, "case", tmp_path / "cache")
    load(folder, tmp_path / "cache")
    assert cases.load_pinned(case.digest, "case", tmp_path / "cache") == case


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc", ""])
def test_a_digest_that_is_not_there_is_refused(tmp_path: Path, digest: str) -> None:
    (tmp_path / "cases").mkdir()
    with pytest.raises(CaseError, match="no longer in the cache"):
        cases.load_pinned(digest, "case", tmp_path)


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    def fill(folder: Path) -> str:
        (folder / "model.onnx").write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DiskFull, match="no space is left under"):
        pin(fill, name="n", label="n", root=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_interrupted_pinning_leaves_no_case(tmp_path: Path) -> None:
    def fill(folder: Path) -> str:
        (folder / "model.onnx").write_bytes(b"half of it")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pin(fill, name="n", label="n", root=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_cache_that_cannot_be_written_is_an_error_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the cache should be")
    with pytest.raises(MachineError, match="cases cannot be kept under"):
        load("builtin:smoke", tmp_path / "cache")
