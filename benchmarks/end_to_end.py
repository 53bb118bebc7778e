"""The wide range of the first report in one go: by hand, `git bisect run bisect-bot check` and `bisect-bot run`.

    python -m benchmarks.end_to_end --repo CLONE [--steps 2] [--ways by-hand check run]

By hand: git bisect with upstream's own commands and none of our caches (npm's own is kept: a reporter has one), see
`by_hand`. With `--steps N` only N of its steps are measured and the rest is reckoned from git's own number of steps.
`run` comes three times: with an empty cache; with the builds in the cache but a fresh journal, so that everything is
tested again; and with all of it. Goals: an empty cache at least 8 times faster than by hand, a warm one at least 25
times, and fewer tests of the search than git has. Needs npm with its registry, git, Chromium; the clone is only read.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sqlite3
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.by_hand import steps
from bisect_bot.builds import fetch
from bisect_bot.history.git import Git
from bisect_bot.probes import choose_target
from bisect_bot.probes.upstream.launching import browser_wrapper
from bisect_bot.processes import Completed, run
from bisect_bot.reports.values import counted
from bisect_bot.session.journal import FILE_NAME
from bisect_bot.targets.browsers import load_config, locate

OLD, NEW = "d9ca84ef96", "d27fecd3d3"
CULPRIT = "d9b91682f1"
MANIFEST = "js/web/test/data/ops/matmul.jsonc"
# A build whose WebAssembly fits the JavaScript of the whole range.
LENDER = "1.21.0-dev.20241205-d27fecd3d3"
ROOT = Path(__file__).resolve().parents[1]
WAYS = ("by-hand", "check", "run")
GOALS = {"run, empty cache": 8.0, "run, builds cached": 25.0, "run, all cached": 25.0}
LIMIT_S = 6 * 3600.0

_FIRST = re.compile(r"^([0-9a-f]{40}) is the first fixed commit", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Job:
    """What is searched: full commits, the manifest as a plain file, and the clone that is read."""

    clone: Path
    old: str
    new: str
    culprit: str
    manifest: Path
    work: Path


@dataclass(frozen=True, slots=True)
class Row:
    """What one way took. `answer` is the commit that it names; `note` says what was reckoned rather than measured."""

    way: str
    wall_s: float
    builds: float
    tests: float
    answer: str | None
    note: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, and prints one table; 1 when a way named another commit than the one that is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=Path, required=True, help="a clone of onnxruntime")
    parser.add_argument("--steps", type=int, default=0, help="measure so many steps by hand (0: all)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args(argv)
    console = Console()
    # A pipe has no width of its own.
    console.width = max(console.width, 150)
    with tempfile.TemporaryDirectory(prefix="bbot-benchmark-") as folder:
        job = prepare(options.repo.absolute(), Path(folder))
        own = git_steps(job)
        console.print(f"git bisect needs {own} steps, if every one gives a verdict; the answer is {job.culprit[:10]}")
        rows: list[Row] = []
        for way in options.ways:
            rows += measure(way, job, own, options.steps)
            console.print(table(rows, own))
    for line in goals(rows, own):
        console.print(line)
    return int(any(row.answer not in (None, job.culprit) for row in rows))


def measure(way: str, job: Job, own: int, measured: int) -> list[Row]:
    """The rows of one of `WAYS`; `own` is git's number of steps, of which `measured` are done by hand (0: all)."""
    if way == "by-hand":
        return [by_hand(job, own, measured)]
    return [check(job)] if way == "check" else runs(job)


def prepare(clone: Path, work: Path) -> Job:
    """Looks up the commits and writes the manifest of the fix to a plain file."""
    git = Git(clone)
    old, new, culprit = (git.read("rev-parse", f"{name}^{{commit}}").strip() for name in (OLD, NEW, CULPRIT))
    manifest = work / Path(MANIFEST).name
    manifest.write_bytes(git.read_bytes("cat-file", "blob", f"{culprit}:{MANIFEST}"))
    return Job(clone, old, new, culprit, manifest, work)


