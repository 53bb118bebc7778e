"""Many cases that were named at once, by their folder, archive or list."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from bisect_bot.cases.making import Making, Source
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError, CaseUnsupported
from bisect_bot.model import Case

Member = Callable[[Making], Sequence[Case]]


def together(label: str, texts: Sequence[str], source_of: Callable[[str], Source]) -> Source:
    """All that `texts` name, each of which `source_of` makes a source of, as one set; `label` names it in errors."""
    members: list[Member] = []
    free: dict[str, None] = {}
    for text in texts:
        try:
            source = source_of(text)
        except CaseError as error:
            members.append(functools.partial(_refused, error))
            continue
        members.append(functools.partial(_own_sizes, source))
        free.update(dict.fromkeys(source.free))
    return Source(lambda making: make_set(label, members, making), tuple(free))


def make_set(label: str, members: Sequence[Member], making: Making) -> list[Case]:
    """The cases of all `members`, in order. `label` names the set in errors.

    Of several, those that no build could be given (strings, sequences, …) are left out, which `making.say` is told.
    Raises CaseError when one is damaged, naming the first of them and how many there are, and when none is left.
    """
    made: list[Case] = []
    broken: list[CaseError] = []
    unsupported: list[CaseError] = []
    for member in members:
        try:
            made += member(making)
        except CaseUnsupported as error:
            unsupported.append(error)
        except CaseError as error:
            broken.append(error)
    if broken:
        others = f" (one of {len(broken)} that cannot be read, of {len(members)})" if len(members) > 1 else ""
        raise CaseError(f"{broken[0]}{others}", broken[0].advice)
    if unsupported and not made:
        raise unsupported[0]
    if unsupported:
        making.say(
            f"{one_line(label)}: {len(unsupported)} of {len(members)} cases are left out, because they cannot be run; "
            f"the first: {unsupported[0]}"
        )
    return made


def _refused(error: CaseError, _making: Making) -> Sequence[Case]:
    raise error


def _own_sizes(source: Source, making: Making) -> Sequence[Case]:
    return source.make(making.only(source.free))
