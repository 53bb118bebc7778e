"""`python3 -m tests [pytest's arguments]`: all tests that this machine allows, from a bare checkout."""

from __future__ import annotations

import sys

from bisect_bot import bootstrap


def main() -> int:
    """Prepares the environment where that is needed and runs pytest; returns its exit status."""
    bootstrap.ensure("tests", "dev")

    import pytest  # noqa: PLC0415 - may just have been installed

    from tests.browser_first import BrowserFirst  # noqa: PLC0415

    return pytest.main(sys.argv[1:], plugins=[BrowserFirst()])


if __name__ == "__main__":
    sys.exit(main())
