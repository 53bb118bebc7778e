"""What a typed revision means in a clone: a commit, a tag, a branch, a day, or the commit of a published build."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bisect_bot.errors import UnknownRevision
from bisect_bot.history import published
from bisect_bot.history.changes import one
from bisect_bot.history.commits import SHORT, id_lengths, revision
from bisect_bot.history.ends import deepen, find_commit, is_shallow, shown
from bisect_bot.history.git import Git
from bisect_bot.history.mainline import MainLine, nearest, utc_day
from bisect_bot.model import Revision

_HEX = re.compile(r"[0-9a-f]{4,40}")
_FEWEST = 7
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Lookup:
    """Where revisions are looked up: a clone with its main, and the published builds in order.

    `say` hears of commits that stand for another.
    """

    git: Git
    main: MainLine
    builds: Sequence[Revision]
    say: Callable[[str], None]

    def resolve(self, text: str) -> Revision:
        """The commit that `text` means.

        In this order: a published version or `latest` (the commit that it was built from; of a build beside main the
        newest commit of main that it contains); a day (`2024-11-07`: the last commit of main on or before it, by
        committers' dates in UTC); what git takes for a commit (at least 7 digits of an id, a tag, a branch,
        `v1.20.1~3`); the commit in a dev build's name; the beginning of just one version. Raises UnknownRevision for
        anything else and for what means several, with what may have been meant.
        """
        word = published.typed(text)
        if not word.isprintable():
            raise UnknownRevision(f"{text!r} is no revision.", "Give a commit, a tag, a version or a day.")
        build = published.called(word, self.builds)
        if build:
            return self._of_build(build)
        day = published.day_called(word)
        if day:
            return self._on_day(day)
        commit = self._commit(word)
        if commit:
            return self._revision(commit)
        return self._otherwise(word)

    def moves(self, text: str) -> bool:
        """Whether `text` can mean another commit as soon as the clone is newer: a branch, or a day not yet over."""
        word = text.strip()
        day = published.day_called(word)
        if day:
            newest = utc_day(self.main.seconds[-1])
            return newest is None or day >= newest
        name = re.split(r"[~^@]", word)[0]
        return bool(name) and self._ref(f"refs/heads/{name}")

    def _of_build(self, build: Revision) -> Revision:
        """The commit of a published build, or the one of main that stands for it."""
        commit = self._commit(build.commit) if build.commit else ""
        if commit in self.main.position:
            return self._revision(commit)
        if not commit and build.main_ancestor is None and build.on_main is not False:
            raise self._lacks(
                f"the commit of {build.version}, {build.commit}" if build.commit else f"a commit for {build.version}"
            )
        below = build.main_ancestor or (nearest(self.git, [commit], self.main.position).get(commit) if commit else None)
        if below is None:
            raise UnknownRevision(
                f"Nobody knows which commit of main {build.version} grew from.", self._instead_of(build)
            )
        if below not in self.main.position:
            raise self._lacks(f"the commit of main that {build.version} grew from, {below[:SHORT]}")
        found = self._revision(below)
        made_from = f" from {build.commit[:SHORT]}" if build.commit else ""
        self.say(
            f"{build.version} was built beside main{made_from}: the commit of main below it, {found.id} of "
            f"{found.date}, stands for it"
        )
        return found

    def _instead_of(self, build: Revision) -> str:
        """What to type for a build that no commit of the clone's main stands for."""
        older = self.builds[: self.builds.index(build)] if build in self.builds else ()
        for each in reversed(older):
            below = each.main_ancestor or (find_commit(self.git, each.commit) if each.commit else "")
            if below in self.main.position:
                return (
                    "Give a commit instead: the newest published build before it with a commit of main here is"
                    f" {each.version} ({below[:SHORT]})."
                )
        return "Give a commit instead."

    def _on_day(self, day: dt.date) -> Revision:
        commit = self.main.on(day)
        if commit is None:
            advice = deepen(self.git) if is_shallow(self.git) else f"It begins on {utc_day(self.main.seconds[0])}."
            raise UnknownRevision(f"No commit of main in {self.git.repo} is as old as {day}.", advice)
        return self._revision(commit)

    def _commit(self, word: str) -> str:
        """The full id of what git takes for a commit, or "". Raises UnknownRevision for too few digits of an id."""
        found = find_commit(self.git, word)
        few = len(word) < _FEWEST and _HEX.fullmatch(word) and found.startswith(word.lower())
        if few and not any(self._ref(f"refs/{kind}/{word}") for kind in ("heads", "tags", "remotes")):
            raise UnknownRevision(
                f"{word} is too short for a commit.", f"Type at least {_FEWEST} digits; is it {found[:SHORT]}?"
            )
        return found

    def _otherwise(self, word: str) -> Revision:
        """The build whose version begins with `word`, when it is just one. Raises UnknownRevision, with suggestions."""
        digits = word.lower()
        if _HEX.fullmatch(digits):
            several = self._beginning_with(digits)
            if len(several) > 1:
                named = "; ".join(shown(self.git, commit) for commit in several[:_SHOWN])
                raise UnknownRevision(f"{word} fits {len(several)} commits.", f"Type more digits. They are: {named}.")
            raise self._lacks(f"commit {word}")
        named_in_it, _ = published.named_commit(word)
        if named_in_it:
            # A dev build that nobody listed still says what it was made from.
            return self._of_build(Revision(word, word, named_in_it))
        started = [r for r in self.builds if (r.version or "").startswith(word.removeprefix("v"))]
        if started and not re.fullmatch(r"v?\d+\.\d+\.\d+", word):
            return self._of_build(published.resolve(word, self.builds))
        names = self.git.read("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads", "refs/tags", "refs/remotes")
        known = [*names.split("\n"), *(r.version for r in self.builds if r.version)]
        close = difflib.get_close_matches(word[:200], known, _SHOWN, 0.6)
        raise UnknownRevision(
            f"{self.git.repo} knows no revision {word!r}.",
            f"Close to it: {', '.join(close)}." if close else "Give a commit, a tag, a branch, a version or a day.",
        )

    def _revision(self, commit: str) -> Revision:
        digits = id_lengths([commit, *self._beginning_with(commit[:SHORT])])[commit]
        return revision(one(self.git, commit), self.main, digits)

    def _beginning_with(self, digits: str) -> list[str]:
        """The full ids of the commits that begin with `digits`."""
        names = self.git.read("rev-parse", f"--disambiguate={digits}", may_fail=True).split()
        # What is no commit is not shown by log.
        shown_ids = (
            self.git.read("log", "--no-walk=unsorted", "--format=%H", *names, "--", may_fail=True) if names else ""
        )
        return shown_ids.split()

    def _ref(self, name: str) -> bool:
        return bool(self.git.read("rev-parse", "--verify", "--quiet", "--end-of-options", name, may_fail=True))

    def _lacks(self, what: str) -> UnknownRevision:
        advice = (
            deepen(self.git)
            if is_shallow(self.git)
            else f"Is it newer? Bring the clone up to date: git -C {self.git.repo} fetch"
        )
        return UnknownRevision(f"{self.git.repo} lacks {what}.", advice)
