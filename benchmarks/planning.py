"""What it costs to plan thousands of commits: seconds, git processes, and how few different inputs there are.

    python -m benchmarks.planning --repo CLONE [--commits 10000]

Goals: 10,000 commits in less than 2 s, by at most 3 git processes. The newest commits of main are planned with the
inputs of configs/recipes.toml, five times; processes are counted by git's own trace of a further one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bisect_bot.builds.recipes import load
from bisect_bot.history.commits import Inputs, plan
from bisect_bot.history.git import Git
from bisect_bot.history.mainline import read_main_line
from bisect_bot.model import Commit

TIMES = 5
TRACE = "GIT_TRACE2_EVENT"


def main() -> None:
    """Measures, and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--commits", type=int, default=10_000)
    options = parser.parse_args()
    git, inputs = Git(options.repo), load().history_inputs()
    line = read_main_line(git)
    if line is None:
        parser.error(f"{options.repo} has no main")
    old, new = line.commits[-options.commits :][0], line.commits[-1]
    seconds = [timed(git, old, new, inputs) for _ in range(TIMES)]
    commits, processes = traced(git, old, new, inputs)
    table = Table("planned", "value", "goal")
    table.add_row("commits", str(len(commits)), "")
    table.add_row("seconds, least of five", f"{min(seconds):.2f}", "")
    table.add_row("seconds, median of five", f"{median(seconds):.2f}", "< 2 for 10,000 commits")
    table.add_row("git processes", str(processes), "≤ 3")
    for name, _ in inputs.groups:
        table.add_row(f"different {name} keys", str(len({commit.key(name) for commit in commits})), "")
    Console().print(table)


def timed(git: Git, old: str, new: str, inputs: Inputs) -> float:
    """Seconds that one plan takes."""
    begin = time.perf_counter()
    plan(git, old, new, inputs)
    return time.perf_counter() - begin


def traced(git: Git, old: str, new: str, inputs: Inputs) -> tuple[tuple[Commit, ...], int]:
    """The planned commits, and how many git processes ran for them, each of which writes a trace of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[TRACE] = folder
        try:
            commits = plan(git, old, new, inputs)
        finally:
            del os.environ[TRACE]
        return commits, len(list(Path(folder).iterdir()))


if __name__ == "__main__":
    main()
