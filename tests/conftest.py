"""Skips what this machine cannot run, with a reason that the summary shows; in CI some of that is a failure."""

from __future__ import annotations

import os
import signal

import pytest

from bisect_bot import paths
from tests.command import shell, small_disk
from tests.limits import LIMITS, REQUIRED_IN_CI

__all__ = ["shell", "small_disk"]

RAN = pytest.StashKey[int]()


def in_ci() -> bool:
    """Whether this is a CI run, by the variable that CI services set."""
    return os.environ.get("CI") == "true"


def pytest_configure(config: pytest.Config) -> None:
    """Keeps the tests' packages and journals away from the user's own cache."""
    os.environ.setdefault("BISECT_BOT_CACHE", str(paths.cache_root() / "tests"))
    config.stash[RAN] = 0
    config.pluginmanager.register(Ran(config))
    # What a shell starts in the background ignores Ctrl-C, and so would all that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips `item`, or fails it, where a marker asks for something that this machine lacks."""
    for marker, why_not in LIMITS.items():
        if item.get_closest_marker(marker) is None:
            continue
        reason = why_not()
        if reason is None:
            continue
        if in_ci() and marker in REQUIRED_IN_CI:
            pytest.fail(f"CI has to bring this: {reason}", pytrace=False)
        pytest.skip(reason)


class Ran:
    """Counts the tests that came to run, wherever they did: in this process or in one of several."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hears of each step of each test."""
        if report.when == "call" and not report.skipped:
            self.config.stash[RAN] += 1


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a run in which every test was skipped is not a success."""
    if hasattr(session.config, "workerinput"):
        return  # one process of several: the one that started them decides
    nothing_ran = session.config.stash[RAN] == 0 and not session.config.option.collectonly
    if in_ci() and nothing_ran and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
