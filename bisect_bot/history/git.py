"""One way to ask git: reads only, and runs nothing of what the repository or the user has configured."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bisect_bot.errors import UsageError

_TIMEOUT_S = 300.0
_PIECE = 1 << 18
_SAFE = (
    "--no-pager",
    "--no-optional-locks",
    "--no-replace-objects",
    "-c", f"core.hooksPath={os.devnull}",
    "-c", "core.fsmonitor=false",
    "-c", "log.showSignature=false",
    "-c", "log.mailmap=false",
    "-c", "log.follow=false",
    "-c", "color.ui=false",
    # A partial clone would fetch what it lacks in the middle of a read. Older gits do not heed the variable below.
    "-c", "protocol.allow=never",
)  # fmt: skip
_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ATTR_NOSYSTEM": "1", "LC_ALL": "C"}


# Variables that make git read from elsewhere than the named folder, and what they are where nobody set them: whoever
# starts us from a hook has them.
_PATHSPECS = ("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS")


@dataclass(frozen=True, slots=True)
class Git:
    """The git repository at `repo` (bare or not)."""

    repo: Path

    @property
    def git_dir(self) -> Path:
        """The `.git` of the repository (a file in a linked worktree), or the folder itself when it is bare."""
        # Named outright: neither a GIT_DIR of the environment nor a repository further up is meant.
        dot_git = self.repo / ".git"
        return (dot_git if dot_git.exists() else self.repo).absolute()

    def read(self, *arguments: str, may_fail: bool = False) -> str:
        """What `git <arguments>` prints; what is no UTF-8 is replaced. With `may_fail`, "" when it fails.

        Raises UsageError, with git's own words, when git is missing, fails or takes minutes.
        """
        return self.read_bytes(*arguments, may_fail=may_fail).decode("utf-8", "replace")

    def read_bytes(self, *arguments: str, may_fail: bool = False) -> bytes:
        """The bytes that `git <arguments>` prints, else as `read`."""
        status, out, err = self._execute(
            arguments,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
            kill_after_timeout=None if sys.platform == "win32" else _TIMEOUT_S,
        )
        if status == 0:
            return bytes(out)
        if may_fail:
            return b""
        raise self._failure(
            arguments[0], status, err if isinstance(err, str) else bytes(err).decode("utf-8", "replace")
        )

    def stream(self, *arguments: str) -> Iterator[bytes]:
        """The bytes that `git <arguments>` prints, piece by piece while it runs. Raises UsageError as `read`."""
        with self._running(arguments) as (process, said):
            while piece := process.stdout.read(_PIECE):
                yield piece
            if process.wait():
                raise self._failure(arguments[0], process.returncode, said.result().decode("utf-8", "replace"))

    def blobs(self, oids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The contents of the blobs `oids` in that order, by one process; ends before the first that is not there.

        Raises UsageError as `read`.
        """
        if not oids:
            return
        # From a file: who writes to a process and reads from it at the same time can wait for ever.
        with tempfile.TemporaryFile() as wanted:
            wanted.write("".join(f"{oid}\n" for oid in oids).encode())
            wanted.seek(0)
            with self._running(["cat-file", "--batch"], istream=wanted) as (process, _):
                yield from zip(oids, _contents(process.stdout), strict=False)

    @contextlib.contextmanager
    def _running(self, arguments: Sequence[str], **how: Any) -> Iterator[tuple[Any, Future[bytes]]]:
        """The process (a Popen) of `git <arguments>` and what it says on stderr; killed when left, or after minutes."""
        with ThreadPoolExecutor(1) as aside:
            held = self._execute(arguments, as_process=True, **how)
            process = held.proc
            watchdog = threading.Timer(_TIMEOUT_S, process.kill)
            watchdog.start()
            said = aside.submit(process.stderr.read)
            try:
                yield process, said
            finally:
                watchdog.cancel()
                # Whoever leaves early has seen enough.
                process.kill()
                process.wait()
                process.stdout.close()

    def _failure(self, command: str, status: int, said: str) -> UsageError:
        words = "".join(c for c in said.strip().splitlines()[-1] if c.isprintable()) if said.strip() else ""
        return UsageError(
            f"git {command} failed in {self.repo}: {words or f'status {status}'}",
            "Name a complete clone of onnxruntime with --repo.",
        )

    def _execute(self, arguments: Sequence[str], **how: Any) -> Any:
        """What GitPython's `execute` gives for `git <arguments>`. Raises UsageError without git or repository."""
        try:
            # Imported here because GitPython refuses to be imported where there is no git.
            import git  # noqa: PLC0415
        except ImportError as error:
            raise UsageError("git was not found.", "Install git, or leave out --repo.") from error
        if not self.repo.is_dir():
            raise UsageError(f"{self.repo} is no folder.", "Name a clone of onnxruntime with --repo.")
        program = git.Git.GIT_PYTHON_GIT_EXECUTABLE or "git"
        command = [program, f"--git-dir={self.git_dir}", *_SAFE, *arguments]
        return git.Git(str(self.repo)).execute(command, env=_ENVIRONMENT | self._undone(), **how)

    def _undone(self) -> dict[str, str]:
        """What to say for those variables of the environment that would make git read another repository."""
        common = _common_dir(self.git_dir)
        usual = {
            "GIT_COMMON_DIR": str(common),
            "GIT_OBJECT_DIRECTORY": str(common / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
            "GIT_SHALLOW_FILE": str(common / "shallow"),
            "GIT_GRAFT_FILE": os.devnull,
            **dict.fromkeys(_PATHSPECS, "0"),
        }
        return {name: value for name, value in usual.items() if name in os.environ}


def _contents(stream: IO[bytes]) -> Iterator[bytes]:
    """The contents in what `git cat-file --batch` prints, up to its end or the first object that is missing."""
    while True:
        head = stream.readline().split()
        if len(head) != 3:
            return
        content = stream.read(int(head[2]) + 1)
        if len(content) != int(head[2]) + 1:
            return
        yield content[:-1]


def _common_dir(git_dir: Path) -> Path:
    """Where the objects and refs of the repository at `git_dir` are: elsewhere for a linked worktree."""
    own = git_dir
    if own.is_file():
        own = own.parent / own.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    try:
        return own / (own / "commondir").read_text(encoding="utf-8").strip()
    except OSError:
        return own
