"""Examines this machine: what of the main job works here, what does not, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bisect_bot.doctor import places, programs
from bisect_bot.doctor.browsers import browsers
from bisect_bot.doctor.compared import Keep, nothing_kept
from bisect_bot.doctor.items import Examination, Item, State, examination, guarded
from bisect_bot.doctor.recipes import recipes
from bisect_bot.targets.browsers import check_name, load_config

__all__ = ["Examination", "Item", "State", "examine"]


def examine(
    repo: Path | None = None,
    doing: Callable[[str], None] = lambda _: None,
    targets: Sequence[str] = (),
    keep: Keep = nothing_kept,
) -> Examination:
    """Looks at everything, one thing after the other, each within a time limit; `doing` hears what is looked at.

    `repo` is a clone of onnxruntime to be looked at too, `targets` are the browsers to look at instead of all that are
    found. Nothing is installed or downloaded; `keep` hears which adapters the browsers gave. Raises UsageError for a
    target that nobody knows.
    """
    config = load_config()
    for target in targets:
        check_name(target, config)
    looks: list[tuple[str, Callable[[], Iterator[Item]], bool]] = [
        ("system", places.system, False),
        ("python", programs.packages, True),
        ("browser", lambda: browsers(config, targets, keep), True),
        ("npm", programs.npm, True),
        ("programs", programs.programs, False),
        ("recipe", recipes, False),
        ("disk", places.disks, True),
        ("shared-memory", places.shared_memory, False),
    ]
    if repo is not None:
        looks.append(("repo", partial(places.clone, repo), False))
    found: list[Item] = []
    for key, look, needed in looks:
        doing(f"looking at: {key}")
        found += guarded(key, look, needed=needed)
    return examination(tuple(found))
