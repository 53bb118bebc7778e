"""Turns what a page posted into an observation. The page ran somebody's model and bundle: nothing is taken on trust."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pydantic

from bisect_bot.harness.frames import Frame
from bisect_bot.model import Adapter, Ending, Observation, PageError, Stage, Step, Tensor
from bisect_bot.probes.placements import parse_placements
from bisect_bot.targets.browsers import BrowserConfig

KEPT_CONSOLE_LINES = 200
# Bits of an element of each type that a page may give back (the keys of ARRAYS in web/page.js).
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
    """One step of a case's plan."""

    name: str
    outputs: tuple[tuple[PostedTensor, ...], ...]
    gpu_errors: tuple[str, ...] = ()


class PostedResult(pydantic.BaseModel):
    """One result of a `results` frame."""

    index: int
    ending: Ending
    steps: tuple[PostedStep, ...]
    times_ms: tuple[tuple[str, float], ...]
    errors: tuple[PostedError, ...]
    console: tuple[str, ...]
    dispatches: pydantic.NonNegativeInt
    gpu_errors: tuple[str, ...]
    adapter: PostedAdapter | None
    found: PostedAdapter | None


def results_in(frame: Frame) -> Iterator[Frame]:
    """The results in a `results` frame, each as a frame with its own blobs. What is no result becomes an empty one."""
    results = frame.header.get("results")
    offset = 0
    for result in results if isinstance(results, list) and results else [{}]:
        header = result if isinstance(result, dict) else {}
        count = header.get("blob_count")
        end = offset + count if isinstance(count, int) and count >= 0 else offset
        yield Frame(header, frame.blobs[offset:end])
        offset = end


def decode_result(frame: Frame, index: int, blank: Observation, config: BrowserConfig) -> Observation:
    """The observation in `frame`, which answers case `index`; `blank` gives what the page does not know.

    A frame that does not fit becomes an observation with the ending `harness`.
    """
    try:
        posted = PostedResult.model_validate(frame.header)
        if posted.index != index:
            raise ValueError(f"the answer is for case {posted.index}, not {index}")
        steps = _steps(posted, frame)
    except ValueError as error:
        return replace(blank, errors=(PageError(Stage.HARNESS, f"the page's answer makes no sense: {error}"),))
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
        placements=parse_placements(posted.console),
        adapter=adapter.to_adapter(config, driver) if adapter else None,
    )


def _steps(posted: PostedResult, frame: Frame) -> tuple[Step, ...]:
    blobs = iter(frame.blobs)
    return tuple(
        Step(
            step.name,
            tuple(tuple(_tensor(t, next(blobs, None)) for t in run) for run in step.outputs),
            step.gpu_errors,
        )
        for step in posted.steps
    )


def _tensor(posted: PostedTensor, blob: bytes | None) -> Tensor:
    if posted.dtype not in BITS:
        raise ValueError(f"output {posted.name} has the type {posted.dtype}")
    size = (math.prod(posted.shape) * BITS[posted.dtype] + 7) // 8
    if blob is None or len(blob) != size:
        got = "none" if blob is None else len(blob)
        raise ValueError(f"output {posted.name} {posted.dtype}{list(posted.shape)} needs {size} bytes, came with {got}")
    return Tensor(posted.name, posted.dtype, posted.shape, blob)
