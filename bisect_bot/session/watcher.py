"""What a session tells while it works: the seam to whatever shows it."""

from __future__ import annotations

from typing import Protocol

from bisect_bot.model import Adapter, Trial


class Watcher(Protocol):
    """Hears of every step. Nothing that it does changes what the session does."""

    def say(self, text: str) -> None:
        """A sentence for the user, about something that will not happen often."""

    def ask(self, question: str) -> bool:
        """A question to the person at the terminal; yes when there is nobody."""

    def doing(self, text: str) -> None:
        """What is being done now; replaces what was being done before."""

    def downloading(self, what: str, done: int, total: int | None) -> None:
        """Bytes fetched of `what` so far; `total` is None where it is not known."""

    def using(self, target: str, adapter: Adapter | None) -> None:
        """The browser, and the adapter it gives."""

    def tried(self, trial: Trial) -> None:
        """One more verdict, new or recalled."""


class Silent:
    """A watcher that shows nothing."""

    def say(self, text: str) -> None:
        """Shows nothing."""

    def ask(self, question: str) -> bool:
        """Says yes."""
        return True

    def doing(self, text: str) -> None:
        """Shows nothing."""

    def downloading(self, what: str, done: int, total: int | None) -> None:
        """Shows nothing."""

    def using(self, target: str, adapter: Adapter | None) -> None:
        """Shows nothing."""

    def tried(self, trial: Trial) -> None:
        """Shows nothing."""
