"""The command line: words typed become calls; errors become one line and an exit status."""

from bisect_bot.cli.app import main

__all__ = ["main"]
