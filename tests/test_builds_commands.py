"""Of a failed command's output one line is told: the one that says most."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from bisect_bot.builds.commands import Commands, Failed, last_words
from bisect_bot.errors import DiskFull
from bisect_bot.processes import started_at

ESBUILD = """
✘ [ERROR] Could not resolve "./binding/ort-wasm-simd.jsep.js"

    web/lib/wasm/wasm-factory.ts:17:77:
      17 │ ...inding/ort-wasm.js') : require('./binding/ort-wasm-simd.jsep.js');
         ╵                                   ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~

/src/js/node_modules/esbuild/lib/main.js:1472
  let error = new Error(text);
Error: Build failed with 1 error:
    at failureErrorWithLog (/src/js/node_modules/esbuild/lib/main.js:1472:15)

Node.js v20.20.2
"""
TSC = """
> onnxruntime-web@1.21.0 prepare
> tsc --build ./script && echo no error

\x1b[96mscript/build.ts\x1b[0m:\x1b[93m3\x1b[0m:\x1b[93m5\x1b[0m - \x1b[91merror\x1b[0m TS2304: Cannot find name 'x'.

npm error Lifecycle script `prepare` failed with error:
npm error code 2
"""
NPM = """
npm error code ETARGET
npm error notarget No matching version found for x@1.0.0.
npm error A complete log of this run can be found in: ~/.npm/_logs/debug-0.log
"""
PYTHON = """
Traceback (most recent call last):
  File "tools/ci_build/build.py", line 2571, in <module>
    sys.exit(main())
subprocess.CalledProcessError: Command '['cmake']' returned non-zero exit status 1.
"""


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (ESBUILD, '✘ [ERROR] Could not resolve "./binding/ort-wasm-simd.jsep.js"'),
        (TSC, "script/build.ts:3:5 - error TS2304: Cannot find name 'x'."),
        (NPM, "notarget No matching version found for x@1.0.0."),
        ("all\nis well\n\n", "is well"),
        ("", ""),
    ],
)
def test_the_line_that_says_most_is_told(output: str, said: str) -> None:
    assert last_words(output) == said


def commands(folder: Path) -> Commands:
    return Commands(folder / "logs", folder / "tmp", {"shell": "sh", "none": ""}, {"GIVEN": "a value", "HOME": None})


def test_a_log_has_the_command_all_of_its_output_and_how_it_ended(tmp_path: Path) -> None:
    script = "echo out; echo err >&2; echo $GIVEN; echo home=$HOME; exit 3"
    with pytest.raises(Failed, match="the step failed: ") as caught:
        commands(tmp_path).run("the step", ["{shell}", "{none}", "-c", script], cwd=tmp_path, subject="abc")
    text = caught.value.log.read_text()
    for words in ("sh -c", "abc", str(tmp_path), "out\nerr\na value\nhome=\n", "--- status 3"):
        assert words in text
    assert (caught.value.status, list((tmp_path / "tmp").iterdir())) == (3, [])


def test_what_a_command_leaves_in_the_background_is_ended_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    commands(tmp_path).run("a step", ["sh", "-c", f"sleep 600 & echo $! > {pid}"], cwd=tmp_path, subject="")
    assert started_at(int(pid.read_text())) is None


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"a step failed: no end within 0\.5 s"):
        commands(tmp_path).run("a step", ["sh", "-c", "sleep 600 | sleep 601"], cwd=tmp_path, subject="", timeout_s=0.5)
    assert not [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(tmp_path)]


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="a step failed: no-such-program cannot be started: No such file"):
        commands(tmp_path).run("a step", ["no-such-program"], cwd=tmp_path, subject="")


def test_a_full_disk_is_no_verdict_on_the_commit(tmp_path: Path) -> None:
    script = "echo 'Error: ENOSPC: no space left on device, write'; exit 1"
    with pytest.raises(DiskFull):
        commands(tmp_path).run("a step", ["sh", "-c", script], cwd=tmp_path, subject="")
