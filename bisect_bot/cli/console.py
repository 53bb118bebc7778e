"""The terminals that commands write to: whoever reads may leave early, as `head` does."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from rich.console import Console


class PatientConsole(Console):
    """A rich console for which a closed pipe is no reason to stop: the work goes on, and its exit status stands."""

    def __init__(self, *, stderr: bool = False, **rest: Any) -> None:
        super().__init__(stderr=stderr, highlight=False, **rest)

    def on_broken_pipe(self) -> None:
        """Lets everything that is still written go nowhere, instead of leaving with the status 1."""
        discard(sys.stderr if self.stderr else sys.stdout)


def discard(stream: TextIO) -> None:
    """Points `stream` at nothing: what is written to it from now on, and when Python ends, is lost without an error."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def print_patiently(text: str) -> None:
    """Prints `text` on stdout; does nothing when nobody reads any longer."""
    try:
        print(text, flush=True)  # noqa: T201
    except BrokenPipeError:
        discard(sys.stdout)
