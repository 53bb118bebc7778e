"""What a checkout does before anything is installed. The environments here are real, the project is a tiny one."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_bot import bootstrap
from bisect_bot.errors import CheckExit, Exit

FIRST_FILES = (
    "bisect_bot/__init__.py",
    "bisect_bot/__main__.py",
    "bisect_bot/bootstrap.py",
    "bisect_bot/errors.py",
    "tests/__init__.py",
    "tests/__main__.py",
)

posix_only = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals and the layout of a POSIX venv")

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "bisect-bot"
version = "0"
dependencies = ["tiny-needed>=1.2"]

[dependency-groups]
dev = ["tiny-dev"]
"""

# Builds an editable wheel with the standard library alone, and not before the file `slow` is gone.
BACKEND = """\
import os, time, tomllib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    open("building", "w").close()
    while os.path.exists("slow"):
        time.sleep(0.05)
    with open("pyproject.toml", "rb") as file:
        needs = tomllib.load(file)["project"]["dependencies"]
    with zipfile.ZipFile(os.path.join(folder, "bisect_bot-0-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("bisect_bot.pth", os.getcwd())
        wheel.writestr("bisect_bot-0.dist-info/METADATA",
                       "Metadata-Version: 2.1\\nName: bisect-bot\\nVersion: 0\\n"
                       + "".join(f"Requires-Dist: {need}\\n" for need in needs))
        wheel.writestr("bisect_bot-0.dist-info/WHEEL",
                       "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("bisect_bot-0.dist-info/RECORD", "")
    return "bisect_bot-0-py3-none-any.whl"
"""

COMMAND_LINE = """\
import json, sys
import tiny_needed

def main():
    try:
        import tiny_dev
        dev = True
    except ImportError:
        dev = False
    print(json.dumps({"argv": sys.argv[1:], "prefix": sys.prefix, "dev": dev}))
    return int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdigit() else 0
"""


class Checkout:
    """A tiny project with the real bootstrap, whose requirements come from a folder of wheels."""

    def __init__(self, root: Path, wheels: Path) -> None:
        self.root, self.venv = root, root / ".venv"
        blank = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "BISECT_BOT_"))}
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
        temporary = {name: str(wheels) for name in ("TMPDIR", "TMP", "TEMP")}  # a killed pip leaves folders there
        self.env: Mapping[str, str] = {**blank, **offline, **temporary, "CI": "", "PYTHONPATH": ""}

    def start(self, *argv: str, module: str = "bisect_bot") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *argv],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *argv: str, module: str = "bisect_bot") -> tuple[int, str, str]:
        process = self.start(*argv, module=module)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def outdate(self) -> None:
        """Changes pyproject.toml, so that the next start has something to install."""
        with (self.root / "pyproject.toml").open("a") as file:
            file.write(f"# changed at {time.monotonic_ns()}\n")

    def wait_for(self, name: str) -> None:
        deadline = time.monotonic() + 60
        while not (self.root / name).exists():
            assert time.monotonic() < deadline, f"{name} did not appear"
            time.sleep(0.02)


