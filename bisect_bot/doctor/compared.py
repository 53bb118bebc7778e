"""Targets that are to be compared: what each gave, and what beside the build may make their verdicts differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from bisect_bot.doctor.items import Item, State
from bisect_bot.model import Adapter, Target
from bisect_bot.targets.browsers import Browser

# Hears what a browser gave for each set of flags that was tried; returns the adapter wishes that it remembered it for.
Keep = Callable[[Browser, Mapping[str, Target]], tuple[str, ...]]


def nothing_kept(_browser: Browser, _gave: Mapping[str, Target]) -> tuple[str, ...]:
    """Remembers nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class Examined:
    """A browser that was named, as reports call it (`chrome-2`), and the target that each set of flags gave."""

    called: str
    browser: Browser
    gave: Mapping[str, Target]

    @property
    def started(self) -> str:
        """What it said that it was when it was started; its version where it did not start."""
        said = (", ".join(target.chosen_by) for target in self.gave.values() if target.chosen_by)
        return next(said, f"says chrome {self.browser.version}")

    @property
    def adapter(self) -> Adapter | None:
        """The adapter that is used unless told otherwise: the first that it gave."""
        return next((target.adapter for target in self.gave.values() if target.adapter is not None), None)

    @property
    def software(self) -> Adapter | None:
        """The software adapter that it gave, if any."""
        found = (target.adapter for target in self.gave.values() if target.adapter is not None)
        return next((adapter for adapter in found if adapter.software), None)


def apart(seen: Sequence[Examined]) -> Item:
    """What may make verdicts of several browsers differ with the same build: the browsers, their adapters."""
    differ = []
    if len({(each.browser.product, each.started) for each in seen}) > 1:
        differ.append("browser")
    if len({_identity(each.adapter) for each in seen}) > 1:
        differ.append("adapter")
    listed = "; ".join(
        f"{each.called} is {each.browser.product} {each.browser.version} on {each.adapter or 'no adapter'}"
        for each in seen
    )
    return Item(
        key="compared",
        state=State.OK if differ == ["browser"] else State.WARNING,
        value=listed,
        means=_means(seen, differ),
        details={"differ_by": list[JsonValue](differ)},
    )


def _means(seen: Sequence[Examined], differ: Sequence[str]) -> str:
    if not differ:
        return "the same browser and adapter twice: they differ in how they are started, if at all"
    if differ == ["browser"]:
        return "they differ by browser alone: what differs with the same build is the browser's"
    alike = len({_identity(each.software) for each in seen}) == 1 and seen[0].software is not None
    way = "; with --adapter software all have the same" if alike else ""
    return f"they differ by {' and '.join(differ)}: what differs with the same build may be the adapter's{way}"


def _identity(adapter: Adapter | None) -> tuple[str, str | None]:
    return (str(adapter), adapter.driver if adapter else None)
