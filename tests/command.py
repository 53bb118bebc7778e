"""Runs the command line as a user does: in a process of its own, with a cache of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bisect_bot import paths

SHARED = ("artifacts", "keys")


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Shell:
    """A folder to work in and a cache with a fresh journal, which shares the downloaded builds of the test run."""

    folder: Path
    cache: Path

    def environment(self, **changes: str) -> dict[str, str]:
        """The environment of a command."""
        return {**os.environ, "BISECT_BOT_CACHE": str(self.cache), "COLUMNS": "200", **changes}

    def run(self, *words: str, **changes: str) -> Done:
        """Runs `bisect-bot` with `words` to its end."""
        done = subprocess.run(
            self.argv(words),
            cwd=self.folder,
            env=self.environment(**changes),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=900,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str, **changes: str) -> subprocess.Popen[str]:
        """Starts `bisect-bot` with `words`; its stderr can be read."""
        return subprocess.Popen(
            self.argv(words),
            cwd=self.folder,
            env=self.environment(**changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    @staticmethod
    def argv(words: Sequence[str]) -> list[str]:
        """The command line of `bisect-bot` with `words`."""
        return [sys.executable, "-m", "bisect_bot", *words]

    def report(self, name: str = "report") -> Mapping[str, Any]:
        """The report.json in the folder `name`."""
        loaded: Mapping[str, Any] = json.loads((self.folder / name / "report.json").read_text(encoding="utf-8"))
        return loaded


def make_shell(tmp_path: Path) -> Shell:
    """A shell over `tmp_path`."""
    shared = paths.cache_root()
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in SHARED:
        (shared / name).mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(shared / name, target_is_directory=True)
    work = tmp_path / "work"
    work.mkdir()
    return Shell(work, cache)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell of this test's own."""
    return make_shell(tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB: room for a journal, not for a build."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system needs the right to mount: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
