"""Makes the bundles of a commit with upstream's own fast build."""

from __future__ import annotations

import re
from pathlib import Path

from bisect_bot.builds.commands import Commands, Failed
from bisect_bot.builds.recipes import Recipe
from bisect_bot.errors import BuildFailed

# The last line of an unminified bundle; with it, a changed comment would be another artifact.
_SOURCE_MAP = re.compile(rb"\n//# sourceMappingURL=data:[^\n]*\n?\Z")


def build_bundles(recipe: Recipe, root: Path, into: Path, commands: Commands, subject: str) -> None:
    """Runs the fast build of `recipe` in the commit's files at `root` and writes what it makes to the folder `into`.

    Raises BuildFailed when it fails or makes something else than the recipe says, DiskFull, OSError.
    """
    into.mkdir(parents=True, exist_ok=True)
    for build in recipe.build:
        for path in build.products:
            (root / path).unlink(missing_ok=True)
        try:
            log = commands.run("the TypeScript build", build.command, cwd=root / build.folder, subject=subject)
        except Failed as error:
            raise error.unusable() from error
        for path, name in build.products.items():
            data = (root / path).read_bytes() if (root / path).is_file() else b""
            if not data:
                raise BuildFailed(f"the TypeScript build ended well but made no {path}", f"The log is at {log}")
            (into / name).write_bytes(_SOURCE_MAP.sub(b"\n", data))
    _check(recipe, into, subject)


def _check(recipe: Recipe, into: Path, subject: str) -> None:
    """Removes optional bundles that are not what their names say. Raises BuildFailed for another one."""
    for name, bundle in recipe.bundle.items():
        path = into / bundle.file
        if not bundle.proof or not path.is_file() or bundle.proof.encode() in path.read_bytes():
            continue
        if not bundle.optional:
            raise BuildFailed(
                f"what {subject} builds as the bundle {name} is another one: {bundle.proof} is not in it",
                "Upstream may have changed its build: see configs/recipes.toml.",
            )
        path.unlink()
