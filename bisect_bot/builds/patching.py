"""Changes a commit's files by a git diff before they are built."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bisect_bot.builds.checkout import Folder, Listing
from bisect_bot.builds.commands import Commands, Failed
from bisect_bot.builds.package import blob_id
from bisect_bot.errors import BuildUnusable
from bisect_bot.processes import run

_APPLY_S = 60.0


def apply(patch: bytes, folder: Folder, listing: Listing, commands: Commands, subject: str) -> Listing:
    """Applies the git diff `patch` to the files in `folder`, and returns their new listing.

    The next commit that is written there takes it back. Raises BuildUnusable when it does not apply cleanly (then
    nothing was changed), OSError.
    """
    commands.tmp.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=commands.tmp, suffix=".diff", delete=False) as file:
        file.write(patch)
    try:
        touched = _touched(Path(file.name), folder.root)
        # Before they are changed: a kill in the middle has to be noticed.
        folder.overlay(dict.fromkeys(touched))
        command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", file.name]
        elsewhere = commands_outside(commands, folder.root)
        elsewhere.run("applying the diff", command, cwd=folder.root, subject=subject, timeout_s=_APPLY_S)
    except Failed as error:
        raise BuildUnusable(f"the diff does not apply cleanly: {error.reason}", f"The log is at {error.log}") from error
    finally:
        Path(file.name).unlink(missing_ok=True)
    changed = dict(listing)
    for path in touched:
        target = folder.root / path
        changed.pop(path, None)
        if target.is_file():
            changed[path] = (listing.get(path, ("100644", ""))[0], blob_id(target.read_bytes()))
    return changed


def commands_outside(commands: Commands, root: Path) -> Commands:
    """`commands`, for a git that sees no repository around `root`: within one it would pass over files in silence."""
    elsewhere = {**commands.environment, "GIT_CEILING_DIRECTORIES": str(root.parent.resolve()), "GIT_DIR": None}
    return Commands(commands.logs, commands.tmp, commands.words, {**elsewhere, "GIT_WORK_TREE": None})


def _touched(patch: Path, root: Path) -> list[str]:
    """The paths that the diff changes."""
    env = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    env["GIT_CEILING_DIRECTORIES"] = str(root.parent.resolve())
    done = run(["git", "apply", "--numstat", "-z", str(patch)], timeout_s=_APPLY_S, cwd=root, env=env)
    if done.status != 0:
        raise BuildUnusable(f"the diff does not apply cleanly: {' '.join(done.stderr.split())[:200]}")
    return [row.split("\t", 2)[2] for row in done.stdout.split("\0") if row.count("\t") >= 2]
