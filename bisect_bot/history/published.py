"""Published builds as an ordered history: what a typed name means, and which builds lie between two. Pure."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import semver

from bisect_bot.errors import UnknownRevision
from bisect_bot.history.known import Known
from bisect_bot.model import Revision

_DEV = re.compile(r"-dev\.(\d{8})-([0-9a-f]{7,40})$")
_SHA = re.compile(r"[0-9a-f]{7,40}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
LATEST = "latest"
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Line:
    """What lies between two builds, in order.

    `main` are the two ends and the builds of main strictly between them (those of which nobody knows count as
    main); `aside` the other builds between them, which a search leaves out.
    """

    main: tuple[Revision, ...]
    aside: tuple[Revision, ...]

    @property
    def unknown(self) -> tuple[Revision, ...]:
        """Builds between the ends that are treated as of main although nobody could tell."""
        return tuple(r for r in self.main[1:-1] if r.on_main is None)

    def between(self, old: Revision, new: Revision) -> tuple[Revision, ...]:
        """The builds aside that lie between two builds, in order."""
        return tuple(r for r in self.aside if is_older(old, r) and is_older(r, new))


def named_commit(version: str) -> tuple[str | None, dt.date | None]:
    """Abbreviated commit and date from a dev build's name (`…-dev.<yyyymmdd>-<hex>`), None where it has none."""
    found = _DEV.search(version)
    if found is None:
        return None, None
    return found[2], _date(f"{found[1][:4]}-{found[1][4:6]}-{found[1][6:]}")


def order_revisions(versions: Iterable[str], known: Mapping[str, Known]) -> tuple[Revision, ...]:
    """The published builds in the order of semver, with what their names and `known` say of them.

    A registry's upload times say nothing about order, and dates of commits do not either. A release is never on
    main: it is built from its own branch. What is no semver is left out.
    """
    valid = {v for v in versions if semver.Version.is_valid(v)}
    return tuple(_revision(v, known.get(v)) for v in sorted(valid, key=semver.Version.parse))


def _revision(version: str, known: Known | None) -> Revision:
    commit, date = named_commit(version)
    release = semver.Version.parse(version).prerelease is None
    # A build that names its commit knows better than any table.
    if known is None or (commit and known.commit and not _same_commit(commit, known.commit)):
        return Revision(version, version, commit, date, on_main=False if release else None)
    return Revision(
        id=version,
        version=version,
        commit=known.commit or commit,
        date=known.date or date,
        title=known.title,
        on_main=False if release else known.on_main,
        main_ancestor=known.main_ancestor,
    )


def is_older(a: Revision, b: Revision) -> bool:
    """Whether build `a` comes before build `b`: the order of their versions. Both must be published builds."""
    return _version(a) < _version(b)


def line(builds: Sequence[Revision], old: Revision, new: Revision) -> Line:
    """What of `builds` (in order) lies between the ends `old` and `new`, which may be any builds, `old` the older."""
    between = [r for r in builds if is_older(old, r) and is_older(r, new)]
    main = tuple(r for r in between if r.on_main is not False)
    return Line((old, *main, new), tuple(r for r in between if r.on_main is False))


def resolve(text: str, builds: Sequence[Revision]) -> Revision:
    """The build that `text` means, of `builds` in order.

    It may be a version (`v1.20.1` too), the beginning of just one version, at least 7 digits of a build's commit,
    a day (`2024-11-07`: the last build of main on or before it), or `latest` (the newest build of main). Raises
    UnknownRevision for anything else and for what fits several builds, with what may have been meant.
    """
    word = typed(text)
    name = _name(word)
    exact = called(word, builds)
    if exact:
        return exact
    day = day_called(word)
    if day:
        return _on_day(day, builds)
    # "1.24.0" names a release, even one that does not exist: it is no beginning of a dev build before it.
    matches = [r for r in builds if (r.version or "").startswith(name)] if not _RELEASE.fullmatch(name) else []
    if not matches and _SHA.fullmatch(word.lower()):
        matches = [r for r in builds if r.commit and _same_commit(word.lower(), r.commit)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UnknownRevision(f"{text!r} fits {len(matches)} published builds.", f"Say which: {_list(matches)}.")
    raise UnknownRevision(f"No published build is called {text!r}.", _suggestion(name, builds))


def typed(text: str) -> str:
    """The word that was typed for a revision. Raises UnknownRevision for what can be none."""
    word = text.strip()
    if not word or word.startswith("-"):
        raise UnknownRevision(f"{text!r} is no revision.", "Give a version, a commit or a day such as 2024-11-07.")
    return word


def called(word: str, builds: Sequence[Revision]) -> Revision | None:
    """The build whose whole version is `word` (`v1.20.1` too), or the newest of main for `latest`; None for others."""
    if word.lower() == LATEST:
        return next((r for r in reversed(builds) if r.on_main is not False), None)
    return next((r for r in builds if r.version == _name(word)), None)


def day_called(word: str) -> dt.date | None:
    """The day that `word` is (`2024-11-07`), or None. Raises UnknownRevision for one that no calendar has."""
    if not _DATE.fullmatch(word):
        return None
    day = _date(word)
    if day is None:
        raise UnknownRevision(f"There is no day {word}.", "Write it as year-month-day, such as 2024-11-07.")
    return day


def _name(word: str) -> str:
    return word[1:] if re.match(r"[vV]\d", word) else word


def _on_day(day: dt.date, builds: Sequence[Revision]) -> Revision:
    dated = [r for r in builds if r.date and r.on_main is not False]
    before = [r for r in dated if r.date and r.date <= day]
    if before:
        return before[-1]
    first = f"The first is {dated[0].version} of {dated[0].date}." if dated else "`bisect-bot versions` lists them."
    raise UnknownRevision(f"No published build of main is as old as {day}.", first)


def _suggestion(name: str, builds: Sequence[Revision]) -> str:
    names = [r.version for r in builds if r.version]
    if name.lower() in ("main", "master", "head", "newest"):
        return f"The newest build of main is called {LATEST!r}; `bisect-bot versions` lists all."
    close = difflib.get_close_matches(name, names, n=_SHOWN, cutoff=0.6)
    listed = "`bisect-bot versions` lists them."
    return f"Close to it: {', '.join(close)}. {listed}" if close else listed


def _list(matches: Sequence[Revision]) -> str:
    # Releases first: whoever types "1.20" most likely means one.
    names = sorted((r.version or r.id for r in matches), key=lambda name: _RELEASE.fullmatch(name) is None)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _same_commit(a: str, b: str) -> bool:
    """Whether two hex ids, one or both abbreviated, can name one commit."""
    return a.startswith(b) or b.startswith(a)


def _version(revision: Revision) -> semver.Version:
    return semver.Version.parse(revision.version or "")


def _date(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None
