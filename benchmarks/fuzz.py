"""Whether any input crashes or stalls a parser. Run: python -m benchmarks.fuzz [--inputs 20000] [--seed 0] [--only zip]

Every parser of what comes from outside gets that many inputs, made from small sound ones: each has to be read, or
refused with the parser's own error, which has to be one line where a user sees it. Anything else is a crash; an input
that takes longer than --limit-s of processor time is slow. Either makes the exit status 1, and with --keep DIR the
inputs are written there. The same seed gives the same inputs.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.fuzz_parsers import Parser, parsers
from bisect_bot.errors import BisectBotError

STALL_S = 300
"""A parser that does not come back ends the run with a traceback after this time; no limit can interrupt it."""


@dataclass(slots=True)
class Result:
    """What came of one parser's inputs. `crashes` are tracebacks with the inputs that gave them."""

    name: str
    inputs: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    slowest: bytes = b""
    crashes: list[tuple[str, bytes]] = field(default_factory=list)


def fuzz(parser: Parser, inputs: int, seed: int) -> Result:
    """Gives `parser` its samples and then spoiled ones, `inputs` in all, the same for the same `seed`."""
    result = Result(parser.name)
    for content in _inputs(parser, inputs, seed):
        if result.inputs % 100 == 0:
            faulthandler.dump_traceback_later(STALL_S, exit=True)
        begin = time.process_time()
        try:
            parser.parse(content)
        except parser.refuses as error:
            result.refused += 1
            if isinstance(error, BisectBotError) and not str(error).isprintable():
                result.crashes.append((f"the error is not one line: {str(error)!r}", content))
        # Whatever else it is, it is what is looked for.
        except Exception:
            result.crashes.append((traceback.format_exc(), content))
        took = time.process_time() - begin
        result.inputs += 1
        if took > result.slowest_s:
            result.slowest_s, result.slowest = took, content
    faulthandler.cancel_dump_traceback_later()
    return result


def _inputs(parser: Parser, count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(f"{seed} {parser.name}")
    for number in range(count):
        sample = parser.samples[number % len(parser.samples)]
        yield sample if number < len(parser.samples) else parser.mutate(rng, sample)


def keep(folder: Path, name: str, content: bytes) -> Path:
    """Writes an input to `folder`, under a name of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '-')}-{hashlib.sha256(content).hexdigest()[:12]}"
    path.write_bytes(content)
    return path


def main() -> int:
    """Prints the table, and then the crashes."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--inputs", type=int, default=20_000, help="inputs for each parser")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", action="append", default=[], help="one parser, by its name; repeatable")
    options.add_argument("--limit-s", type=float, default=1.0, help="processor time that one input may take")
    options.add_argument("--keep", type=Path, help="folder for inputs that crash or are slow")
    asked = options.parse_args()
    console = Console(width=110)
    table = Table("parser", "inputs", "refused", "crashes", "slowest ms", "its bytes", title=f"seed {asked.seed}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for parser in parsers(Path(folder)):
            if asked.only and parser.name not in asked.only:
                continue
            print(f"{parser.name} …", file=sys.stderr, flush=True)
            result = fuzz(parser, asked.inputs, asked.seed)
            slow = result.slowest_s > asked.limit_s
            row = (result.inputs, result.refused, len(result.crashes), f"{result.slowest_s * 1000:.1f}")
            table.add_row(parser.name, *map(str, row), f"{len(result.slowest)}{' SLOW' if slow else ''}")
            failed = failed or slow or bool(result.crashes)
            for told in dict.fromkeys(text for text, _ in result.crashes[:20]):
                print(f"{parser.name}: {told}", file=sys.stderr)
            bad = [content for _, content in result.crashes[:20]] + ([result.slowest] if slow else [])
            for content in bad if asked.keep else ():
                print(f"kept {keep(asked.keep, parser.name, content)}", file=sys.stderr)
    console.print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
