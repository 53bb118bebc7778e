"""A pytest plugin that gets a browser before the first test, when one of the chosen tests needs it.

Active under `python3 -m tests` only: a bare `pytest` changes nothing on the machine.
"""

from __future__ import annotations

import sys

import pytest
from filelock import FileLock

from bisect_bot import paths
from bisect_bot.errors import NoBrowser
from bisect_bot.targets.provision import find_or_get_browser


def pytest_collection_finish(session: pytest.Session) -> None:
    """Gets a browser if need be; where that fails, the tests that need one say so."""
    wanted = any(item.get_closest_marker("browser") for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    cache = paths.cache_root()
    cache.mkdir(parents=True, exist_ok=True)
    try:
        # Each process of a run that is spread over several comes by here: the first one gets it for all.
        with capture.global_and_fixture_disabled(), FileLock(cache / "browser-first.lock"):
            find_or_get_browser("chrome")
    except NoBrowser as error:
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"{error}\n{error.advice}\n")
