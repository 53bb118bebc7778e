"""Turns what a page posted into an observation. The page ran somebody's model and bundle: nothing is taken on trust."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pydantic

from bisect_bot.harness.frames import Frame
from bisect_bot.model import Adapter, Ending, Observation, PageError, Stage, Step, Tensor
from bisect_bot.probes.operations import KEPT_CONSOLE_LINES
from bisect_bot.probes.placements import parse_placements
from bisect_bot.targets.browsers import BrowserConfig

# Bits of an element of each type that a page may give back (the keys of ARRAYS in web/tensors.js).
BITS = {
    **dict.fromkeys(("int4", "uint4"), 4),
    **dict.fromkeys(("bool", "int8", "uint8"), 8),
    **dict.fromkeys(("float16", "int16", "uint16"), 16),
    **dict.fromkeys(("float32", "int32", "uint32"), 32),
    **dict.fromkeys(("float64", "int64", "uint64"), 64),
}


class PostedAdapter(pydantic.BaseModel):
    """An adapter as the page describes it."""

    vendor: str
    architecture: str
    device: str
    description: str
    fallback: bool
    features: tuple[str, ...] = ()

    def to_adapter(self, config: BrowserConfig, driver: str | None = None) -> Adapter:
        """The adapter, with our own opinion of whether it computes in software."""
        adapter = Adapter(self.vendor, self.architecture, self.device, self.description, self.fallback, driver=driver)
        return replace(adapter, software=config.is_software(adapter))


class PostedTensor(pydantic.BaseModel):
    """An output's description; its bytes are a blob of the frame."""

    name: str
    dtype: str
    shape: tuple[pydantic.NonNegativeInt, ...]


class PostedError(pydantic.BaseModel):
    """An exception in the page."""

    stage: Stage
    message: str
    stack: str = ""
    step: str = ""


class PostedStep(pydantic.BaseModel):
    """One step of a case's plan. Outputs of a data set that are None are those of the first step, bit by bit."""

    name: str
    outputs: tuple[tuple[PostedTensor, ...] | None, ...]
    gpu_errors: tuple[str, ...] = ()
    dispatches: pydantic.NonNegativeInt = 0


class PostedProgress(pydantic.BaseModel):
    """What a page says before it begins `step` of case `index`: the steps that it finished since it last said so."""

    index: int
    step: str
    steps: tuple[PostedStep, ...]


class PostedResult(pydantic.BaseModel):
    """The header of a `result` frame. `steps` are those that no progress told of; `placed` are lines of the log."""

    index: int
    ending: Ending
    steps: tuple[PostedStep, ...]
    placed: tuple[str, ...] = ()
    times_ms: tuple[tuple[str, float], ...]
    errors: tuple[PostedError, ...]
    console: tuple[str, ...]
    dispatches: pydantic.NonNegativeInt
    gpu_errors: tuple[str, ...]
    adapter: PostedAdapter | None
    found: PostedAdapter | None
    providers: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a case came: the steps that were finished, and the name of the one that was begun then."""

    steps: tuple[Step, ...] = ()
    step: str = ""


def decode_progress(frame: Frame, index: int, before: Progress) -> Progress:
    """What `frame` says of case `index`, after `before`. Raises ValueError for a frame that does not fit."""
    posted = PostedProgress.model_validate(frame.header)
    if posted.index != index:
        raise ValueError(f"the progress is of case {posted.index}, not {index}")
    return Progress(_steps(posted.steps, frame, before.steps), posted.step)


def decode_result(
    frame: Frame, index: int, blank: Observation, config: BrowserConfig, before: Progress = Progress()
) -> Observation:
    """The observation in `frame`, which answers case `index`; `blank` gives what the page does not know.

    `before` is how far the case had come. A frame that does not fit becomes an observation with the ending `harness`.
    """
    try:
        posted = PostedResult.model_validate(frame.header)
        if posted.index != index:
            raise ValueError(f"the answer is for case {posted.index}, not {index}")
        if posted.ending is Ending.ERROR and not posted.errors:
            raise ValueError("it ended with an error, and names none")
        steps = _steps(posted.steps, frame, before.steps)
    except ValueError as error:
        return replace(
            blank, errors=(PageError(Stage.HARNESS, f"the page's answer makes no sense: {reason_of(error)}"),)
        )
    # The adapter of the device in use; before there is one, the adapter that was found.
    adapter = posted.adapter or posted.found
    driver = blank.adapter.driver if blank.adapter else None
    return replace(
        blank,
        ending=posted.ending,
        steps=steps,
        times_ms=posted.times_ms,
        console=posted.console[-KEPT_CONSOLE_LINES:],
        errors=tuple(PageError(e.stage, e.message, e.stack, e.step) for e in posted.errors),
        gpu_errors=posted.gpu_errors,
        dispatches=posted.dispatches,
        placements=parse_placements(posted.placed),
        adapter=adapter.to_adapter(config, driver) if adapter else None,
        providers=posted.providers,
    )


def reason_of(error: ValueError) -> str:
    """What does not fit in a frame, on one line: of all that pydantic has to say of one, the first."""
    if not isinstance(error, pydantic.ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _steps(posted: Sequence[PostedStep], frame: Frame, before: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps `before` and those in `frame`."""
    steps = list(before)
    blobs = iter(frame.blobs)
    for step in posted:
        outputs = []
        for number, tensors in enumerate(step.outputs):
            if tensors is not None:
                outputs.append(tuple(_tensor(tensor, next(blobs, None)) for tensor in tensors))
            elif steps and number < len(steps[0].outputs):
                outputs.append(steps[0].outputs[number])
            else:
                raise ValueError(f"step {step.name!r} repeats outputs that never came")
        steps.append(Step(step.name, tuple(outputs), step.gpu_errors, step.dispatches))
    return tuple(steps)


def _tensor(posted: PostedTensor, blob: bytes | None) -> Tensor:
    if posted.dtype not in BITS:
        raise ValueError(f"output {posted.name} has the type {posted.dtype}")
    size = (math.prod(posted.shape) * BITS[posted.dtype] + 7) // 8
    if blob is None or len(blob) != size:
        got = "none" if blob is None else len(blob)
        raise ValueError(f"output {posted.name} {posted.dtype}{list(posted.shape)} needs {size} bytes, came with {got}")
    return Tensor(posted.name, posted.dtype, posted.shape, blob)