def write_wheel(folder: Path, name: str, version: str) -> None:
    module = name.replace("-", "_")
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        info = f"{module}-{version}.dist-info"
        wheel.writestr(f"{module}.py", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One checkout for the whole file: each test puts it into the state that it is about."""
    root = tmp_path_factory.mktemp("checkout")
    wheels = tmp_path_factory.mktemp("wheels")
    write_wheel(wheels, "tiny-needed", "1.10")
    write_wheel(wheels, "tiny-dev", "1")
    for name in ("bisect_bot/cli", "configs", "tests"):
        (root / name).mkdir(parents=True)
    for name in ("__init__.py", "__main__.py", "bootstrap.py", "errors.py"):
        shutil.copy(bootstrap.ROOT / "bisect_bot" / name, root / "bisect_bot" / name)
    (root / "bisect_bot/cli/__init__.py").write_text(COMMAND_LINE)
    (root / "tests/__init__.py").touch()
    (root / "tests/__main__.py").write_text(
        "from bisect_bot import bootstrap\nbootstrap.ensure('tests', 'dev')\nfrom bisect_bot.cli import main\nmain()\n"
    )
    (root / "backend.py").write_text(BACKEND)
    return Checkout(root, wheels)


@pytest.fixture
def checkout(fresh: Checkout) -> Iterator[Checkout]:
    """The checkout with its own pyproject.toml, whatever the last test left."""
    (fresh.root / "pyproject.toml").write_text(PYPROJECT)
    for name in ("slow", "building"):
        (fresh.root / name).unlink(missing_ok=True)
    yield fresh
    (fresh.root / "slow").unlink(missing_ok=True)


@pytest.fixture
def prepared(checkout: Checkout) -> Checkout:
    """The checkout after a successful first start."""
    status, _, err = checkout.run()
    assert status == 0, err
    (checkout.root / "building").unlink(missing_ok=True)
    return checkout


# --- before the first import --------------------------------------------------------------------


@pytest.mark.parametrize("name", FIRST_FILES)
def test_python_3_8_can_read_the_files_that_run_first(name: str) -> None:
    source = (bootstrap.ROOT / name).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 8))
    evaluated = [node for statement in tree.body if isinstance(statement, ast.Assign) for node in ast.walk(statement)]
    assert not any(isinstance(node, ast.Subscript) for node in evaluated), "such an alias is an error in Python 3.8"


@pytest.mark.parametrize("module", ["bisect_bot", "tests"])
def test_an_old_python_that_is_here_says_one_line_and_no_verdict(module: str) -> None:
    old = old_python()
    if old is None:
        pytest.skip("no Python 3.8, 3.9 or 3.10 on this machine")
    done = subprocess.run(
        [old, "-m", module, "check", "1.20.1"], cwd=bootstrap.ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == CheckExit.UNUSABLE
    assert len(done.stderr.splitlines()) == 1
    assert "needs Python 3.11 or newer" in done.stderr


def old_python() -> str | None:
    """A Python from 3.8 to 3.10, from the search path or pyenv."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for name in ("3.8", "3.9", "3.10"):
        named = shutil.which(f"python{name}")
        for python in [*versions.glob(f"{name}.*/bin/python3"), *([Path(named)] if named else [])]:
            asked = subprocess.run([python, "-V"], capture_output=True, text=True, check=False)
            if asked.stdout.startswith(f"Python {name}."):
                return str(python)
    return None


def test_what_runs_first_imports_the_standard_library_only() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(bootstrap.ROOT)!r}); import bisect_bot.__main__, tests.__main__\n"
        "known = {*sys.stdlib_module_names, 'bisect_bot', 'tests', '__main__'}\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - known))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_old_python_gets_one_line_with_its_version_and_a_way_to_a_newer_one() -> None:
    with pytest.raises(bootstrap.Failure) as failure:
        bootstrap.require_python((3, 10, 13))
    text = str(failure.value)
    assert "3.10.13" in text
    assert "3.11 or newer" in text
    assert "Get one:" in text
    assert "\n" not in text


def test_the_oldest_supported_python_is_the_one_in_pyproject() -> None:
    bootstrap.require_python(bootstrap.MINIMUM)
    wanted = f'requires-python = ">={".".join(map(str, bootstrap.MINIMUM))}"'
    assert wanted in (bootstrap.ROOT / "pyproject.toml").read_text(encoding="utf-8")


# --- what is needed, and what is here -----------------------------------------------------------


def test_every_requirement_of_the_project_is_of_a_form_that_the_bootstrap_reads() -> None:
    wanted = bootstrap.requirements(bootstrap.ROOT, ["dev"])
    names = [bootstrap.parse_requirement(text)[0] for text in wanted]
    assert {"numpy", "gitpython", "pytest"} <= set(names)


def test_a_group_brings_along_what_goes_with_it_on_this_platform_alone(tmp_path: Path) -> None:
    here = f"{sys.platform}-{os.uname().machine}" if hasattr(os, "uname") else sys.platform
    groups = f'dev = ["b"]\n"dev-{here}" = ["c"]\n"dev-plan9-mips" = ["d"]\n'
    (tmp_path / "pyproject.toml").write_text(f'[project]\ndependencies = ["a"]\n[dependency-groups]\n{groups}')
    assert bootstrap.requirements(tmp_path, ["dev"]) == ["a", "b", "c"]
    assert bootstrap.requirements(tmp_path) == ["a"]


