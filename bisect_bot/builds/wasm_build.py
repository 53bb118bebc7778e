"""The full build of a commit's WebAssembly: upstream's own, in a clone and a worktree of its own. It takes hours."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bisect_bot.builds.commands import MINUTE_S, Commands, Failed
from bisect_bot.builds.parts import link_or_copy
from bisect_bot.builds.recipes import FullBuild, Recipe
from bisect_bot.errors import BuildFailed, BuildUnusable
from bisect_bot.processes import run
from bisect_bot.scratch import scratch

FULL_S = 4 * 60 * MINUTE_S
FETCH_S = 60 * MINUTE_S
_BUILD = "the WebAssembly build"
_ASK_S = 20.0
_GIB = 2**30
_ROOM = 20 * _GIB
EMSDK = "https://github.com/emscripten-core/emsdk.git"
# Test data and other languages are most of upstream's tree and no part of a build. Clones that lack large files lack
# those there.
_SPARSE = (
    "/*", "!/onnxruntime/test/testdata/", "!/onnxruntime/test/python/", "!/csharp/", "!/docs/", "!/java/", "!/js/",
    "!/objectivec/", "!/samples/", "!/winml/",
)  # fmt: skip
_GIT = (
    "git", "-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "advice.detachedHead=false",
)  # fmt: skip
# What the output of a failed build says, and what it means.
_CLASSES = (
    (r"Could not resolve host|unable to access '|Connection (refused|timed out|reset)|URLError|Failed to connect|"
     r"Temporary failure in name resolution|Name or service not known",
     "the network cannot be reached from here"),
    (r"invalid object|unable to read (tree|sha1 file)|missing blob|bad object|could not fetch",
     "the clone lacks files that the build needs"),
    (r"Running as root is not allowed", "upstream's build refuses to run as root"),
    (r"CMake \d[\w.]+ or higher is required", "cmake is too old"),
    (r"CMAKE_MAKE_PROGRAM|unable to find a build program", "neither ninja nor make is there"),
    (r"Out of memory|Cannot allocate memory|Killed signal terminated|std::bad_alloc", "there is too little memory"),
    (r"unrecognized arguments", "this commit's build.py knows other options than the recipe's"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Whether the full build can run on this machine; what it lacks for it, and what to do."""

    able: bool
    lacking: tuple[str, ...]
    advice: str = ""


@dataclass(frozen=True, slots=True)
class FullBuilder:
    """Builds commits of the clone at `clone` (only read) in folders below the `tmp` of `commands`."""

    clone: Path
    commands: Commands

    def build(self, recipe: Recipe, commit: str, bundle: str, into: Path) -> None:
        """Builds the WebAssembly that the bundle `bundle` fetches from the commit of the full id `commit`.

        The files go to the folder `into`; of the rest nothing is left. Raises BuildUnusable with what went wrong and
        where the log is, DiskFull, OSError.
        """
        wanted = [full for full in recipe.full if bundle in full.bundles]
        if not wanted:
            raise BuildUnusable(f"there is no full build for the bundle {bundle} of the era {recipe.name!r}")
        subject = commit[:10]
        with scratch(self.commands.tmp) as place:
            root = place.path / "src"
            try:
                self._clone(root, commit, subject, place.path)
                for full in wanted:
                    self._run(full, root, subject, into)
            except Failed as error:
                raise _classified(error) from error

    def _clone(self, root: Path, commit: str, subject: str, place: Path) -> None:
        """A clone that borrows the objects, with the commit's files and its submodules."""
        git = replace(self.commands, environment={**self.commands.environment, **_QUIET})
        steps: list[tuple[str, list[str], Path]] = [
            ("cloning", ["clone", "--shared", "--no-checkout", "--no-tags", str(self.clone), str(root)], place),
            ("choosing files", ["sparse-checkout", "set", "--no-cone", *_SPARSE], root),
            ("checking out", ["checkout", "--detach", "--force", commit], root),
        ]
        for step, words, cwd in steps:
            git.run(step, [*_GIT, *words], cwd=cwd, subject=subject, timeout_s=FETCH_S)
        if (root / ".gitmodules").is_file():
            words = ["submodule", "update", "--init", "--recursive", "--depth", "1"]
            git.run("fetching submodules", [*_GIT, *words], cwd=root, subject=subject, timeout_s=FETCH_S)

    def _run(self, full: FullBuild, root: Path, subject: str, into: Path) -> None:
        what = _BUILD
        where = root / full.folder
        log = self.commands.run(what, full.command, cwd=where, subject=subject, timeout_s=FULL_S)
        lacking = [name for name in full.products if not (root / full.source / name).is_file()]
        if lacking:
            raise BuildFailed(f"{what} ended well but made no {', '.join(lacking)}", f"The log is at {log}")
        for product, name in full.products.items():
            link_or_copy(root / full.source / product, into / name)


