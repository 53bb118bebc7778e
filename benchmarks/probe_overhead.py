"""What a probe costs beside the work itself: start-up, and wall time over time spent inside the page.

    python benchmarks/probe_overhead.py [--cases 300] [--version 1.21.0]

Goals on a quiet machine: start-up within 2.5 s; wall time of 300 small cases at most 1.3 times the time inside the
page. `steady` is that ratio without start-up and ending, which small cases on wasm are too fast to outweigh. Needs npm
(once) and a browser.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bisect_bot import paths
from bisect_bot.builds import bundle_for, fetch
from bisect_bot.cases import smoke
from bisect_bot.model import Ending, Observation
from bisect_bot.probes import Limits, Probe, choose_target, plain_target, run_probe
from bisect_bot.targets.browsers import load_config, locate


def main() -> None:
    """Measures each backend and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--version", default="1.21.0")
    options = parser.parse_args()
    table = Table("backend", "cases", "wall s", "in page s", "ratio", "steady", "start-up s", "ending s")
    for backend in ("wasm", "webgpu"):
        table.add_row(backend, *measure(backend, options.cases, options.version))
    Console().print(table)


def measure(backend: str, count: int, version: str) -> tuple[str, ...]:
    """One probe of `count` copies of the smoke case, as a row of the table.

    Start-up is the time until the first result less the time that case spent in the page; ending is what comes
    after the last result.
    """
    config = load_config()
    browser = locate("chrome", config)
    target = choose_target(browser, "any", (), config) if backend == "webgpu" else plain_target(browser, "any", ())
    artifact, _ = fetch(version, cache=paths.cache_root())
    stamps: list[float] = []

    def on_case(index: int, seen: Observation) -> None:
        assert seen.ending is Ending.COMPLETED, seen.errors
        stamps.append(time.monotonic())

    with tempfile.TemporaryDirectory() as folder:
        case = smoke(Path(folder))
        cases = tuple(replace(case, name=f"case {n}") for n in range(count))
        probe = Probe(artifact, bundle_for(version, backend), target, backend, cases, limits=Limits(60, 3600))
        begin = time.monotonic()
        seen = run_probe(probe, config, on_case)
        end = time.monotonic()
    in_page = [dict(o.times_ms)["total"] / 1000 for o in seen]
    wall = end - begin
    start_up = stamps[0] - begin - in_page[0]
    ending = end - stamps[-1]
    steady = (wall - start_up - ending) / sum(in_page)
    numbers = (wall, sum(in_page), wall / sum(in_page), steady, start_up, ending)
    return (str(count), *(f"{number:.2f}" for number in numbers))


if __name__ == "__main__":
    main()
