"""Every error that a user can meet: what is wrong, the likely cause, and what to type.

An error that is not one of these is a bug of ours (exit status 1).
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses of every command but `check`."""

    FOUND = 0
    BUG = 1
    USAGE = 2
    RANGE = 10
    SAME = 11
    INCONCLUSIVE = 12
    STOPPED = 13
    UNUSABLE = 14


class CheckExit(IntEnum):
    """Exit statuses of `check`, which `git bisect run` reads: 128 and above stop it."""

    GOOD = 0
    BAD = 1
    SKIP = 125
    BUG = 128
    USAGE = 129
    UNUSABLE = 130
    INTERRUPTED = 131


class BisectBotError(Exception):
    """Base of all. `str(error)` is one line; `advice` says what to do about it."""

    exit_status = Exit.UNUSABLE

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(problem)
        self.advice = advice


class UsageError(BisectBotError):
    """What was typed cannot be meant."""

    exit_status = Exit.USAGE


class UnknownRevision(UsageError):
    """A revision that no source knows, or that names more than one."""


class CaseError(UsageError):
    """A case that cannot be read: corrupt model, missing outputs, unsupported element type."""


class CaseUnsupported(CaseError):
    """A sound case that no build can be given: strings, sequences, element types that onnxruntime-web does not have."""


class OutOfBudget(BisectBotError):
    """A limit that the user set was reached: what is known so far is reported, and can be gone on with.

    `next_step` is what would have come next, in a reader's words.
    """

    exit_status = Exit.STOPPED

    def __init__(self, problem: str, next_step: str = "") -> None:
        super().__init__(problem)
        self.next_step = next_step


class ConfigError(UsageError):
    """A configuration file that does not fit its schema."""


class UnknownSession(UsageError):
    """A session that the journal does not hold."""


class MachineError(BisectBotError):
    """This machine cannot do the job."""


class NoBrowser(MachineError):
    """No browser was found for a target, or it does not start."""


class NoAdapter(MachineError):
    """The browser gives no GPU adapter, or another than the one asked for."""


class NpmError(MachineError):
    """The npm client is missing, or failed to list or fetch a build."""


class BuildUnusable(BisectBotError):
    """This revision gives no artifact (a package without the files of its era): the revision is skipped."""


class BuildFailed(BuildUnusable):
    """The build of this revision was begun, and failed.

    `lasting`: it would fail again, because nothing of this machine made it fail; it is not tried twice in a session.
    """

    def __init__(self, problem: str, advice: str = "", *, lasting: bool = True) -> None:
        super().__init__(problem, advice)
        self.lasting = lasting


class DiskFull(MachineError):
    """No space is left where the cache, the journal or the report goes."""


class JournalError(MachineError):
    """The journal cannot be opened or is not ours."""
