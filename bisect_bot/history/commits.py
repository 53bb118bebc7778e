"""The commits of a range with the digests of what their builds depend on, by three git processes in all."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

from bisect_bot.errors import UsageError
from bisect_bot.history.changes import Entry, first_parents, one, tree
from bisect_bot.history.ends import full_id, why_not_a_range
from bisect_bot.history.git import Git
from bisect_bot.history.inputs import Content, Inputs
from bisect_bot.history.mainline import MainLine, read_main_line, utc_day
from bisect_bot.model import Commit, Revision

__all__ = ["SHORT", "Inputs", "commit", "id_lengths", "plan", "revision"]

# Digits of a commit's id that a person types.
SHORT = 10
Keys = tuple[tuple[str, str], ...]
Files = tuple[tuple[str, tuple[str, ...]], ...]


def plan(git: Git, old: str, new: str, inputs: Inputs) -> tuple[Commit, ...]:
    """The first-parent commits from `old` to `new`, both included, oldest first; `keys` as `Content.keys` gives them.

    `old` and `new` are whatever git takes for a commit; full ids save two processes. Raises UsageError when `old` is
    not on the first-parent line below `new` (it says what is wrong with the two), or the clone lacks what is asked.
    """
    old, new = full_id(git, old), full_id(git, new)
    with ThreadPoolExecutor(1) as aside:
        # Meanwhile: a quarter of a second of git's, in which nothing here has to wait for it.
        reading = aside.submit(read_main_line, git)
        replayed = _replay(git, old, new, inputs)
        main = reading.result()
    digits = id_lengths([entry.commit for entry, _, _ in replayed])
    return tuple(Commit(revision(entry, main, digits[entry.commit]), keys, files) for entry, keys, files in replayed)


def _replay(git: Git, old: str, new: str, inputs: Inputs) -> list[tuple[Entry, Keys, Files]]:
    """Each commit from `old` to `new` with its keys and what it changes of the inputs.

    Raises UsageError, which says why there is no way between them.
    """
    replayed: list[tuple[Entry, Keys, Files]] = []
    try:
        content = _content_of(git, old, inputs)
        for entry in first_parents(git, old, new):
            if not replayed and entry.commit != old:
                break
            if replayed:
                content.change(entry.changes)
            # Of the changes only the paths of inputs are kept: thousands of commits have many.
            files = content.groups_of(change.path for change in entry.changes)
            replayed.append((replace(entry, changes=()), content.keys(), files))
    except UsageError as error:
        raise why_not_a_range(git, old, new) or error from error
    if not replayed:
        raise why_not_a_range(git, old, new) or UsageError(
            f"{old[:SHORT]} is not on the first-parent line of {new[:SHORT]} in {git.repo}.",
            "Name two commits of main.",
        )
    return replayed


def commit(git: Git, sha: str, inputs: Inputs) -> Commit:
    """One commit alone, with the keys that it has in any range. Raises UsageError where the clone lacks it."""
    full = full_id(git, sha)
    return Commit(revision(one(git, full), read_main_line(git)), _content_of(git, full, inputs).keys())


def revision(entry: Entry, main: MainLine | None, digits: int = SHORT) -> Revision:
    """The revision that `entry` is. `on_main` is None where the clone has no main to compare with."""
    return Revision(
        id=entry.commit[:digits],
        commit=entry.commit,
        date=utc_day(entry.seconds),
        title=entry.title,
        on_main=entry.commit in main.position if main else None,
    )


def _content_of(git: Git, sha: str, inputs: Inputs) -> Content:
    content = Content(inputs)
    content.change(tree(git, sha, inputs.paths))
    return content


def id_lengths(commits: Sequence[str]) -> dict[str, int]:
    """How many digits tell each commit from the others: `SHORT`, or more where two share so many."""
    lengths = dict.fromkeys(commits, SHORT)
    for a, b in pairwise(sorted(lengths)):
        if a[:SHORT] == b[:SHORT]:
            needed = next(at for at, (x, y) in enumerate(zip(a, b, strict=True)) if x != y) + 1
            lengths[a], lengths[b] = max(lengths[a], needed), max(lengths[b], needed)
    return lengths
