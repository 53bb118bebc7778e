"""The reference: onnxruntime on the CPU, as installed with this tool."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto

# Newer versions report to their makers and keep a database in the user's home for that: not from an unattended tool.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

from bisect_bot.cases.models import Port, Signature, parse_model
from bisect_bot.cases.operators import refuse_chance
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import DataSet, Tensor

_FATAL = 4
LIMIT_S = 600.0
POLL_S = 0.1
Result = TypeVar("Result")


def run_on_cpu(model: Path, inputs: Sequence[Tensor], ports: Signature, label: str) -> tuple[tuple[Tensor, ...], str]:
    """The outputs of the model file `model` for `inputs`, in the order of `ports`, and the name of the reference.

    One thread, so that sums are always added in the same order; graph optimisations as onnxruntime has them by
    default. Raises CaseError, naming `label`, with onnxruntime's message when it refuses the model or fails.
    """
    (data_set,), reference = run_frames_on_cpu(model, (inputs,), (), ports, label)
    return data_set.expected, reference


def run_frames_on_cpu(
    model: Path, frames: Sequence[Sequence[Tensor]], feed: Sequence[tuple[str, str]], ports: Signature, label: str
) -> tuple[tuple[DataSet, ...], str]:
    """What one session of the model file `model` takes and gives, frame by frame, and the name of the reference.

    `frames` are the inputs; from the second on, the outputs of the frame before replace the inputs that `feed`,
    (output, input), names. Otherwise as `run_on_cpu`. Raises CaseError for a model that draws random numbers too.
    """
    refuse_chance(parse_model(model.read_bytes(), label), label)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL
    limit = onnxruntime.RunOptions()
    names = [port.name for port in ports.outputs]

    def work() -> list[tuple[dict[str, NDArray[np.generic]], list[object]]]:
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        ran = []
        fed: dict[str, NDArray[np.generic]] = {}
        for inputs in frames:
            feeds = {tensor.name: tensor.array() for tensor in inputs} | fed
            results = session.run(names, feeds, limit)
            ran.append((feeds, results))
            fed = {name: results[names.index(output)] for output, name in feed}
        return ran

    try:
        ran = _within(work, limit)
    except TimeoutError as error:
        raise CaseError(f"{one_line(label)}: onnxruntime needs more than {LIMIT_S:.0f} s for it on the CPU") from error
    # onnxruntime's exceptions have no common base below Exception, and what they say is all there is to say.
    except Exception as error:
        message = one_line(str(error).replace(str(model.parent), ""))
        raise CaseError(f"{one_line(label)}: onnxruntime cannot run it: {message}") from error
    data_sets = tuple(
        DataSet(
            f"frame {number}",
            tuple(_tensor(port, feeds[port.name], f"{label}: input") for port in ports.inputs),
            tuple(
                _tensor(port, result, f"{label}: output") for port, result in zip(ports.outputs, results, strict=True)
            ),
        )
        for number, (feeds, results) in enumerate(ran, start=1)
    )
    return data_sets, f"onnxruntime {onnxruntime.__version__} (CPU)"


def _tensor(port: Port, value: object, where: str) -> Tensor:
    """`value` as the tensor of `port`. Raises CaseError, which begins with `where`, when it is of another type."""
    if not isinstance(value, np.ndarray) or value.dtype != np.dtype(port.kind.name):
        got = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise CaseError(f"{one_line(where)} {port.name!r} is {got}, but the model says {port.kind.name}")
    little = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"))
    return Tensor(port.name, port.kind.name, tuple(value.shape), little.tobytes())


def every_value(
    model: ModelProto, feeds: Mapping[str, NDArray[np.generic]], path: Path, label: str
) -> dict[str, NDArray[np.generic]]:
    """Every tensor that a node of `model` computes from `feeds`, by name; what is no tensor is left out.

    The model is written to `path` for it, with every value as an output. Raises CaseError as `run_on_cpu`.
    """
    asked = ModelProto()
    asked.CopyFrom(model)
    del asked.graph.output[:]
    names = [name for node in model.graph.node for name in node.output if name]
    asked.graph.output.extend(ValueInfoProto(name=name) for name in names)
    path.write_bytes(asked.SerializeToString())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = _FATAL
    limit = onnxruntime.RunOptions()

    def work() -> list[object]:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return list(session.run(names, dict(feeds), limit))

    try:
        results = _within(work, limit)
    except TimeoutError as error:
        raise CaseError(f"{one_line(label)}: onnxruntime needs more than {LIMIT_S:.0f} s for it on the CPU") from error
    except Exception as error:  # as above
        message = one_line(str(error).replace(str(path.parent), ""))
        raise CaseError(f"{one_line(label)}: onnxruntime cannot run it: {message}") from error
    return {name: result for name, result in zip(names, results, strict=True) if isinstance(result, np.ndarray)}


def _within(work: Callable[[], list[Result]], options: onnxruntime.RunOptions) -> list[Result]:
    """What `work` returns or raises, or TimeoutError after `LIMIT_S` seconds.

    It runs in a thread of its own, because Python hears of Ctrl-C only between its own instructions; `options` are
    those of its run, which ends at the next node once it is told to.
    """
    done: queue.SimpleQueue[tuple[list[Result], BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:
            done.put(([], error))

    threading.Thread(target=run, daemon=True).start()
    deadline = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                results, error = done.get(timeout=POLL_S)
                if error is not None:
                    raise error
                return results
        raise TimeoutError
    finally:
        options.terminate = True
