"""The reference: onnxruntime on the CPU, as installed with this tool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from bisect_bot.cases.models import Signature
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Tensor

_FATAL = 4


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
    try:
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        results = session.run([port.name for port in ports.outputs], feeds)
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
