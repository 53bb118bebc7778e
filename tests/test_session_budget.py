"""What a session may cost: durations as they are typed, and when a limit stops it."""

from __future__ import annotations

import time

import pytest

from bisect_bot.errors import Exit, OutOfBudget, UsageError
from bisect_bot.session.budget import Budget, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("45s", 45), ("30m", 1800), ("1.5 min", 90), ("8h", 28800), ("2D", 172800)]
)
def test_a_duration_is_read_as_it_is_typed(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0h", "-1h", "8 hours", "h", "1e3", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no duration"):
        seconds_of(text)


def test_a_limit_stops_before_it_is_passed_and_says_what_would_come_next() -> None:
    tally = {"builds": 3, "probes": 7}
    Budget(builds=4, probes=8).check(tally, "search of abc", builds=True)
    Budget(builds=3).check(tally, "search of abc", builds=False)  # what is built already costs no build
    with pytest.raises(OutOfBudget, match="3 builds is used up; next would be search of abc") as caught:
        Budget(builds=3).check(tally, "search of abc", builds=True)
    assert caught.value.exit_status is Exit.STOPPED
    with pytest.raises(OutOfBudget, match="7 probes"):
        Budget(probes=7).check(tally, "x", builds=False)


def test_time_is_counted_from_the_beginning() -> None:
    Budget(seconds=3600).check({}, "x", builds=True)
    with pytest.raises(OutOfBudget, match="10 s"):
        Budget(seconds=10, began=time.monotonic() - 10).check({}, "x", builds=False)


def test_without_limits_nothing_stops() -> None:
    Budget(began=0.0).check({"builds": 10**6, "probes": 10**6}, "x", builds=True)
