"""`python3 -m tests [pytest's arguments]`: all tests that this machine allows, from a bare checkout."""

from __future__ import annotations

import sys

from bisect_bot import bootstrap

# Over the cores, a file staying whole for what its tests share; more than four browsers at once starve each other.
# Arguments of the user's come after these, so `-n 0` is one process.
SPREAD = ("-n", "logical", "--maxprocesses", "4", "--dist", "loadfile")


def main() -> int:
    """Prepares the environment where that is needed and runs pytest; returns its exit status."""
    bootstrap.ensure("tests", "dev")

    import pytest  # noqa: PLC0415 - may just have been installed

    return pytest.main([*SPREAD, "-p", "tests.browser_first", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
