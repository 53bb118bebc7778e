"""Remembers with which flags a browser gave which adapter, so that the next session need not start it to find out.

What is remembered holds for this machine, browser, driver and desktop as they are: each of them is part of the key.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bisect_bot.model import Target
from bisect_bot.session.journal import Journal
from bisect_bot.session.machine import gpu_environment, signs
from bisect_bot.targets.browsers import Browser, BrowserConfig, kind_of
from bisect_bot.targets.facts import gather
from bisect_bot.targets.obstacles import obstacles
from bisect_bot.targets.wrappers import scripts

# The wishes that everybody has; others are regexes.
COMMON_WISHES = ("any", "hardware", "software")
_KIND = "target"
_Here = dict[str, Any]
_TARGET = TypeAdapter(Target)


@dataclass(frozen=True, slots=True)
class AdapterMemory:
    """What `journal` remembers of the adapters that browsers gave here, started with the flags of `config`."""

    journal: Journal
    config: BrowserConfig

    def recall(self, browser: Browser, wish: str, extra: tuple[str, ...]) -> Target | None:
        """The target that `browser` was for an adapter wish; None when it is not known, or anything is another now."""
        try:
            return _TARGET.validate_python(self.journal.remembered(_KIND, self._key(_here(browser), wish, extra)))
        except ValidationError:
            return None

    def keep(self, browser: Browser, found: Target) -> None:
        """Remembers that `browser` gave the adapter of `found` with its flags."""
        self._keep(_here(browser), found)

    def forget(self, target: Target) -> None:
        """Makes the next session look anew: `target` did not give its adapter, or gave another."""
        browser = Browser(kind_of(target.name), Path(target.executable), target.version, target.product)
        here = _here(browser)
        # What one wish was told is what the others were: the browser is the same.
        for wish in dict.fromkeys((target.wish, *COMMON_WISHES)):
            self.journal.remember(_KIND, self._key(here, wish, target.extra_args), None)

    def learn(self, browser: Browser, seen: Mapping[str, Target]) -> tuple[str, ...]:
        """Remembers, for each common wish, which of the targets in `seen` it gets: what each set of flags gave.

        Returns the wishes that get one. A wish whose better flags were not tried gets none.
        """
        learnt, here = [], _here(browser)
        for wish in COMMON_WISHES:
            for flag_set in self.config.flag_sets(wish):
                found = seen.get(flag_set)
                if found is None:
                    break
                if found.adapter is None or not self.config.fits(found.adapter, wish):
                    continue
                self._keep(here, replace(found, wish=wish))
                learnt.append(wish)
                break
        return tuple(learnt)

    def _keep(self, here: _Here, found: Target) -> None:
        key = self._key(here, found.wish, found.extra_args)
        self.journal.remember(_KIND, key, _TARGET.dump_python(found, mode="json"))

    def _key(self, here: _Here, wish: str, extra: tuple[str, ...]) -> str:
        """All that decides which adapter a browser gives: none of it needs the browser to be started."""
        name = here["browser"][0]
        sets = self.config.flag_sets(wish)
        flags = [self.config.args_of(name), *((each, self.config.flags_of(each)) for each in sets)]
        return json.dumps({**here, "flags": flags, "wish": [wish, *extra]})


def _here(browser: Browser) -> _Here:
    """What of a key is the same for all wishes: looking at the machine may start programs of the system."""
    return {
        "machine": [platform.node(), *(each.key for each in obstacles(gather()))],
        "browser": [browser.name, str(browser.executable), browser.version, browser.product],
        "files": [*signs(browser.executable), *scripts(browser.executable)],
        "environment": gpu_environment(),
    }
