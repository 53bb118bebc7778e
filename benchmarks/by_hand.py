"""One step of a bisection as it is done by hand: install, build everything, run upstream's own test runner.

    git bisect run python -m benchmarks.by_hand --wasm FOLDER --manifest matmul.jsonc --log steps.jsonl

To be run in a checkout of upstream (late 2024: its recipe's own commands) whose bisection calls the old side broken and
the new one fixed. Nothing is kept from the step before. Ends with 0 where the test fails, 1 where it passes, 125 where
it cannot be told, and 255, which stops the bisection, after `--at-most` steps. Each step adds a line to the log.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bisect_bot.builds.commands import last_words
from bisect_bot.processes import Completed, run

LIMIT_S = 1800.0
BROKEN, FIXED, SKIP, STOP = 0, 1, 125, 255
WEB = "js/web"
# Folder and command, in the order of upstream's instructions.
INSTALL = (
    ("js", ("npm", "ci")),
    ("js/common", ("npm", "ci")),
    ("js/common", ("npm", "run", "build")),
    (WEB, ("npm", "ci", "--ignore-scripts")),
    (WEB, ("npm", "run", "preprepare")),
    (WEB, ("npm", "run", "prepare")),
)
BUILD = ((WEB, ("npm", "run", "build")),)
OPSETS = range(7, 22)
# What the runner says of an output that is not as expected; other ways to fail are no verdict on the case.
MISMATCH = "check failed"


class StepFailed(Exception):
    """A command of the step failed: the last of its words."""


def main(argv: Sequence[str] | None = None) -> int:
    """Does one step in the current folder; returns the status for `git bisect run`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wasm", type=Path, required=True, help="folder with the WebAssembly to use")
    parser.add_argument("--manifest", type=Path, required=True, help="the op manifest to test with")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--at-most", type=int, default=0, help="stop after so many steps (0: never)")
    options = parser.parse_args(argv)
    if options.at_most and len(steps(options.log)) >= options.at_most:
        return STOP
    root = Path.cwd()
    times: dict[str, float] = {}
    problem = ""
    try:
        status = step(root, options.wasm, options.manifest, times)
    except StepFailed as error:
        status, problem = SKIP, str(error)
    finally:
        command(root, ".", ("git", "checkout", "--quiet", "--", "js"))
    commit = command(root, ".", ("git", "rev-parse", "HEAD")).stdout.strip()
    with options.log.open("a") as log:
        log.write(json.dumps({"commit": commit, "status": status, "seconds": times, "problem": problem}) + "\n")
    return status


def step(root: Path, wasm: Path, manifest: Path, times: dict[str, float]) -> int:
    """Everything from the sources in `root` to a verdict; `times` gets the seconds of each part. Raises StepFailed."""
    begin = time.monotonic()

    def lap(name: str) -> None:
        times[name] = time.monotonic() - begin - sum(times.values())

    needed(command(root, ".", ("git", "clean", "-fdxq", "--", "js")))
    for folder, words in INSTALL:
        needed(command(root, folder, words))
    lap("install")
    dist = root / WEB / "dist"
    dist.mkdir(exist_ok=True)
    for file in sorted(wasm.glob("ort-wasm*")):
        shutil.copyfile(file, dist / file.name)
    for folder, words in BUILD:
        needed(command(root, folder, words))
    lap("build")
    shutil.copyfile(manifest, root / WEB / "test/data/ops" / manifest.name)
    # The runner wants ONNX's node tests, which are downloaded, even where it runs none of them.
    for opset in OPSETS:
        (root / "js/test/data/node" / f"opset{opset}").mkdir(parents=True, exist_ok=True)
    runner = ("node", "./script/test-runner-cli", "op", manifest.name, "--backend", "webgpu", "--env", "chrome")
    tested = command(root, WEB, runner)
    lap("test")
    if tested.status == 0:
        return FIXED
    if MISMATCH in tested.stdout + tested.stderr:
        return BROKEN
    raise StepFailed(told(tested))


def steps(log: Path) -> list[dict[str, Any]]:
    """What was written of each step so far."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []


def command(root: Path, folder: str, words: Sequence[str]) -> Completed:
    """Runs `words` in a folder of the checkout."""
    program = shutil.which(words[0])
    if program is None:
        raise StepFailed(f"{words[0]} is not installed")
    # Electron's installer fetches its program, which is not tested here; karma asks for it all the same.
    environment = {**os.environ, "ELECTRON_SKIP_BINARY_DOWNLOAD": "1", "ELECTRON_OVERRIDE_DIST_PATH": str(root)}
    return run((program, *words[1:]), timeout_s=LIMIT_S, cwd=root / folder, env=environment)


def needed(done: Completed) -> None:
    """Raises StepFailed when a command did not end well."""
    if done.status != 0:
        raise StepFailed(told(done))


def told(done: Completed) -> str:
    """How a command failed, in short."""
    return f"{' '.join(done.argv[1:4])}: {last_words(done.stdout + done.stderr) or f'status {done.status}'}"


if __name__ == "__main__":
    raise SystemExit(main())
