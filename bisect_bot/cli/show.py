"""What is seen of a running session: progress on stderr, so that stdout holds the answer alone."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from bisect_bot.cli.console import PatientConsole
from bisect_bot.model import Adapter, Outcome, Trial
from bisect_bot.reports.escaping import line, shorten
from bisect_bot.targets.provision import ask_at_terminal

# Without a terminal, where nothing moves, it is said after so many seconds of silence what is going on.
SILENCE_S = 30.0
COLOURS = {Outcome.GOOD: "green", Outcome.BAD: "red", Outcome.SKIP: "yellow", Outcome.INFRA: "magenta"}


class LiveView:
    """A `Watcher` that shows each verdict as a line, and below them what is being done.

    Without a terminal nothing moves: the verdicts and what is said are plain lines, and after `silence_s` seconds
    without any comes one that tells what is being done.
    """

    def __init__(self, console: Console | None = None, silence_s: float = SILENCE_S) -> None:
        self.console = console or PatientConsole(stderr=True, soft_wrap=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None)
        self._silence_s, self._spoke, self._doing = silence_s, time.monotonic(), ""
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._progress.start()
        if not self.console.is_terminal:
            threading.Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._progress.stop()

    def _break_silence(self) -> None:
        while not self._over.wait(self._silence_s / 3):
            if self._doing and time.monotonic() - self._spoke >= self._silence_s:
                self.say(f"… {self._doing}")

    def say(self, text: str) -> None:
        """Prints a sentence."""
        self._print(Text(line(text)))

    def _print(self, text: Text) -> None:
        self._spoke = time.monotonic()
        self.console.print(text)

    def ask(self, question: str) -> bool:
        """Asks with the moving line out of the way."""
        self._progress.stop()
        try:
            return ask_at_terminal(question)
        finally:
            self._progress.start()

    def doing(self, text: str) -> None:
        """Replaces the moving line."""
        self._doing = text
        self._progress.reset(self._task, description=shorten(line(text), max(20, self.console.width - 12)))

    def downloading(self, what: str, done: int, total: int | None) -> None:
        """Shows that a download goes on; without a terminal, says once that it begins."""
        if done == 0 and not self.console.is_terminal:
            self.say(f"downloading {what}")
        self.doing(f"downloading {what}" if total is None else f"unpacking {what} ({total / 1e6:.1f} MB)")

    def using(self, target: str, adapter: Adapter | None) -> None:
        """Prints which browser and adapter are used."""
        self.say(f"using {target}, adapter: {adapter or 'none'}")

    def tried(self, trial: Trial) -> None:
        """Prints a verdict."""
        verdict = trial.verdict
        words = Text(f"{verdict.outcome.value:<5}", style=COLOURS[verdict.outcome])
        known = "known" if trial.reused else "tested"
        again = f" {trial.attempt}" if trial.attempt > 1 else ""
        words.append(
            f" {line(trial.revision)}  {line(str(trial.cell))}  [{trial.purpose}{again}, {known}]", style="default"
        )
        if trial.cell.backend == "webgpu" and verdict.ran_on in ("cpu", "mixed"):
            words.append(f"  ran on: {verdict.ran_on}", style="yellow")
        if verdict.outcome is not Outcome.GOOD:
            words.append(f"  {shorten(line(verdict.reason), 160)}", style="dim")
        self._print(words)
