"""What the journal keeps of an observation in two places: all but the tensors' data, and those."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from bisect_bot.model import Observation


def strip(observation: Observation) -> tuple[Observation, list[bytes]]:
    """The observation with empty tensors, and their data in order."""
    data = [tensor.data for step in observation.steps for outputs in step.outputs for tensor in outputs]
    return _with_data(observation, itertools.repeat(b"")), data


def restore(observation: Observation, lengths: list[int], data: bytes) -> Observation:
    """The reverse of `strip`. Raises ValueError when `data` has another length than it had."""
    if sum(lengths) != len(data):
        raise ValueError(f"{len(data)} bytes of tensors instead of {sum(lengths)}")
    ends = list(itertools.accumulate(lengths, initial=0))
    return _with_data(observation, (data[begin:end] for begin, end in itertools.pairwise(ends)))


def _with_data(observation: Observation, pieces: Iterator[bytes]) -> Observation:
    """The observation with the next of `pieces` as the data of each tensor."""
    steps = tuple(
        replace(
            step,
            outputs=tuple(tuple(replace(tensor, data=next(pieces)) for tensor in outputs) for outputs in step.outputs),
        )
        for step in observation.steps
    )
    return replace(observation, steps=steps)
