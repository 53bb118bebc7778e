"""The report's files: all there, each whole, and a full disk named as such."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bisect_bot.errors import DiskFull, UsageError
from bisect_bot.reports.files import write
from bisect_bot.reports.html_report import to_html
from bisect_bot.reports.json_report import dumps
from bisect_bot.reports.markdown import to_markdown
from tests.test_reports_samples import found_regression, hostile, same

FULL = Path("/dev/full")


def test_all_files_are_written_into_a_folder_that_is_made_for_them(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "er"
    paths = write(found_regression(), out)
    assert paths == (out / "report.json", out / "report.md", out / "report.html")
    assert paths[0].read_text(encoding="utf-8") == dumps(found_regression())
    assert paths[1].read_text(encoding="utf-8") == to_markdown(found_regression())
    assert paths[2].read_text(encoding="utf-8") == to_html(found_regression())
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "report.json", "report.md"]


def test_a_second_report_takes_the_place_of_the_first(tmp_path: Path) -> None:
    write(found_regression(), tmp_path)
    write(same(), tmp_path)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["result"] == "same"


def test_text_that_utf8_cannot_hold_is_written_all_the_same(tmp_path: Path) -> None:
    for path in write(hostile(), tmp_path):
        assert path.read_bytes().decode("utf-8")


def test_a_reader_that_holds_the_old_file_keeps_the_whole_of_it(tmp_path: Path) -> None:
    write(found_regression(), tmp_path)
    with (tmp_path / "report.json").open(encoding="utf-8") as old:
        write(same(), tmp_path)
        assert json.load(old)["result"] == "found"


def test_a_folder_that_cannot_be_made_is_the_fault_of_what_was_typed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here first")
    with pytest.raises(UsageError, match="cannot be written") as caught:
        write(found_regression(), tmp_path / "file")
    assert "bisect-bot report 20261130-101500-averagepool" in caught.value.advice


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_and_leaves_the_old_report_alone(tmp_path: Path) -> None:
    write(found_regression(), tmp_path)
    # The temporary name leads to a device that takes nothing, as a full disk does.
    (tmp_path / f".report.json.{os.getpid()}").symlink_to(FULL)
    with pytest.raises(DiskFull, match="no space is left") as caught:
        write(same(), tmp_path)
    assert "make room" in caught.value.advice
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["result"] == "found"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json", "report.md"]
