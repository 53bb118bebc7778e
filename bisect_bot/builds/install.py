"""npm's packages: installed once for equal package files, and linked into every folder that needs them.

modules/<digest>/…      package files and node_modules, complete once it has that name
modules/<digest>.lock   held while they are installed
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import filelock

from bisect_bot.builds import npm
from bisect_bot.builds.checkout import NODE_MODULES, Folder, Listing
from bisect_bot.builds.commands import Commands, Failed
from bisect_bot.builds.disk import used
from bisect_bot.builds.node import Node
from bisect_bot.builds.recipes import Recipe
from bisect_bot.processes import Completed
from bisect_bot.scratch import scratch

# What npm says when the commit's package files are to blame, whatever the machine.
_OF_THE_COMMIT = {"EUSAGE", "E404", "ETARGET", "ENOVERSIONS", "EJSONPARSE", "ERESOLVE", "EINVALIDPACKAGENAME"}


@dataclass(frozen=True, slots=True)
class Modules:
    """The packages below `cache`, installed by `commands` where they are not there. `files` decide which they are."""

    cache: Path
    commands: Commands
    node: Node
    files: tuple[str, ...]
    doing: Callable[[str], None]

    def digest(self, recipe: Recipe, listing: Listing) -> str:
        """Hex, over the package files and all else that decides what is installed."""
        parts = [f"node {self.node.major}", sys.platform, platform.machine()]
        parts += [step.model_dump_json() for step in recipe.install]
        parts += [f"{path} {listing[path][1]}" for path in self._files(listing)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    def bring(self, folder: Folder, recipe: Recipe, listing: Listing, subject: str) -> str:
        """Puts the packages of `listing` into `folder` and returns their digest.

        Raises NpmError where npm cannot fetch them, BuildUnusable where the commit's package files are to blame,
        DiskFull, OSError.
        """
        digest = self.digest(recipe, listing)
        places = tuple(dict.fromkeys(step.folder for step in recipe.install))
        if folder.state.modules == digest and all((folder.root / place / NODE_MODULES).is_dir() for place in places):
            return digest
        source = self._installed(digest, recipe, folder.root, self._files(listing), subject)
        folder.state.modules = ""
        folder.save()
        for place in places:
            target = folder.root / place / NODE_MODULES
            shutil.rmtree(target, ignore_errors=True)
            if (source / place / NODE_MODULES).is_dir():
                _link(source / place / NODE_MODULES, target, source, folder.root)
            else:
                target.mkdir(parents=True)
        folder.state.modules = digest
        folder.save()
        return digest

    def _files(self, listing: Listing) -> list[str]:
        extra = {f"{Path(path).parent.as_posix()}/.npmrc" for path in self.files}
        return sorted(path for path in listing if path in self.files or path in extra)

    def _installed(self, digest: str, recipe: Recipe, root: Path, files: Iterable[str], subject: str) -> Path:
        place = self.cache / "modules"
        target = place / digest
        place.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            used(target)
            return target
        self.doing("installing npm packages (once for these versions of them)")
        with filelock.FileLock(place / f"{digest}.lock", thread_local=False), scratch(self.commands.tmp) as making:
            if target.is_dir():
                used(target)
                return target
            staged = making.path / "files"
            for path in files:
                (staged / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / path, staged / path)
            for step in recipe.install:
                where = staged / step.folder
                if (where / "package.json").is_file():
                    try:
                        self.commands.run(f"npm in {step.folder}", step.command, cwd=where, subject=subject)
                    except Failed as error:
                        raise _classified(error) from error
            staged.rename(target)
        return target


def _classified(error: Failed) -> Exception:
    """Whose fault it is: the commit's, or that of npm, its registry or the network."""
    done = Completed((), error.status, "", error.output)
    code, _ = npm.complaint(done)
    if error.status is not None and (not code or code in _OF_THE_COMMIT or code.isdigit()):
        return error.unusable()
    failure = npm.failure(done, "install the packages of a commit", None)
    failure.advice = f"{failure.advice} The log is at {error.log}"
    return failure


def _link(source: Path, target: Path, source_root: Path, target_root: Path) -> None:
    """Makes `target` the same as `source`: hard links to its files, links to the same place below the other root."""
    target.mkdir(parents=True)
    with os.scandir(source) as entries:
        for entry in entries:
            to = target / entry.name
            if entry.is_symlink() or _is_junction(entry.path):
                _link_again(Path(entry.path), to, source_root, target_root)
            elif entry.is_dir():
                _link(Path(entry.path), to, source_root, target_root)
            else:
                try:
                    os.link(entry.path, to)
                except OSError:
                    # Another disk, or a filesystem without hard links.
                    shutil.copy2(entry.path, to)


def _link_again(link: Path, to: Path, source_root: Path, target_root: Path) -> None:
    leads_to = link.resolve()
    with contextlib.suppress(ValueError):
        leads_to = target_root / leads_to.relative_to(source_root.resolve())
    # js/web's link to js/common has to lead to the one of this folder.
    if sys.platform == "win32" and link.is_dir():
        import _winapi  # noqa: PLC0415 - Windows only; links to folders need no rights as junctions

        _winapi.CreateJunction(str(leads_to), str(to))
    else:
        to.symlink_to(os.path.relpath(leads_to, to.parent.resolve()))


def _is_junction(path: str) -> bool:
    return bool(getattr(os.path, "isjunction", lambda _: False)(path))
