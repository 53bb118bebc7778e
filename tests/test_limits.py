"""What happens to tests that a machine cannot run. Each run here is a real pytest on a machine that lacks things."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bisect_bot.bootstrap import ROOT

ONE = """\
@pytest.mark.{marker}
def test_{marker}():
    pass
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with these tests' conftest and, in `bin`, git alone."""
    folder = tmp_path_factory.mktemp("machine")
    (folder / "tests").mkdir()
    for source in (ROOT / "tests").glob("*.py"):
        if not source.name.startswith("test_"):
            shutil.copy(source, folder / "tests")
    git = shutil.which("git")
    assert git is not None
    (folder / "bin").mkdir()
    (folder / "bin" / "git").symlink_to(git)
    subprocess.run([git, "init", "--quiet", "--bare", str(folder / "clone")], check=True)
    return folder


def run_marked(tree: Path, *markers: str, ci: bool = False, clone: str = "") -> tuple[int, str]:
    """Runs one passing test a marker where there is no browser and no npm; pytest's status and its summary."""
    (tree / "tests/test_marked.py").write_text("import pytest\n" + "".join(ONE.format(marker=m) for m in markers))
    env = {**os.environ, "PATH": str(tree / "bin"), "PYTHONPATH": str(ROOT), "CI": "true" if ci else ""}
    env |= {"ELECTRON_PATH": str(tree / "nowhere"), "DISPLAY": ""}
    env |= {"CHROME_BIN": str(tree / "nowhere"), "BISECT_BOT_TEST_CLONE": clone, "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tree)]
    argv += [str(tree / "tests"), "-p", "no:cacheprovider"]
    done = subprocess.run(argv, cwd=tree, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.partition("short test summary info")[2] or done.stdout


def test_what_a_machine_lacks_is_skipped_and_the_summary_says_why(tree: Path) -> None:
    status, summary = run_marked(tree, "browser", "network", "gpu", "clone", "electron")
    assert status == pytest.ExitCode.OK
    assert "5 skipped" in summary
    assert "is no Electron" in summary
    assert "no Chrome, Chromium or Edge on this machine" in summary
    assert "npm is not installed" in summary
    assert "no hardware GPU adapter (no Chrome, Chromium or Edge was found)" in summary
    assert "BISECT_BOT_TEST_CLONE names no clone of onnxruntime" in summary


def test_in_ci_a_missing_browser_or_npm_is_a_failure(tree: Path) -> None:
    status, summary = run_marked(tree, "browser", "network", "electron", "clone", ci=True)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "3 errors" in summary
    assert "1 skipped" in summary


def test_in_ci_a_run_that_skips_everything_is_no_success(tree: Path) -> None:
    status, summary = run_marked(tree, "clone", "gpu", ci=True)
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "2 skipped" in summary


def test_a_clone_that_is_there_allows_its_tests(tree: Path) -> None:
    status, summary = run_marked(tree, "clone", clone=str(tree / "clone"), ci=True)
    assert status == pytest.ExitCode.OK
    assert "1 passed" in summary


def test_a_clone_that_is_no_repository_is_named(tree: Path) -> None:
    status, summary = run_marked(tree, "clone", clone=str(tree / "bin"))
    assert status == pytest.ExitCode.OK
    assert "bin is not a git repository" in summary
