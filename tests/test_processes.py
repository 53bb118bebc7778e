"""Programs of others are limited in time, and their whole family ends with them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from bisect_bot import processes

FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_output_and_status_of_a_command_are_returned() -> None:
    done = processes.run([sys.executable, "-c", "print('out'); import sys; sys.exit(3)"], timeout_s=60)
    assert (done.status, done.stdout.strip()) == (3, "out")


def test_a_command_over_its_time_is_killed_with_its_children() -> None:
    begin = time.monotonic()
    done = processes.run([sys.executable, "-c", FAMILY], timeout_s=2)
    assert done.status is None
    assert time.monotonic() - begin < 30
    assert processes.started_at(int(done.stdout)) is None


def test_output_that_is_no_utf8_is_replaced_not_raised() -> None:
    done = processes.run([sys.executable, "-c", r"import os; os.write(1, b'a\xffb')"], timeout_s=60)
    assert done.stdout == "a�b"


def test_a_missing_program_raises_oserror(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        processes.run([str(tmp_path / "nothing")], timeout_s=5)


def test_killing_a_tree_ends_children_whose_leader_is_already_gone() -> None:
    leader = processes.start([sys.executable, "-c", FAMILY], output=subprocess.PIPE)
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    leader.kill()
    leader.wait()
    assert processes.started_at(child) is not None
    processes.kill_tree(leader.pid)
    deadline = time.monotonic() + 10
    while processes.started_at(child) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes.started_at(child) is None
