"""Folders and processes of a dead owner are swept; those of a living one, or of somebody else, are not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bisect_bot import processes
from bisect_bot.scratch import OWNER_FILE, PREFIX, scratch, sweep

OWNER = """
import subprocess, sys, time
from pathlib import Path
from bisect_bot import processes
from bisect_bot.scratch import scratch
with scratch(Path(sys.argv[1])) as folder:
    child = processes.start([sys.executable, "-c", "import time; time.sleep(600)"])
    folder.adopt(child.pid)
    (folder.path / "big").write_text("left behind")
    print(folder.path, child.pid, flush=True)
    time.sleep(600)
"""


def test_a_folder_and_its_processes_end_with_the_block(tmp_path: Path) -> None:
    with scratch(tmp_path) as folder:
        child = processes.start([sys.executable, "-c", "import time; time.sleep(600)"])
        folder.adopt(child.pid)
        assert folder.path.is_dir()
    assert list(tmp_path.iterdir()) == []
    assert processes.started_at(child.pid) is None


def test_what_a_killed_owner_left_is_swept_and_its_processes_end(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    path, child = owner.stdout.readline().split()
    assert sweep(tmp_path) == 0, "the owner lives"
    owner.kill()
    owner.wait()
    assert processes.started_at(int(child)) is not None
    assert sweep(tmp_path) == 1
    assert not Path(path).exists()
    assert processes.started_at(int(child)) is None


def test_a_folder_whose_removal_was_cut_short_still_names_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(path: Path, **_how: bool) -> None:
        (path / OWNER_FILE).unlink(missing_ok=True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), scratch(tmp_path) as folder:
        (folder.path / "files").mkdir()
        monkeypatch.setattr(shutil, "rmtree", cut_short)
    assert (folder.path / OWNER_FILE).is_file(), "else nobody would ever sweep the rest"


def test_a_process_that_took_over_a_dead_ones_number_is_not_killed(tmp_path: Path) -> None:
    bystander = processes.start([sys.executable, "-c", "import time; time.sleep(600)"])
    folder = tmp_path / f"{PREFIX}old"
    folder.mkdir()
    started = processes.started_at(bystander.pid)
    assert started is not None
    owner = {"pid": bystander.pid, "started": started - 1000, "processes": [[bystander.pid, started - 1000]]}
    (folder / OWNER_FILE).write_text(json.dumps(owner))
    try:
        assert sweep(tmp_path) == 1
        assert bystander.poll() is None
    finally:
        processes.kill_tree(bystander.pid)
        bystander.wait()


def test_a_folder_without_an_owner_is_swept_only_when_it_is_old_and_empty(tmp_path: Path) -> None:
    empty, somebodys = tmp_path / f"{PREFIX}empty", tmp_path / f"{PREFIX}reports"
    for folder in (empty, somebodys):
        folder.mkdir()
    (somebodys / "report.md").write_text("keep me")
    assert sweep(tmp_path) == 0
    yesterday = time.time() - 90000
    for folder in (empty, somebodys):
        os.utime(folder, (yesterday, yesterday))
    assert sweep(tmp_path) == 1
    assert [p.name for p in tmp_path.iterdir()] == [somebodys.name]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_planted_by_another_user_kills_nothing(tmp_path: Path) -> None:
    victim = processes.start([sys.executable, "-c", "import time; time.sleep(600)"])
    folder = tmp_path / f"{PREFIX}planted"
    folder.mkdir()
    owner = {"pid": 2**22 + 1, "started": 1.0, "processes": [[victim.pid, processes.started_at(victim.pid)]]}
    (folder / OWNER_FILE).write_text(json.dumps(owner))
    os.chown(folder, 12345, 12345)
    try:
        assert sweep(tmp_path) == 0
        assert victim.poll() is None
    finally:
        processes.kill_tree(victim.pid)
        victim.wait()
