"""The reference: onnxruntime on the CPU, as installed with this tool."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

# Newer versions report to their makers and keep a database in the user's home for that: not from an unattended tool.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

from bisect_bot.cases.models import Signature
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Tensor

_FATAL = 4
LIMIT_S = 600.0
POLL_S = 0.1


def run_on_cpu(model: Path, inputs: Sequence[Tensor], ports: Signature, label: str) -> tuple[tuple[Tensor, ...], str]:
    """The outputs of the model file `model` for `inputs`, in the order of `ports`, and the name of the reference.

    One thread, so that sums are always added in the same order; graph optimisations as onnxruntime has them by
    default. Raises CaseError, naming `label`, with onnxruntime's message when it refuses the model or fails.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL
    feeds = {tensor.name: tensor.array() for tensor in inputs}
    limit = onnxruntime.RunOptions()

    def work() -> list[object]:
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        return list(session.run([port.name for port in ports.outputs], feeds, limit))

    try:
        results = _within(work, limit)
    except TimeoutError as error:
        raise CaseError(f"{one_line(label)}: onnxruntime needs more than {LIMIT_S:.0f} s for it on the CPU") from error
    # onnxruntime's exceptions have no common base below Exception, and what they say is all there is to say.
    except Exception as error:
        message = one_line(str(error).replace(str(model.parent), ""))
        raise CaseError(f"{one_line(label)}: onnxruntime cannot run it: {message}") from error
    outputs = []
    for port, result in zip(ports.outputs, results, strict=True):
        if not isinstance(result, np.ndarray) or result.dtype != np.dtype(port.kind.name):
            got = result.dtype if isinstance(result, np.ndarray) else type(result).__name__
            raise CaseError(f"{one_line(label)}: output {port.name!r} is {got}, but the model says {port.kind.name}")
        little = np.ascontiguousarray(result).astype(result.dtype.newbyteorder("<"))
        outputs.append(Tensor(port.name, port.kind.name, tuple(result.shape), little.tobytes()))
    return tuple(outputs), f"onnxruntime {onnxruntime.__version__} (CPU)"


def _within(work: Callable[[], list[object]], options: onnxruntime.RunOptions) -> list[object]:
    """What `work` returns or raises, or TimeoutError after `LIMIT_S` seconds.

    It runs in a thread of its own, because Python hears of Ctrl-C only between its own instructions; `options` are
    those of its run, which ends at the next node once it is told to.
    """
    done: queue.SimpleQueue[tuple[list[object], BaseException | None]] = queue.SimpleQueue()

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
