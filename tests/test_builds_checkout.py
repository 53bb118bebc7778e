"""A folder of a commit's files holds these, whatever was there before."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from bisect_bot.builds.checkout import Fetch, Folder, State, borrow
from bisect_bot.errors import BuildUnusable


def listing(files: dict[str, str], modes: dict[str, str] | None = None) -> tuple[dict[str, tuple[str, str]], Fetch]:
    """What a commit with `files` has, and what gives their contents."""
    oids = {path: hashlib.sha1(text.encode()).hexdigest() for path, text in files.items()}
    contents = {oids[path]: text.encode() for path, text in files.items()}
    wanted = {path: ((modes or {}).get(path, "100644"), oid) for path, oid in oids.items()}
    return wanted, lambda asked: {oid: contents[oid] for oid in asked}


def texts(folder: Folder) -> dict[str, str]:
    """All files below the root."""
    found = (path for path in folder.root.rglob("*") if path.is_file())
    return {path.relative_to(folder.root).as_posix(): path.read_text() for path in found}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "0/src").mkdir(parents=True)
    return Folder(tmp_path / "0", State())


def test_only_what_differs_is_asked_for_and_written(folder: Folder) -> None:
    assert folder.write(*listing({"a/one.ts": "1", "a/two.ts": "2", "b": "3"})) == 3
    wanted, fetch = listing({"a/one.ts": "1", "a/two.ts": "changed", "c": "4"})
    asked: list[list[str]] = []

    def watched(oids: list[str]) -> Mapping[str, bytes]:
        asked.append(oids)
        return fetch(oids)

    assert folder.write(wanted, watched) == 2
    assert [len(oids) for oids in asked] == [2]
    assert texts(folder) == {"a/one.ts": "1", "a/two.ts": "changed", "c": "4"}


def test_a_folder_becomes_a_file_and_back(folder: Folder) -> None:
    for files in ({"a/b/c": "1"}, {"a": "2"}, {"a/b/c": "1"}):
        folder.write(*listing(files))
        assert texts(folder) == files


def test_what_was_put_over_a_file_is_taken_back_even_where_time_and_size_hide_it(folder: Folder) -> None:
    wanted, fetch = listing({"a.ts": "right"})
    folder.write(wanted, fetch)
    then = (folder.root / "a.ts").stat()
    folder.overlay({"a.ts": b"wrong", "new/b.ts": b"more"})
    os.utime(folder.root / "a.ts", ns=(then.st_atime_ns, then.st_mtime_ns))
    assert texts(folder) == {"a.ts": "wrong", "new/b.ts": "more"}
    folder.write(wanted, fetch)
    assert texts(folder) == {"a.ts": "right"}


def test_what_a_compiler_left_beside_a_source_goes_with_it(folder: Folder) -> None:
    folder.write(*listing({"a.ts": "1", "b.ts": "2"}))
    folder.step("compile", "digest", lambda: (folder.root / "a.js").write_text("js"), folder.path / "kept")
    folder.write(*listing({"b.ts": "2"}))
    assert texts(folder) == {"b.ts": "2"}


def test_a_step_runs_once_for_the_same_inputs_in_any_folder(folder: Folder, tmp_path: Path) -> None:
    runs: list[str] = []

    def made(text: str) -> None:
        runs.append(text)
        (folder.root / "out.js").write_text(text)

    kept = tmp_path / "steps"
    assert folder.step("compile", "one", lambda: made("1"), kept) is True
    assert folder.step("compile", "one", lambda: made("never"), kept) is False
    assert folder.step("compile", "two", lambda: made("2"), kept) is True
    assert folder.step("compile", "one", lambda: made("never"), kept) is False
    assert (texts(folder), runs) == ({"out.js": "1"}, ["1", "2"])
    (folder.root / "out.js").unlink()
    assert folder.step("compile", "one", lambda: made("never"), kept) is False
    assert texts(folder) == {"out.js": "1"}


def test_a_failed_step_is_not_taken_for_done(folder: Folder, tmp_path: Path) -> None:
    def fail() -> None:
        (folder.root / "half.js").write_text("half")
        raise BuildUnusable("it fails")

    with pytest.raises(BuildUnusable):
        folder.step("compile", "one", fail, tmp_path / "steps")
    folder.write(*listing({"a.ts": "1"}))
    assert texts(folder) == {"a.ts": "1"}
    assert folder.step("compile", "one", lambda: None, tmp_path / "steps") is True


def test_modes_are_kept_and_submodules_passed_over(folder: Folder) -> None:
    modes = {"run.sh": "100755", "link": "120000", "module": "160000"}
    folder.write(*listing({"run.sh": "#!", "link": "run.sh", "module": "?"}, modes))
    assert os.access(folder.root / "run.sh", os.X_OK)
    assert (folder.root / "link").readlink() == Path("run.sh")
    assert not (folder.root / "module").exists()


@pytest.mark.parametrize("path", ["../up", "a/../../up", "/etc/x", ".git/hooks/post-checkout", "c:\\x", "a//b"])
def test_a_path_that_leads_elsewhere_is_refused(folder: Folder, path: str) -> None:
    with pytest.raises(BuildUnusable, match="is not written anywhere"):
        folder.write(*listing({path: "1"}))
    assert texts(folder) == {}


def test_the_folder_that_holds_the_packages_is_borrowed_first(tmp_path: Path) -> None:
    for modules in ("one", "two"):
        with borrow(tmp_path, modules) as folder:
            folder.state.modules = modules
            folder.save()
    for modules in ("two", "one"):
        with borrow(tmp_path, modules) as folder:
            assert folder.state.modules == modules