@pytest.mark.parametrize("text", ["numpy<3", "numpy>=1,<3", "numpy; sys_platform == 'win32'", "numpy[extra]"])
def test_a_requirement_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not of the form"):
        bootstrap.parse_requirement(text)


@pytest.mark.parametrize(
    ("entry", "wanted", "met"),
    [
        ("numpy-2.1.0.dist-info", "numpy>=1.26", True),
        ("numpy-1.9.0.dist-info", "numpy>=1.26", False),
        ("numpy-1.26.dist-info", "numpy>=1.26", True),
        ("GitPython-3.1.43.dist-info", "gitpython>=3.1.43", True),
        ("types_psutil-6.0.0.20241221.dist-info", "types-psutil", True),
        ("pydantic-1.10.4.egg-info", "pydantic>=2.8", False),
        ("rich-13.3.1-py3.11.egg-info", "rich>=13", True),
        ("numpy", "numpy", False),
        ("numpy_financial-2.0.dist-info", "numpy>=1.26", False),
    ],
)
def test_a_requirement_is_met_by_name_and_lowest_version(tmp_path: Path, entry: str, wanted: str, met: bool) -> None:
    (tmp_path / entry).mkdir()
    assert bootstrap.missing([wanted], [str(tmp_path)]) == ([] if met else [wanted])


def test_the_first_folder_of_the_search_path_wins_as_it_does_for_imports(tmp_path: Path) -> None:
    for folder, version in (("first", "1.0"), ("second", "2.0")):
        (tmp_path / folder / f"numpy-{version}.dist-info").mkdir(parents=True)
    path = [str(tmp_path / "absent.zip"), str(tmp_path / "first"), str(tmp_path / "second")]
    assert bootstrap.missing(["numpy>=2"], path) == ["numpy>=2"]


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_versions_are_ordered_as_numbers(here: list[int], lowest: list[int]) -> None:
    found = {"a": bootstrap.parse_requirement(f"a>={'.'.join(map(str, here))}")[1]}
    assert (found["a"] >= bootstrap.parse_requirement(f"a>={'.'.join(map(str, lowest))}")[1]) == (here >= lowest)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [(["check", "1.20.1"], True), (["--json", "check"], True), (["run", "check"], False), ([], False)],
)
def test_check_is_told_from_other_commands(argv: list[str], expected: bool) -> None:
    assert bootstrap.is_check(argv) is expected


# --- the environment ----------------------------------------------------------------------------


def test_a_first_start_prepares_an_environment_and_continues_in_it_with_the_same_words(checkout: Checkout) -> None:
    shutil.rmtree(checkout.venv, ignore_errors=True)
    status, out, err = checkout.run("7", "a b", "--c=d")
    assert status == 7
    assert json.loads(out) == {"argv": ["7", "a b", "--c=d"], "prefix": str(checkout.venv), "dev": False}
    assert all(line.startswith("bisect-bot: ") for line in err.splitlines())
    assert "installing" in err


def test_a_second_start_says_and_installs_nothing(prepared: Checkout) -> None:
    status, out, err = prepared.run("3")
    assert (status, err) == (3, "")
    assert json.loads(out)["prefix"] == str(prepared.venv)
    assert not (prepared.root / "building").exists()


def test_a_changed_pyproject_is_installed_again(prepared: Checkout) -> None:
    prepared.outdate()
    _, _, err = prepared.run()
    assert "installing" in err
    assert prepared.run()[2] == ""


@posix_only
def test_an_environment_whose_making_was_interrupted_is_made_and_filled(prepared: Checkout) -> None:
    (prepared.venv / "stamp.json").unlink()
    for folder in prepared.venv.glob("lib/*/site-packages"):
        shutil.rmtree(folder)
    status, _, err = prepared.run()
    assert status == 0
    assert "preparing" in err
    assert "installing" in err


@posix_only
def test_after_a_kill_the_orphaned_pip_is_waited_for_and_the_install_done_again(prepared: Checkout) -> None:
    prepared.outdate()
    (prepared.root / "slow").touch()
    killed = prepared.start()
    prepared.wait_for("building")
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)
    second = prepared.start()
    assert second.stderr is not None
    waiting = second.stderr.readline()
    (prepared.root / "slow").unlink()
    _, err = second.communicate(timeout=120)
    assert second.returncode == 0
    assert "waiting" in waiting
    assert "preparing" not in err
    assert "installing" in err


