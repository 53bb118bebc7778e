"""A second opinion on expected outputs: `onnx`'s own reference evaluator, in a process of its own.

It is written to be read, not to be fast, and lacks many operators of other domains: it may have no opinion.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from bisect_bot import processes
from bisect_bot.cases.text import one_line
from bisect_bot.model import Case, CaseKind, Tensor
from bisect_bot.scratch import scratch

Comparer = Callable[[Tensor, Tensor], str | None]
"""Says how an actual tensor (the second) is not the expected one; None when it is, by whatever rule."""

TASK, INPUTS, OUTPUTS, WHY = "task.json", "inputs.npz", "outputs.npz", "why.txt"
"""Files between this process and the child; arrays in `.npz` are `arr_0`, … in the order of the data sets."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """Whether the reference evaluator agrees with a case's expected outputs (None: it has no opinion), and why."""

    agrees: bool | None
    text: str


def second_opinion(case: Case, limit_s: float, differs: Comparer) -> Opinion:
    """What `onnx.reference` says to the expected outputs of `case`, after `limit_s` seconds at the latest.

    Every data set is run, frame by frame where the case feeds outputs back. Raises OSError when no process can be
    started or no scratch file written.
    """
    who = f"onnx {onnx.__version__} (reference evaluator)"
    if case.kind is not CaseKind.MODEL:
        return Opinion(None, "a script has no second reference")
    if any(_is_packed(tensor) for each in case.data_sets for tensor in (*each.inputs, *each.expected)):
        return Opinion(None, f"{who} is not asked about 4-bit types")
    with scratch() as place:
        _write_task(place.path, case)
        argv = [sys.executable, "-m", "bisect_bot.cases.evaluate", str(place.path)]
        # Where this package was not installed but is run from its folder, the child finds it by the same path.
        paths = os.pathsep.join(path for path in sys.path if path)
        done = processes.run(argv, timeout_s=limit_s, env={**os.environ, "PYTHONPATH": paths})
        if done.status is None:
            return Opinion(None, f"{who} gave no answer within {limit_s:g} s")
        if done.status != 0 or not (place.path / OUTPUTS).exists():
            why = place.path / WHY
            said = why.read_text(encoding="utf-8") if why.exists() else done.stderr.strip().rpartition("\n")[2]
            return Opinion(None, f"{who} cannot run it: {one_line(said) or f'status {done.status}'}")
        with np.load(place.path / OUTPUTS, allow_pickle=False) as outputs:
            found = _first_difference(case, [outputs[name] for name in outputs.files], differs)
    if found is None:
        return Opinion(True, f"{who} agrees with the expected outputs")
    return Opinion(False, f"{who} gives something else: {one_line(found)}")


def _first_difference(case: Case, outputs: Sequence[NDArray[np.generic]], differs: Comparer) -> str | None:
    """How the first output that differs does so."""
    expected = [(data_set.name, tensor) for data_set in case.data_sets for tensor in data_set.expected]
    for (name, tensor), array in zip(expected, outputs, strict=True):
        how = differs(tensor, _tensor(tensor.name, array))
        if how is not None:
            return f"{how} in {name}" if len(case.data_sets) > 1 else how
    return None


def _tensor(name: str, array: NDArray[np.generic]) -> Tensor:
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    return Tensor(name, array.dtype.name, tuple(array.shape), little.tobytes())


def _is_packed(tensor: Tensor) -> bool:
    return tensor.dtype in ("int4", "uint4")


def _write_task(folder: Path, case: Case) -> None:
    """Leaves for the child what it is to run: names are data in it, never names of files."""
    ports = [{"inputs": [t.name for t in s.inputs], "outputs": [t.name for t in s.expected]} for s in case.data_sets]
    task = {"model": str(case.model), "feed": [list(pair) for pair in case.feed], "data_sets": ports}
    (folder / TASK).write_text(json.dumps(task), encoding="utf-8")
    np.savez(folder / INPUTS, *(tensor.array() for data_set in case.data_sets for tensor in data_set.inputs))
