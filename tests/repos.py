"""Small real git repositories, made commit by commit."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

DAY = 86400
START = 1_700_006_400  # 2023-11-15


@dataclass
class Repo:
    """A repository made commit by commit, one a day."""

    path: Path
    days: int = 0
    git_env: dict[str, str] = field(default_factory=dict)

    def git(self, *words: str) -> str:
        """What `git <words>` prints, without the configuration of user and system."""
        env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull} | self.git_env
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(self.path), *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, title: str, files: dict[str, str | None]) -> str:
        """Writes (None: removes) files and commits all, a day after the one before; the new commit's id."""
        for name, text in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
                with contextlib.suppress(OSError):
                    path.parent.rmdir()
            else:
                path.write_text(text)
        self._next_day()
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", title)
        return self.git("rev-parse", "HEAD")

    def _next_day(self) -> None:
        self.days += 1
        # Authors' dates run backwards here: they must not matter.
        self.git_env = {
            "GIT_COMMITTER_DATE": f"{START + self.days * DAY} +0000",
            "GIT_AUTHOR_DATE": f"{START - self.days * DAY} +0000",
        }

    def merge(self, other: str, title: str) -> str:
        """Merges the branch `other` into the current one as a new commit, a day later; its id."""
        self._next_day()
        self.git("merge", "-q", "--no-ff", "-m", title, other)
        return self.git("rev-parse", "HEAD")


def day(number: int) -> dt.date:
    """The day of a repository's commit with this number (the first is 1)."""
    return dt.datetime.fromtimestamp(START + number * DAY, dt.UTC).date()


def make_repo(path: Path) -> Repo:
    """An empty repository with the branch main, in the new folder `path`."""
    path.mkdir(parents=True)
    made = Repo(path)
    made.git("init", "-q", "-b", "main")
    return made
