"""What a session shows where nothing can move: a log file, a pipe, cron."""

from __future__ import annotations

import io
import time

from rich.console import Console

from bisect_bot.cli.show import LiveView


def lines_of(written: io.StringIO, wanted: int) -> list[str]:
    """What was written, as soon as it is `wanted` lines, or after ten seconds."""
    end = time.monotonic() + 10
    while len(written.getvalue().splitlines()) < wanted and time.monotonic() < end:
        time.sleep(0.01)
    return written.getvalue().splitlines()


def test_long_work_is_named_again_and_again_without_a_terminal() -> None:
    written = io.StringIO()
    with LiveView(Console(file=written), silence_s=0.03) as view:
        view.doing("installing npm packages")
        assert lines_of(written, 2)[:2] == ["… installing npm packages"] * 2
    before = written.getvalue()
    time.sleep(0.1)
    assert written.getvalue() == before, "it ends with the session"


def test_what_says_enough_by_itself_is_not_told_in_between() -> None:
    written = io.StringIO()
    with LiveView(Console(file=written), silence_s=30) as view:
        view.doing("installing npm packages")
        view.say("a sentence")
    assert written.getvalue().splitlines() == ["a sentence"]
