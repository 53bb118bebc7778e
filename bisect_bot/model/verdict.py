"""What is said of an observation: Outcome, Signature, Comparison, Verdict, and what is demanded beyond right values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The four answers. Only `good` and `bad` say something about the revision."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"  # this revision cannot answer
    INFRA = "infra"  # this machine could not answer: retried, never believed


class Failure(StrEnum):
    """The kinds of failure that a signature names."""

    MISMATCH = "mismatch"
    ALL_ZERO = "all-zero"
    CONSTANT = "constant"
    NAN = "nan"
    ERROR = "error"
    KERNEL_ERROR = "kernel-error"  # the runtime names the operator whose kernel failed
    GPU_ERROR = "gpu-error"
    DEVICE_LOST = "device-lost"
    CRASH = "crash"
    HANG = "hang"
    FALLBACK = "fallback"  # ran elsewhere than where it had to


# The kinds that compared values show, and the frame that `when` ends with.
_OF_VALUES = frozenset((Failure.MISMATCH, Failure.ALL_ZERO, Failure.CONSTANT, Failure.NAN))
_FRAME = re.compile(r"\bframe \d+$")


@dataclass(frozen=True, slots=True)
class Signature:
    """What makes a failure *this* failure, equal between revisions that fail in the same way.

    `when` is empty for what is wrong from the first run on, else the step of the plan or the frame that first went
    wrong (`run 2`, `created again`, `frame 13`).
    """

    kind: Failure
    case: str
    message: str
    when: str = ""

    def same_failure(self, other: Signature) -> bool:
        """Whether both are the same failure, whatever the case is called.

        Wrong values that come in a later frame are the same at whatever frame they began: what drifts slowly leaves
        the tolerance at another frame in another build.
        """
        return (self.kind, self.message, self._when()) == (other.kind, other.message, other._when())

    def _when(self) -> str:
        return _FRAME.sub("a later frame", self.when) if self.kind in _OF_VALUES else self.when


@dataclass(frozen=True, slots=True)
class Foreground:
    """A share that is watched: of the elements of `output` (empty: of each output) that lie above `threshold`."""

    output: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Demands:
    """What a user asks of a run beyond right values.

    `provider` must compute the nodes whose operators are `operators` (none named: all nodes). `foreground` are
    shares to be reported.
    """

    provider: str = ""
    operators: tuple[str, ...] = ()
    foreground: tuple[Foreground, ...] = ()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One element that differs: its index by dimension, what came and what was expected."""

    index: tuple[int, ...]
    actual: float | int | bool | str
    expected: float | int | bool | str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output compared with its expected tensor. `first` lists up to ten mismatches in index order.

    Errors are over the elements finite on both sides; `problem` is set where no element-wise comparison was
    possible (missing output, other type or shape). `step` is that of the plan (empty: the first). `cosine` is the
    similarity of both as vectors, `channels` the largest absolute error by index of axis 1, `foreground` the share of
    elements above the watched threshold, actual and expected.
    """

    data_set: str
    output: str
    matches: bool
    elements: int
    mismatches: int = 0
    first: tuple[Mismatch, ...] = ()
    max_abs_err: float = 0.0
    max_rel_err: float = 0.0
    nan: int = 0
    inf: int = 0
    all_zero: bool = False
    all_equal: bool = False
    problem: str | None = None
    step: str = ""
    cosine: float | None = None
    channels: tuple[float, ...] = ()
    foreground: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one observation, with its reason and numbers. `ran_on` is `gpu`, `cpu`, `mixed` or None."""

    outcome: Outcome
    reason: str
    signature: Signature | None = None
    comparisons: tuple[Comparison, ...] = ()
    provider: str | None = None
    ran_on: str | None = None
