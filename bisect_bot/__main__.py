"""`python3 -m bisect_bot`: the same as `bisect-bot`, also from a checkout with nothing installed."""

from __future__ import annotations

import sys
import traceback

from bisect_bot import bootstrap
from bisect_bot.errors import CheckExit, Exit


def main() -> int:
    """Prepares the environment where that is needed and runs the command line; returns its exit status."""
    bootstrap.ensure("bisect_bot")
    is_check = bootstrap.is_check(sys.argv[1:])
    try:
        from bisect_bot.cli import main as command_line  # noqa: PLC0415 - what it imports may just have been installed
    except KeyboardInterrupt:
        bootstrap.say("interrupted")
        return CheckExit.INTERRUPTED if is_check else Exit.STOPPED
    except Exception:
        # Python's own status for this, 1, would tell `git bisect run` that the revision is bad.
        traceback.print_exc()
        return CheckExit.BUG if is_check else Exit.BUG
    return command_line() or 0


if __name__ == "__main__":
    sys.exit(main())