# Nothing of the environment may point git elsewhere, and nothing may ask for a password.
_QUIET: dict[str, str | None] = {
    **dict.fromkeys(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_TEMPLATE_DIR")),
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
}


def toolchain(recipe: Recipe, cache: Path, *, reaches: bool | None = None) -> Toolchain:
    """Whether the full build of `recipe` can run here, with the folder `cache` for its files.

    Asks the programs for their versions. `reaches` is what `reaches_emsdk` said (None: it is asked when nothing else
    lacks, which takes seconds).
    """
    lacking = [*_programs(recipe.cmake), *_room(cache)]
    if (not lacking and not reaches_emsdk()) if reaches is None else not reaches:
        lacking = ["a way to github.com, from where submodules and emsdk come"]
    if not recipe.full:
        lacking = [f"a recipe for the WebAssembly of the era {recipe.name!r}"]
    advice = "Install what is missing; a full build takes an hour or more and 20 GB." if lacking else ""
    return Toolchain(not lacking, tuple(lacking), advice)


def words() -> dict[str, str]:
    """What placeholders of a full build's command stand for."""
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return {
        "python": sys.executable,
        "as_root": "--allow_running_as_root" if as_root else "",
        "jobs": str(os.cpu_count() or 1),
    }


def _programs(cmake: str) -> Iterable[str]:
    if shutil.which("git") is None:
        yield "git"
    found = _version("cmake")
    if found is None or found < tuple(int(part) for part in cmake.split(".")):
        have = f" (here is {'.'.join(map(str, found))})" if found else ""
        yield f"cmake {cmake} or newer{have}"
    if shutil.which("ninja") is None and shutil.which("make") is None and sys.platform != "win32":
        yield "ninja or make"


def _version(program: str) -> tuple[int, ...] | None:
    path = shutil.which(program)
    try:
        said = run([path, "--version"], timeout_s=_ASK_S).stdout if path else ""
    except OSError:
        return None
    number = re.search(r"\d+(\.\d+)+", said)
    return tuple(int(part) for part in number[0].split(".")) if number else None


def _room(cache: Path) -> Iterable[str]:
    there = next((path for path in (cache, *cache.parents) if path.exists()), None)
    free = shutil.disk_usage(there).free if there else 0
    if free < _ROOM:
        yield f"{_ROOM // _GIB} GB of disk for {cache} (free: {free // _GIB} GB)"


def reaches_emsdk() -> bool:
    """Whether emsdk, with which WebAssembly is compiled, can be had from the network. Takes seconds."""
    if shutil.which("git") is None:
        return False
    try:
        env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        return run([*_GIT, "ls-remote", "--exit-code", EMSDK, "HEAD"], timeout_s=_ASK_S, env=env).status == 0
    except OSError:
        return False


def _classified(error: Failed) -> BuildFailed:
    said = f"{error.output}\n{error.reason}"
    meaning = next((meaning for pattern, meaning in _CLASSES if re.search(pattern, said)), None)
    why = f"{meaning} ({error.reason})" if meaning else error.reason
    # All that is known by name but the last is this machine's; cloning is, too.
    lasting = not error.is_of_the_machine and error.step == _BUILD and meaning in (None, _CLASSES[-1][1])
    return BuildFailed(f"{error.step} failed: {why}", f"The log is at {error.log}", lasting=lasting)
