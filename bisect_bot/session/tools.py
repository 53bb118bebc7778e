"""What a bench works with: everything outside, as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bisect_bot.model import Artifact, Bundle, Case, Observation, Revision, Verdict
from bisect_bot.probes import Probe, run_probe
from bisect_bot.session.journal import Journal
from bisect_bot.session.loop import Foresight
from bisect_bot.session.watcher import Watcher
from bisect_bot.targets.browsers import BrowserConfig

Observe = Callable[[Probe, BrowserConfig, Callable[[int, Observation], None]], list[Observation]]


@dataclass(frozen=True, slots=True)
class Tools:
    """What a bench works with.

    `fetch` gives a revision's artifact and whether it was in the cache, `is_intact` whether its bytes are
    unchanged, `bundle_for` the file that a page loads of it for a backend, `judge` a verdict; `rules` is a digest of
    what the judge goes by. `observe` runs a probe. `lent` tells which published build's WebAssembly stands in for a
    revision's own and the commits that it lacks, `other_parts` hears that a revision's parts do not fit, and whether
    others can be tried. `foresee` hears before a test what may be wanted after it, and `took` tells the seconds that a
    build took that was made ahead.
    """

    journal: Journal
    judge: Callable[[Observation, Case], Verdict]
    rules: str
    browsers: BrowserConfig
    fetch: Callable[[Revision], tuple[Artifact, bool]]
    is_intact: Callable[[Artifact], bool]
    bundle_for: Callable[[Revision, str], Bundle]
    watcher: Watcher
    observe: Observe = run_probe
    lent: Callable[[Revision], tuple[str, tuple[str, ...]]] = lambda _: ("", ())
    other_parts: Callable[[Revision], bool] = lambda _: False
    foresee: Callable[[Foresight], None] = lambda _: None
    took: Callable[[Revision], float] = lambda _: 0.0
