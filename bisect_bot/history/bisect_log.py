"""What `git bisect log` prints, read as the verdicts that somebody reached. Pure: nothing is looked up.

A line counts only where git would take it for a command, and is split where git splits it: a commit's title, which git
prints in comments, must not be able to give a verdict.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bisect_bot.errors import UsageError

_COMMAND = re.compile(r"git[ -]bisect(?:[ \t]+(.*))?")
# What git writes before the line of a `git bisect start` that was given commits by any name.
_COMMENT = re.compile(r"# ([^\s:]+): \[([0-9a-f]{40})\]")
_ID = re.compile(r"[0-9a-f]{7,40}")
_TERM = re.compile(r"--term-(old|good|new|bad)(?:=(.*))?")
_FLAGS = ("--first-parent", "--no-checkout")
# Which words are git's own for the two sides, where nobody chose others: the older side's first.
_USUAL = (("good", "bad"), ("old", "new"))
# Words that say which side works, whichever is the older one.
_CLEAR = {"good": "good", "bad": "bad", "fixed": "good", "broken": "bad"}
_LONGEST = 80
_HOW = "Give what `git bisect log` printed, in a file."


class Side(StrEnum):
    """What was said of a commit."""

    OLD = "old"
    NEW = "new"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Bisection:
    """Somebody's bisect: the words for the older and the newer side, and what was said of which commit, in order.

    Commits are ids of 7 to 40 digits; those of a hand-written `git bisect start` may be any name. Each is there once.
    """

    old_term: str
    new_term: str
    marks: tuple[tuple[str, Side], ...]

    def verdicts(self) -> tuple[tuple[str, str], ...]:
        """The commits with what was said of them: `good` or `bad` where the words are clear, else `old` or `new`.

        Clear are good and bad, and fixed and broken. `skip` is skip.
        """
        return tuple((commit, self._word(side)) for commit, side in self.marks)

    def ends(self) -> tuple[str, str]:
        """The commits where the bisect began that are good and bad; empty where the log has none.

        Where its words do not tell, the older side is the good one.
        """
        first = {side: next((commit for commit, said in self.marks if said is side), "") for side in Side}
        old, new = first[Side.OLD], first[Side.NEW]
        return (new, old) if self._word(Side.OLD) == "bad" else (old, new)

    def _word(self, side: Side) -> str:
        clear = {Side.OLD: _CLEAR.get(self.old_term), Side.NEW: _CLEAR.get(self.new_term)}
        words = set(clear.values())
        return clear.get(side) or side.value if words == {"good", "bad"} else side.value


def read_bisect_log(text: str) -> Bisection:
    """The bisect that `text`, a `git bisect log`, tells of.

    Where a commit was skipped and told as well, what was told counts. Raises UsageError, with the number of the line,
    for what is no such log and for one that contradicts itself.
    """
    reader = _Reader()
    # Not splitlines: that also splits where git does not, within a title.
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        reader.read(number, line.strip(" \t\r"))
    if not reader.begun:
        raise UsageError("the bisect log has no `git bisect start`", _HOW)
    old, new = reader.terms or _USUAL[0]
    return Bisection(old, new, tuple((commit, side) for commit, (side, _) in reader.marks.items()))


class _Reader:
    """What was read so far. `comments` are those before the start; `marks` keep the line that each is from."""

    def __init__(self) -> None:
        self.begun = False
        self.terms: tuple[str, str] | None = None
        self.comments: list[str] = []
        self.marks: dict[str, tuple[Side, int]] = {}

    def read(self, number: int, line: str) -> None:
        """Takes in one line. Raises UsageError."""
        if not line:
            return
        if line.startswith("#"):
            told = _COMMENT.match(line)
            if told and not self.begun:
                self.comments.append(told[2])
            return
        command = _COMMAND.fullmatch(line)
        if command is None:
            raise _wrong(number, f"is no command of git bisect: {_shown(line)}")
        try:
            words = shlex.split(command[1] or "")
        except ValueError as error:
            raise _wrong(number, f"cannot be read ({error})") from error
        if not words:
            raise _wrong(number, "says nothing")
        if words[0] == "start":
            self._start(number, words[1:])
        else:
            self._mark(number, words[0], words[1:])

    def _start(self, number: int, words: Sequence[str]) -> None:
        if self.begun:
            raise _wrong(number, "begins a second bisect")
        self.begun = True
        terms, names = _options(number, words)
        if terms:
            self.terms = terms.get("old", "good"), terms.get("new", "bad")
            if self.terms[0] == self.terms[1] or "skip" in self.terms:
                raise _wrong(number, f"has no two words for two sides: {_shown(', '.join(self.terms))}")
        # What HEAD or a branch meant then is in the comments.
        meant = self.comments if len(self.comments) == len(names) else names
        for index, name in enumerate(meant):
            self._note(number, name, Side.OLD if index else Side.NEW)

    def _mark(self, number: int, word: str, names: Sequence[str]) -> None:
        if not self.begun:
            raise _wrong(number, "comes before `git bisect start`")
        side = self._side(number, word)
        if len(names) != 1 or not _ID.fullmatch(names[0]):
            raise _wrong(number, f"names no commit by its id, or more than one: {_shown(' '.join(names))}")
        self._note(number, names[0], side)

    def _side(self, number: int, word: str) -> Side:
        if word == Side.SKIP:
            return Side.SKIP
        known = [self.terms] if self.terms else list(_USUAL)
        for terms in known:
            if word in terms:
                self.terms = terms
                return Side.OLD if word == terms[0] else Side.NEW
        said = " or ".join(f"{old}/{new}" for old, new in known)
        raise _wrong(number, f"says {_shown(word)}, which is neither skip nor one of {_shown(said)}")

    def _note(self, number: int, commit: str, side: Side) -> None:
        before, line = self.marks.get(commit, (Side.SKIP, 0))
        if Side.SKIP not in (before, side) and before is not side:
            raise _wrong(number, f"contradicts line {line}: {_shown(commit)} is said to lie on both sides")
        self.marks[commit] = (before, line) if side is Side.SKIP and line else (side, number)


def _options(number: int, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The terms by side that a `git bisect start` sets, and the commits that it names."""
    terms: dict[str, str] = {}
    names: list[str] = []
    rest = iter(words)
    for word in rest:
        term = _TERM.fullmatch(word)
        if word == "--":
            break
        if term:
            value = term[2] if term[2] is not None else next(rest, "")
            if not value or not value.isprintable() or value.startswith("-"):
                raise _wrong(number, f"has no word for {word}")
            terms["old" if term[1] in ("old", "good") else "new"] = value
        elif word.startswith("-"):
            if word not in _FLAGS:
                raise _wrong(number, f"has an option that git bisect does not: {_shown(word)}")
        elif word.isprintable() and word:
            names.append(word)
        else:
            raise _wrong(number, f"names no commit: {_shown(word)}")
    return terms, names


def _wrong(number: int, what: str) -> UsageError:
    return UsageError(f"line {number} of the bisect log {what}", _HOW)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
