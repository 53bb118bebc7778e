"""What a script that stands for a browser is made of: its text decides which browser runs, and how.

Debian's `chromium` is such a script, and so is what a user writes to start a browser with other flags or libraries.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

_LARGEST = 256 * 2**10  # bytes of a script that are read; a browser's executable is no script
_MOST = 20  # files that are followed from script to script
_SUFFIXES = (".cmd", ".bat")
# Absolute paths, and what a shell is told to turn into.
_PATH = re.compile(r"(?<![\w.$}])(?:/|[A-Za-z]:\\)[^\s\"'`$;|&<>()*?]+")
_EXEC = re.compile(r"\bexec\s+[\"']?([\w.+-]+)")


def is_script(path: Path) -> bool:
    """Whether the file at `path` is a text that a shell reads."""
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!" or path.suffix.lower() in _SUFFIXES
    except OSError:
        return False


def scripts(executable: Path) -> tuple[str, ...]:
    """The scripts that starting `executable` goes through, each as `name sha256:…`; none for a program itself."""
    return tuple(
        f"{path.name} sha256:{hashlib.sha256(_bytes(path)).hexdigest()}"
        for path in started(executable)
        if is_script(path)
    )


def started(executable: Path) -> tuple[Path, ...]:
    """The real file of `executable`, and of a script the executables that it names, and so on; each once.

    What a script puts together from variables is not found.
    """
    found: dict[Path, None] = {}
    waiting = [executable]
    while waiting and len(found) < _MOST:
        try:
            path = waiting.pop(0).resolve(strict=True)
        except OSError:
            continue
        if path in found or not path.is_file():
            continue
        found[path] = None
        if is_script(path):
            waiting += _named(_bytes(path).decode("utf-8", "replace"))
    return tuple(found)


def _named(text: str) -> list[Path]:
    """The executable files that a script names, its interpreter left out."""
    body = text.partition("\n")[2] if text.startswith("#!") else text
    on_path = (shutil.which(name) for name in _EXEC.findall(body))
    named = [*map(Path, _PATH.findall(body)), *(Path(found) for found in on_path if found)]
    return [path for path in named if path.is_file() and os.access(path, os.X_OK)]


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""