@posix_only
def test_an_environment_whose_python_is_gone_is_made_anew(prepared: Checkout) -> None:
    for link in (prepared.venv / "bin").glob("python*"):
        link.unlink()
        link.symlink_to("/nowhere/python3")
    status, out, _ = prepared.run()
    assert status == 0
    assert json.loads(out)["prefix"] == str(prepared.venv)


@posix_only
def test_an_environment_that_lost_a_requirement_is_repaired(prepared: Checkout) -> None:
    for path in prepared.venv.glob("lib/*/site-packages/tiny_needed*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    status, _, err = prepared.run()
    assert status == 0
    assert "installing" in err


def test_the_development_group_is_added_when_asked_for_and_kept_afterwards(prepared: Checkout) -> None:
    status, out, err = prepared.run(module="tests")
    assert (status, json.loads(out)["dev"]) == (0, True)
    assert "preparing" not in err
    prepared.outdate()
    assert "installing" in prepared.run()[2]
    assert prepared.run(module="tests")[2] == ""


def test_two_starts_at_once_install_once(prepared: Checkout) -> None:
    prepared.outdate()
    (prepared.root / "slow").touch()
    first = prepared.start("1")
    prepared.wait_for("building")
    second = prepared.start("2")
    assert second.stderr is not None
    waiting = second.stderr.readline()
    (prepared.root / "slow").unlink()
    endings = [process.communicate(timeout=60) for process in (first, second)]
    assert [first.returncode, second.returncode] == [1, 2]
    assert "waiting" in waiting
    assert "installing" in endings[0][1]
    assert "installing" not in endings[1][1]


@posix_only
def test_ctrl_c_during_the_install_ends_cleanly_and_the_next_start_completes_it(prepared: Checkout) -> None:
    prepared.outdate()
    (prepared.root / "slow").touch()
    process = prepared.start()
    prepared.wait_for("building")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == Exit.STOPPED
    assert "interrupted" in err
    assert "Traceback" not in err
    (prepared.root / "slow").unlink()
    assert prepared.run("5")[0] == 5


@pytest.mark.parametrize(("command", "status"), [("run", Exit.UNUSABLE), ("check", CheckExit.UNUSABLE)])
def test_a_failed_install_shows_pip_and_is_no_verdict(checkout: Checkout, command: str, status: int) -> None:
    (checkout.root / "pyproject.toml").write_text(PYPROJECT.replace("tiny-needed>=1.2", "tiny-needed>=9"))
    code, out, err = checkout.run(command)
    assert code == status
    assert out == ""
    assert "installing failed" in err
    assert "pip install" in err


def test_a_broken_import_in_check_is_no_verdict(prepared: Checkout) -> None:
    command_line = prepared.root / "bisect_bot/cli/__init__.py"
    command_line.write_text("import nothing_of_that_name\n")
    try:
        assert prepared.run("check", "1.20.1")[0] == CheckExit.BUG
        assert prepared.run("run")[0] == Exit.BUG
    finally:
        command_line.write_text(COMMAND_LINE)


def test_an_installed_package_prepares_nothing(tmp_path: Path, checkout: Checkout) -> None:
    shutil.copytree(checkout.root / "bisect_bot", tmp_path / "bisect_bot")
    (tmp_path / "tiny_needed.py").touch()
    installed = Checkout(tmp_path, tmp_path)
    status, out, err = installed.run("4")
    assert (status, err) == (4, "")
    assert json.loads(out)["prefix"] == sys.prefix
    assert not installed.venv.exists()


@posix_only
def test_ctrl_c_is_left_to_the_child_where_the_parent_has_to_wait(tmp_path: Path) -> None:
    child = (
        "import sys, time\n"
        "try:\n    print('ready', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    time.sleep(0.3); sys.exit(9)\n"
    )
    parent = (
        "import os, sys; from bisect_bot import bootstrap\n"
        f"sys.exit(bootstrap.wait_for([sys.executable, '-c', {child!r}], os.environ))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent], cwd=bootstrap.ROOT, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 9


def test_a_long_step_says_that_it_goes_on() -> None:
    said: list[str] = []
    with bootstrap.ticking("installing", said.append, every_s=0.05):
        time.sleep(0.3)
    assert len(said) >= 2
    assert all(line.startswith("installing … ") for line in said)
