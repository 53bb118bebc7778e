"""The user's own Node.js, with which commits are built."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass

from bisect_bot.errors import MachineError, NpmError
from bisect_bot.processes import run

_ADVICE = "Install Node.js (nodejs.org), which brings npm, and open a new shell."


@dataclass(frozen=True, slots=True)
class Node:
    """Node.js and npm in the PATH. `version` is without the leading v."""

    executable: str
    npm: str
    version: str

    @classmethod
    def find(cls) -> Node:
        """Those in the PATH. Raises NpmError when one is missing or does not run."""
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            raise NpmError(f"{'node' if node is None else 'npm'} was not found.", _ADVICE)
        try:
            done = run([node, "--version"], timeout_s=60)
        except OSError as error:
            raise NpmError(f"{node} cannot be started: {error}", _ADVICE) from error
        found = re.match(r"v(\d+\.\d+\.\d+)", done.stdout)
        if done.status != 0 or found is None:
            raise NpmError(f"{node} does not tell its version.", _ADVICE)
        return cls(node, npm, found[1])

    @property
    def major(self) -> int:
        """The number by which releases of Node.js are called."""
        return int(self.version.partition(".")[0])

    def require(self, major: int) -> None:
        """Raises MachineError when this one is older than `major`."""
        if self.major < major:
            raise MachineError(
                f"Commits of this time need Node.js {major} or newer; {self.executable} is {self.version}.",
                "Install a newer one (nodejs.org) and open a new shell.",
            )