def git_steps(job: Job) -> int:
    """How many commits `git bisect` asks about when each is answered rightly."""
    clone = private_clone(job, "count")
    asked = job.work / "asked"
    culprit = shlex.quote(job.culprit)
    script = (
        f'echo >>{shlex.quote(str(asked))}; ! git merge-base --is-ancestor {culprit} "$(git rev-parse BISECT_HEAD)"'
    )
    # Status 1 is the new side: the culprit is an ancestor.
    first = bisect(clone, job, ["sh", "-c", script], "--no-checkout")
    assert first == job.culprit, first
    return len(asked.read_text().splitlines())


def by_hand(job: Job, own: int, measured: int) -> Row:
    """Fresh installs, full builds and upstream's runner in each step."""
    config = load_config()
    target = choose_target(locate("chrome", config), "any", (), config)
    flags = ["--headless=new", *(["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else [])]
    flags += config.flags_of(target.flags) if target.flags else []
    wrapper = browser_wrapper(job.work, Path(target.executable), flags)
    log = job.work / "steps.jsonl"
    begin = time.monotonic()
    wasm, _ = fetch(LENDER, cache=job.work / "cache-by-hand")
    clone = private_clone(job, "by-hand")
    git(clone, "sparse-checkout", "set", "js")
    git(clone, "checkout", "--quiet", job.new)
    before = time.monotonic() - begin
    words = [sys.executable, "-m", "benchmarks.by_hand", "--wasm", str(wasm.directory), "--manifest", str(job.manifest)]
    words += ["--log", str(log), "--at-most", str(measured)]
    first = bisect(clone, job, words, CHROME_BIN=str(wrapper))
    wall = time.monotonic() - begin
    done = steps(log)
    lost = [each for each in done if each["problem"]]
    for each in lost:
        print(f"by hand, {each['commit'][:10]}: {each['problem']}", file=sys.stderr)
    note = f"{len(lost)} steps gave no verdict" if lost else ""
    if not measured or len(done) >= own:
        return Row("by hand", wall, len(done), len(done), first, note)
    scaled = before + (wall - before) / len(done) * own
    told = f"reckoned from {len(done)} of {own} steps"
    return Row("by hand", scaled, own, own, first, ", ".join(filter(None, (told, note))))


def check(job: Job) -> Row:
    """`bisect-bot check` as the command of `git bisect run`, with an empty cache of its own."""
    cache = job.work / "cache-check"
    clone = private_clone(job, "check")
    asked = job.work / "checked"
    fixed = ["--source", "commits", "--repo", str(job.clone), "--case", str(job.manifest), "--backend", "webgpu"]
    words = [sys.executable, "-m", "bisect_bot", "check"]
    options = shlex.join([*fixed, "--target", "chrome", "--expect", "new"])
    script = f'echo >>{shlex.quote(str(asked))}; exec {shlex.join(words)} "$(git rev-parse BISECT_HEAD)" {options}'
    begin = time.monotonic()
    first = bisect(clone, job, ["sh", "-c", script], "--no-checkout", BISECT_BOT_CACHE=str(cache))
    wall = time.monotonic() - begin
    tests = len(asked.read_text().splitlines())
    return Row("git bisect run bisect-bot check", wall, builds_in(cache), tests, first)


def runs(job: Job) -> list[Row]:
    """`bisect-bot run` with an empty cache, with its builds alone, and with all that it left."""
    cache = job.work / "cache-run"
    rows = [one_run(job, cache, "run, empty cache")]
    whole = one_run(job, cache, "run, all cached")
    for file in cache.glob(f"{FILE_NAME}*"):
        file.unlink()
    return [*rows, one_run(job, cache, "run, builds cached"), whole]


def one_run(job: Job, cache: Path, way: str) -> Row:
    """One `bisect-bot run`, as its report.json tells."""
    out = job.work / way.replace(", ", "-").replace(" ", "-")
    words = ["run", "--source", "commits", "--repo", str(job.clone), "--bad", job.old, "--good", job.new]
    words += ["--case", str(job.manifest), "--backend", "webgpu", "--target", "chrome", "--out", str(out)]
    begin = time.monotonic()
    done = command([sys.executable, "-m", "bisect_bot", *words], job.work, {"BISECT_BOT_CACHE": str(cache)})
    wall = time.monotonic() - begin
    if done.status != 0:
        raise SystemExit(f"bisect-bot run ended with {done.status}:\n{done.stderr[-4000:]}")
    return row_of(way, wall, json.loads((out / "report.json").read_text(encoding="utf-8")))


def row_of(way: str, wall_s: float, report: Mapping[str, object]) -> Row:
    """The row that a report makes. All cases of a probe are one test; only those of the search are compared with git's.

    Ends, re-tests and proofs are more than git does, and are in the note.
    """
    matrix, counts, boundary = report["matrix"], report["counts"], report["boundary"]
    assert isinstance(matrix, list) and isinstance(counts, dict)
    fresh = {(t["revision"], t["attempt"], t["purpose"]) for t in matrix if not t["reused"]}
    searched = {each for each in fresh if each[2] == "search"}
    first = boundary["first_new"]["commit"] if isinstance(boundary, dict) else None
    note = f"{counted(counts['proof_builds'], 'more build')} for proofs, {len(fresh) - len(searched)} other tests"
    return Row(way, wall_s, counts["builds"], len(searched), first or str(report["result"]), note)


def table(rows: Sequence[Row], own: int) -> Table:
    """All rows, each beside the first way by hand."""
    told = Table("way", "wall s", "× faster", "builds", "tests", "tests / git's", "first new", "")
    base = next((row.wall_s for row in rows if row.way == "by hand"), None)
    for row in rows:
        ratio = f"{base / row.wall_s:.1f}" if base else ""
        numbers = (f"{row.wall_s:.1f}", ratio, f"{row.builds:g}", f"{row.tests:g}", f"{row.tests / own:.2f}")
        told.add_row(row.way, *numbers, (row.answer or "not asked")[:10], row.note)
    return told


def goals(rows: Sequence[Row], own: int) -> list[str]:
    """What was aimed at, and whether it was reached."""
    base = next((row.wall_s for row in rows if row.way == "by hand"), None)
    told = []
    for row in rows:
        if row.way not in GOALS:
            continue
        if base:
            ratio, goal = base / row.wall_s, GOALS[row.way]
            told.append(f"{row.way}: {ratio:.1f} times faster, goal {goal:g}: {'met' if ratio >= goal else 'MISSED'}")
        if row.way == "run, empty cache":
            told.append(f"{row.way}: {row.tests:g} tests, git's {own}: {'met' if row.tests < own else 'MISSED'}")
    return told


def private_clone(job: Job, name: str) -> Path:
    """A clone below the work folder that borrows the objects of the one that is only read."""
    clone = job.work / name
    git(job.work, "clone", "--quiet", "--shared", "--no-checkout", str(job.clone), str(clone))
    return clone


def bisect(clone: Path, job: Job, words: Sequence[str], *how: str, **environment: str) -> str | None:
    """The first fixed commit that `git bisect run` names; None when `words` stopped it."""
    git(clone, "bisect", "start", "--first-parent", "--term-old=broken", "--term-new=fixed", *how, job.new, job.old)
    done = command(["git", "bisect", "run", *words], clone, environment)
    found = _FIRST.search(done.stdout)
    if found is None and done.status == 0:
        raise SystemExit(f"git bisect names nothing:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return found[1] if found else None


def git(folder: Path, *words: str) -> str:
    """What `git <words>` prints in `folder`. Ends the benchmark when it fails."""
    done = command(["git", *words], folder, {})
    if done.status != 0:
        raise SystemExit(f"git {words[0]}: {done.stderr}")
    return done.stdout


def command(words: Sequence[str], folder: Path, more: Mapping[str, str]) -> Completed:
    """Runs `words` in `folder`, with this checkout's own packages."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return run(words, timeout_s=LIMIT_S, cwd=folder, env=environment)


def builds_in(cache: Path) -> int:
    """How many builds the journal in `cache` has that were not reused."""
    with sqlite3.connect(cache / FILE_NAME) as journal:
        found: int = journal.execute("SELECT count(DISTINCT key) FROM builds WHERE reused = 0").fetchone()[0]
    return found


if __name__ == "__main__":
    raise SystemExit(main())
