"""A case from a bare `.onnx` model: inputs made from a seed, expected outputs by onnxruntime on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bisect_bot.cases.element_types import ElementType, check_size
from bisect_bot.cases.folder import MODEL, copy_model, write_data_set
from bisect_bot.cases.models import Port, Signature, parse_model, signature
from bisect_bot.cases.reference import run_on_cpu
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Tensor

INTEGERS = 8
"""Random integers are 0 … 7: valid as 4-bit values, and small enough for most tables that they may index."""


def fill_from_model(source: Path, destination: Path, label: str, dims: Mapping[str, int], seed: int) -> str:
    """Writes the case of the model `source` to the empty folder `destination`; returns who made the outputs.

    `dims` gives each free dimension its size. Raises CaseError for a model that is corrupt, refused by
    onnx.checker or onnxruntime, has a free dimension without a size, or has 4-bit inputs or outputs
    (onnxruntime for Python has no way to pass them).
    """
    ports = signature(copy_model(source, destination, label), label)
    refuse_packed(ports, label)
    return fill_outputs(destination, make_inputs(ports, dims, seed, label), label)


def fill_outputs(destination: Path, inputs: Sequence[Tensor], label: str) -> str:
    """Writes `inputs`, and the outputs that the model in `destination` gives for them, as its data set.

    Returns who made the outputs: onnxruntime on the CPU. Raises CaseError when it refuses the model or fails.
    """
    ports = signature(parse_model((destination / MODEL).read_bytes(), label), label)
    outputs, reference = run_on_cpu(destination / MODEL, inputs, ports, label)
    write_data_set(destination / "test_data_set_0", inputs, outputs, ports)
    return reference


def refuse_packed(ports: Signature, label: str) -> None:
    """Raises CaseError, naming `label`, for 4-bit inputs and outputs: onnxruntime for Python cannot pass them."""
    for port in (*ports.inputs, *ports.outputs):
        if port.kind.bits == 4:
            raise CaseError(
                f"{one_line(label)}: {port.name} is {port.kind.name}, which onnxruntime for Python cannot pass",
                "give the case as a folder with test_data_set_0 (input and output files)",
            )


def free_dimensions(ports: Signature) -> tuple[str, ...]:
    """The names of the free dimensions of the inputs, each once, in the order of the graph."""
    names = (dim for port in ports.inputs for dim in port.shape or () if isinstance(dim, str))
    return tuple(dict.fromkeys(names))


def make_inputs(ports: Signature, dims: Mapping[str, int], seed: int | Sequence[int], label: str) -> tuple[Tensor, ...]:
    """One tensor for each input of `ports`, the same for the same `seed` (and version of numpy).

    Floats are normal (mean 0, standard deviation 1), integers uniform in 0 … 7, booleans fair. Raises CaseError
    for a free dimension that `dims` does not size, for a name in `dims` that is none, and for sizes below 0.
    """
    free = free_dimensions(ports)
    missing = [name for name in free if name not in dims]
    if missing:
        wanted = " ".join(f"--dim {name}=…" for name in missing)
        raise CaseError(
            f"{one_line(label)} has free dimensions without a size: {one_line(wanted)}", "add these options"
        )
    unused = sorted(set(dims) - set(free))
    if unused:
        known = f"it has {', '.join(free)}" if free else "it has none"
        raise CaseError(f"{one_line(label)} has no free dimension {one_line(', '.join(unused))}: {one_line(known)}")
    generator = np.random.default_rng(seed)
    return tuple(_random_tensor(port, dims, generator, label) for port in ports.inputs)


def _random_tensor(port: Port, dims: Mapping[str, int], generator: np.random.Generator, label: str) -> Tensor:
    if port.shape is None:
        raise CaseError(
            f"{one_line(label)}: input {port.name!r} does not say how many dimensions it has",
            "give the case as a folder with test_data_set_0 (input and output files)",
        )
    shape = tuple(dims[dim] if isinstance(dim, str) else dim for dim in port.shape)
    check_size(port.kind, shape, f"{label}: input {port.name!r}")
    return Tensor(port.name, port.kind.name, shape, _random_bytes(port.kind, shape, generator))


def _random_bytes(kind: ElementType, shape: tuple[int, ...], generator: np.random.Generator) -> bytes:
    dtype = np.dtype(kind.name)
    if dtype.kind == "f":
        drawn = generator.standard_normal(shape, dtype=np.float64 if dtype == np.float64 else np.float32)
        return drawn.astype(dtype.newbyteorder("<")).tobytes()
    limit = 2 if dtype.kind == "b" else INTEGERS
    return generator.integers(0, limit, shape, dtype=np.uint8).astype(dtype.newbyteorder("<")).tobytes()
