"""Everything outside that a session works with, opened together and closed together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bisect_bot import cases as case_files
from bisect_bot import paths, scratch
from bisect_bot.builds import Npm, Store, bundle_for, fetch, listing
from bisect_bot.builds.in_use import using
from bisect_bot.errors import BuildUnusable, NoAdapter, NpmError
from bisect_bot.history import load_ancestry, order_revisions
from bisect_bot.model import Artifact, Bundle, Case, CaseKind, Plan, Request, Revision, Target
from bisect_bot.probes import choose_target, plain_target
from bisect_bot.session.adapters import AdapterMemory
from bisect_bot.session.journal import FILE_NAME, Journal
from bisect_bot.session.judging import Judging, check_demands_of, judging
from bisect_bot.session.machine import gpu_environment
from bisect_bot.session.plans import refuse_repeats
from bisect_bot.session.watcher import Watcher
from bisect_bot.targets.browsers import Browser, BrowserConfig, check_name, identify, load_config, locate
from bisect_bot.targets.provision import find_or_get_browser
from bisect_bot.targets.wrappers import scripts
from bisect_bot.verdicts import Rules, Tolerances, load_rules, load_tolerances

TEMPORARY = "tmp"
NEEDS_ADAPTER = ("webgpu",)
ANY_ADAPTER = "any"


@dataclass(frozen=True, slots=True)
class Workshop:
    """The cache, the journal, npm (None: not installed), and the configured browsers and rules."""

    cache: Path
    journal: Journal
    npm: Npm | None
    browsers: BrowserConfig
    tolerances: Tolerances
    rules: Rules
    rules_digest: str
    watcher: Watcher

    def revisions(self) -> tuple[Revision, ...]:
        """All published builds in the order of history."""
        self.watcher.doing("listing the published builds")
        listed = listing(self.npm, self.cache)
        if listed.warning:
            self.watcher.say(listed.warning)
        return order_revisions(listed.versions, load_ancestry())

    def fetch(self, revision: Revision) -> tuple[Artifact, bool]:
        """The artifact of a published build, and whether it was in the cache. Raises BuildUnusable, NpmError, …"""
        if revision.version is None:
            raise BuildUnusable(f"{revision.id} is no published build")
        return fetch(revision.version, npm=self.npm, cache=self.cache, progress=self.watcher.downloading)

    def is_intact(self, artifact: Artifact) -> bool:
        """Whether the bytes of an artifact in the cache are unchanged; damaged ones are removed."""
        return Store(self.cache).is_intact(artifact)

    def judging(self, request: Request, cases: Sequence[Case]) -> Judging:
        """How observations of `cases` are judged for `request`."""
        return judging(request, cases, self.tolerances, self.rules, self.rules_digest)

    def bundle_for(self, revision: Revision, backend: str, wish: str) -> Bundle:
        """The file that a page loads of a published build for `backend`. Raises BuildUnusable."""
        if revision.version is None:
            raise BuildUnusable(f"{revision.id} is no published build")
        return bundle_for(revision.version, backend, wish)

    def pin(self, request: Request) -> tuple[Request, tuple[Case, ...]]:
        """The cases of `request` and the request with them pinned; those of a pinned one are found by digest."""
        if request.pinned:
            # A journal of an earlier version names no pages.
            pages = request.pages or ("",) * len(request.pinned)
            found = case_files.told_apart(
                tuple(
                    replace(case_files.load_pinned(digest, name, self.cache), page=page)
                    for (name, digest), page in zip(request.pinned, pages, strict=True)
                )
            )
            return replace(request, pinned=tuple((case.name, case.digest) for case in found)), found
        self.watcher.doing("reading the cases")
        making = case_files.Making(
            root=self.cache,
            dims=dict(request.dims),
            seed=request.seed,
            frames=request.frames,
            feed=request.feed,
            initial_state=request.initial_state,
            repo=request.repo,
            isolate=request.isolate,
            say=self.watcher.say,
        )
        found = case_files.load_all(request.cases, making)
        check_demands_of(request, found, self.rules)
        refuse_repeats(request, found)
        between = [case_files.load_between(request.between, making)] if request.between else []
        pinned, pinned_between = (tuple((case.name, case.digest) for case in each) for each in (found, between))
        pages = tuple(case.page for case in found)
        return replace(request, pinned=pinned, pages=pages, pinned_between=pinned_between), found

    def plan(self, request: Request) -> Plan:
        """How often, and around what, each case of a pinned `request` is run. Raises CaseError."""
        between = [case_files.load_pinned(digest, name, self.cache) for name, digest in request.pinned_between]
        return Plan(request.runs, request.recreate, request.sessions, request.fresh_pages, next(iter(between), None))

    def smoke(self) -> Case:
        """The trivial case that each new artifact runs first."""
        return case_files.smoke(self.cache)

    def targets(self, request: Request) -> tuple[Target, ...]:
        """The targets of `request`, each with the adapter that it gives. Raises NoBrowser, NoAdapter, UsageError."""
        found: list[Target] = []
        for name in request.targets:
            target = self._target(name, request)
            same = sum(other.name.partition("-")[0] == target.name for other in found)
            found.append(replace(target, name=f"{target.name}-{same + 1}") if same else target)
        return tuple(found)

    def check_targets(self, request: Request) -> None:
        """Raises UsageError when a target of `request` has a name that nobody knows."""
        for name in request.targets:
            check_name(name, self.browsers)

    def forget_adapters(self, targets: tuple[Target, ...]) -> None:
        """Makes the next session look for the adapters of `targets` anew."""
        for target in targets:
            AdapterMemory(self.journal, self.browsers).forget(target)

    def renewed(self, target: Target, request: Request) -> Target:
        """`target` as it is now: its browser's version and the adapter that it gives. Raises NoBrowser, NoAdapter."""
        executable = Path(target.executable)
        product, version = identify(executable)
        browser = Browser(target.name.partition("-")[0], executable, version, product)
        found = self._found(browser, request)
        self.watcher.using(f"{browser.name} {browser.version}", found.adapter)
        return replace(found, name=target.name)

    def _target(self, name: str, request: Request) -> Target:
        self.watcher.doing(f"looking for {name}")
        if ":" not in name and name in self.browsers.browsers:
            find_or_get_browser(name, say=self.watcher.say, ask=self.watcher.ask, repo=request.repo)
        browser = locate(name, self.browsers, request.repo)
        target = self._found(browser, request)
        self.watcher.using(f"{browser.name} {browser.version}", target.adapter)
        return target

    def _found(self, browser: Browser, request: Request) -> Target:
        """The target that `browser` is, with all that decided which adapter it gives."""
        target = self._looked_at(browser, request)
        flags = (*self.browsers.args_of(browser.name), *(self.browsers.flags_of(target.flags) if target.flags else ()))
        says = (*target.chosen_by, f"product: {browser.product}", *scripts(browser.executable))
        return replace(target, chosen_by=(*flags, *gpu_environment(), *says))

    def _looked_at(self, browser: Browser, request: Request) -> Target:
        if not set(request.backends) & set(NEEDS_ADAPTER):
            return plain_target(browser, request.adapter, request.browser_args)
        try:
            return self._with_adapter(browser, request)
        except NoAdapter as error:
            if request.adapter != ANY_ADAPTER or not self._are_scripts(request):
                raise
            # A script may name a provider to fall back to; one that does not fails, and is no verdict then.
            self.watcher.say(f"{error}. Going on without one: scripts choose their own providers.")
            return plain_target(browser, request.adapter, request.browser_args)

    def _are_scripts(self, request: Request) -> bool:
        cases = (case_files.load_pinned(digest, name, self.cache) for name, digest in request.pinned)
        return bool(request.pinned) and all(case.kind is CaseKind.SCRIPT for case in cases)

    def _with_adapter(self, browser: Browser, request: Request) -> Target:
        """The target, remembered from an earlier session or look of `doctor` where nothing became another since."""
        memory = AdapterMemory(self.journal, self.browsers)
        remembered = memory.recall(browser, request.adapter, request.browser_args)
        if remembered is not None:
            return remembered
        self.watcher.doing(f"looking for the GPU adapters of {browser.name}")
        target = choose_target(browser, request.adapter, request.browser_args, self.browsers)
        memory.keep(browser, target)
        return target


@contextmanager
def open_workshop(watcher: Watcher, cache: Path | None = None) -> Iterator[Workshop]:
    """The workshop over `cache` (default: the cache's root), after sweeping what killed sessions left behind.

    Raises ConfigError, JournalError, DiskFull.
    """
    cache = cache or paths.cache_root()
    scratch.sweep()
    scratch.sweep(cache / TEMPORARY)
    tolerances, rules = paths.config_file("tolerances.toml"), paths.config_file("verdicts.toml")
    with using(cache), Journal.open(cache / FILE_NAME) as journal:
        yield Workshop(
            cache=cache,
            journal=journal,
            npm=_npm(),
            browsers=load_config(),
            tolerances=load_tolerances(tolerances),
            rules=load_rules(rules),
            rules_digest=hashlib.sha256(tolerances.read_bytes() + rules.read_bytes()).hexdigest(),
            watcher=watcher,
        )


def _npm() -> Npm | None:
    """The npm client; without it, what is in the cache can still be tested."""
    try:
        return Npm.find()
    except NpmError:
        return None
