"""One way to ask git: reads only, and runs nothing of what the repository or the user has configured."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from bisect_bot.errors import UsageError

_TIMEOUT_S = 300.0
_SAFE = (
    "--no-pager",
    "--no-optional-locks",
    "--no-replace-objects",
    "-c", f"core.hooksPath={os.devnull}",
    "-c", "core.fsmonitor=false",
    "-c", "log.showSignature=false",
    "-c", "log.mailmap=false",
    "-c", "color.ui=false",
    # A partial clone would fetch what it lacks in the middle of a read. Older gits do not heed the variable below.
    "-c", "protocol.allow=never",
)  # fmt: skip
_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ATTR_NOSYSTEM": "1", "LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class Git:
    """The git repository at `repo` (bare or not)."""

    repo: Path

    def read(self, *arguments: str, may_fail: bool = False) -> str:
        """What `git <arguments>` prints; what is no UTF-8 is replaced. With `may_fail`, "" when it fails.

        Raises UsageError, with git's own words, when git is missing, fails or takes minutes.
        """
        return self.read_bytes(*arguments, may_fail=may_fail).decode("utf-8", "replace")

    def read_bytes(self, *arguments: str, may_fail: bool = False) -> bytes:
        """The bytes that `git <arguments>` prints, else as `read`."""
        try:
            # Imported here because GitPython refuses to be imported where there is no git.
            import git  # noqa: PLC0415
        except ImportError as error:
            raise UsageError("git was not found.", "Install git, or leave out --repo.") from error
        if not self.repo.is_dir():
            raise UsageError(f"{self.repo} is no folder.", "Name a clone of onnxruntime with --repo.")
        # Named outright: neither a GIT_DIR of the environment nor a repository further up is meant.
        dot_git = self.repo / ".git"
        where = f"--git-dir={(dot_git if dot_git.exists() else self.repo).absolute()}"
        status, out, err = git.Git(str(self.repo)).execute(
            [git.Git.GIT_PYTHON_GIT_EXECUTABLE or "git", where, *_SAFE, *arguments],
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
            env=_ENVIRONMENT,
            kill_after_timeout=None if sys.platform == "win32" else _TIMEOUT_S,
        )
        if status == 0:
            return bytes(out)
        if may_fail:
            return b""
        said = err if isinstance(err, str) else bytes(err).decode("utf-8", "replace")
        words = "".join(c for c in said.strip().splitlines()[-1] if c.isprintable()) if said.strip() else ""
        raise UsageError(
            f"git {arguments[0]} failed in {self.repo}: {words or f'status {status}'}",
            "Name a complete clone of onnxruntime with --repo.",
        )
