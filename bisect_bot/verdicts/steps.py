"""The first thing that went wrong: the steps of an observation in the order of time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bisect_bot.model import Case, Comparison, Ending, Observation, Step
from bisect_bot.verdicts.messages import one_line

DEVICE_LOST = "device lost"
"""How web/gpu.js begins its line about a device that was lost."""

_STEP_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happened: the step of the plan (empty: the first), and the frame where there are frames.

    `frame` counts from 1; it is 0 where data sets do not follow one another in time.
    """

    step: str = ""
    frame: int = 0

    @property
    def when(self) -> str:
        """As a signature names it: empty for the first step and frame."""
        frame = f"frame {self.frame}" if self.frame > 1 else ""
        return ", ".join(part for part in (one_line(self.step, _STEP_CHARACTERS), frame) if part)


START = Moment()
"""The first step and frame."""


@dataclass(frozen=True, slots=True)
class GpuFault:
    """GPU errors that came up in one step, in order."""

    at: Moment
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WrongOutputs:
    """One data set of one step with an output that does not match; all comparisons of that data set."""

    at: Moment
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The run ended early here: an error, a crash, a hang."""

    at: Moment


Fault = GpuFault | WrongOutputs | Ended


def first_fault(
    observation: Observation, case: Case, compared: Sequence[Sequence[Sequence[Comparison]]]
) -> Fault | None:
    """What went wrong first; None when nothing did. `compared` are the comparisons by step and data set.

    Within a step a lost device comes first: the rest follows from it. Other GPU errors come before the wrong outputs
    that they leave, these before the exception that ended the step, and that before GPU errors beside it: what an
    aborted run leaves half done makes some of its own.
    """
    errors = _gpu_errors(observation)
    for step, gpu, data_sets in zip(observation.steps, errors, compared, strict=True):
        ends = observation.ending is not Ending.COMPLETED and step is observation.steps[-1]
        wrong = next((n for n, each in enumerate(data_sets) if not all(c.matches for c in each)), None)
        if gpu and (not ends or wrong is not None or is_lost(gpu)):
            return GpuFault(Moment(step.name), gpu)
        if wrong is not None:
            return WrongOutputs(Moment(step.name, wrong + 1 if case.feed else 0), tuple(data_sets[wrong]))
    if observation.ending is not Ending.COMPLETED:
        loose = () if observation.steps else observation.gpu_errors
        return GpuFault(START, loose) if is_lost(loose) else Ended(_end(observation, case))
    return GpuFault(START, observation.gpu_errors) if observation.gpu_errors and not observation.steps else None


def is_lost(gpu_errors: Sequence[str]) -> bool:
    """Whether they tell of a device that was lost."""
    return any(error.startswith(DEVICE_LOST) for error in gpu_errors)


def until(at: Moment, what: str) -> str:
    """What came before something that was not wrong from the start: `good at frame 1, all zero from frame 13: `.

    Empty for what was. `what` says how it is wrong.
    """
    step = f"good until {_happening(one_line(at.step, _STEP_CHARACTERS))}" if at.step else ""
    if at.frame <= 1:
        return f"{step}: " if step else ""
    return f"{step or 'good at frame 1'}, {what} from frame {at.frame}: "


def _gpu_errors(observation: Observation) -> list[tuple[str, ...]]:
    """The GPU errors of each step; the last also has those that no step names (they came up between steps)."""
    named = Counter(text for step in observation.steps for text in step.gpu_errors)
    loose = []
    for text in observation.gpu_errors:
        if named[text]:
            named[text] -= 1
        else:
            loose.append(text)
    errors = [step.gpu_errors for step in observation.steps]
    return [*errors[:-1], (*errors[-1], *loose)] if errors else []


def _end(observation: Observation, case: Case) -> Moment:
    """When the run ended early: in the step that the error names, at the frame after those that were completed."""
    last = observation.steps[-1] if observation.steps else Step()
    name = observation.errors[0].step if observation.errors else last.name
    done = len(last.outputs) if last.name == name else 0
    return Moment(name, done + 1 if case.feed else 0)


# What a step's name says happened; names that are not in here (`run 2`) are times already.
_HAPPENINGS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^created again(?: (\d+))?(?:, (run \d+))?$"), "the session was created again"),
    (re.compile(r"^session (\d+)$"), "another session was alive"),
    (re.compile(r"^session 1 again$"), "the first session ran again beside another"),
    (re.compile(r"^other model alive$"), "another model was alive"),
    (re.compile(r"^after other model$"), "another model had been run"),
)


def _happening(step: str) -> str:
    """The step `step` as something that happened, followed by its name where that says more."""
    for pattern, words in _HAPPENINGS:
        match = pattern.match(step)
        if match:
            return f"{words} ({step})" if any(match.groups()) else words
    return step
