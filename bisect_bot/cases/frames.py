"""Cases that run frame by frame: what a model gives for one frame is fed back to it with the next.

Expected outputs are those of onnxruntime on the CPU fed with its own outputs, as each build is fed with its own: an
error that grows from frame to frame shows as such.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bisect_bot.cases.bare import free_dimensions, make_inputs, refuse_packed
from bisect_bot.cases.element_types import check_size
from bisect_bot.cases.folder import MODEL, copy_model, data_set_folders, read_folder, write_data_set
from bisect_bot.cases.making import Making
from bisect_bot.cases.models import Port, Signature, parse_model, signature
from bisect_bot.cases.reference import run_frames_on_cpu
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Tensor

Feed = Sequence[tuple[str, str]]
InputsOf = Callable[[int], Sequence[Tensor]]


def frame_names(making: Making) -> tuple[str, ...]:
    """What the data sets of a case made so are called, where they have better names than their folders'."""
    return tuple(f"frame {number}" for number in range(1, making.frames + 1)) if making.feed else ()


def fill_frames_from_model(source: Path, destination: Path, label: str, making: Making) -> str:
    """Writes `making.frames` data sets of the bare model `source` to the empty folder `destination`.

    Each frame has inputs of its own from the seed; the first is what it is without frames. Fed inputs begin with what
    `making.initial_state` says: `given` (from the seed too), `zeros`, or `dynamic`, with the size 0 in each free
    dimension that only fed inputs have and `--dim` does not size. Returns who made the outputs. Raises CaseError as
    `fill_from_model`, and for a feed that does not fit.
    """
    ports = signature(copy_model(source, destination, label), label)
    refuse_packed(ports, label)
    check_feed(ports, making.feed, label)
    fed = {name for _, name in making.feed}
    drawn = ports
    if making.initial_state == "dynamic":
        drawn = replace(ports, inputs=tuple(port for port in ports.inputs if port.name not in fed))
    free = free_dimensions(drawn)
    dims = {name: size for name, size in making.dims.items() if name in free}

    def inputs_of(frame: int) -> Sequence[Tensor]:
        seed = making.seed if frame == 0 else (making.seed, frame)
        return make_inputs(drawn, dims, seed, label)

    return _fill(destination, ports, inputs_of, making, label)


def fill_frames_from_data_sets(destination: Path, label: str, making: Making) -> str:
    """Turns the data sets of the case in `destination` into `making.frames` frames.

    Frames take the inputs of the data sets, again from the first when there are more frames; what is fed begins with
    the first data set's, or as `making.initial_state` says. Their outputs are made anew. Returns who made them.
    Raises CaseError as `read_folder`, and for a feed that does not fit.
    """
    ports = signature(parse_model((destination / MODEL).read_bytes(), label), label)
    refuse_packed(ports, label)
    check_feed(ports, making.feed, label)
    data_sets = read_folder(destination, label)
    for folder in data_set_folders(destination, label):
        shutil.rmtree(folder)
    return _fill(destination, ports, lambda frame: data_sets[frame % len(data_sets)].inputs, making, label)


def check_feed(ports: Signature, feed: Feed, label: str) -> None:
    """Raises CaseError, naming `label`, unless every (output, input) of `feed` is there and of one type and shape."""
    outputs = {port.name: port for port in ports.outputs}
    inputs = {port.name: port for port in ports.inputs}
    for what, known, asked in (
        ("output", outputs, [output for output, _ in feed]),
        ("input", inputs, [name for _, name in feed]),
    ):
        unknown = [name for name in asked if name not in known]
        if unknown:
            raise CaseError(
                f"{one_line(label)} has no {what} {one_line(', '.join(unknown))}",
                f"--feed is output=input; it has the outputs {one_line(', '.join(outputs))}"
                f" and the inputs {one_line(', '.join(inputs))}",
            )
    twice = sorted({name for _, name in feed if [fed for _, fed in feed].count(name) > 1})
    if twice:
        raise CaseError(f"{one_line(label)}: more than one output is fed to {one_line(', '.join(twice))}")
    for output, name in feed:
        if not _feeds(outputs[output], inputs[name]):
            raise CaseError(
                f"{one_line(label)}: {one_line(_typed(outputs[output]))} cannot be fed to"
                f" {one_line(_typed(inputs[name]))}: another type or shape",
                "feed an output to an input of the same type and shape",
            )


def _feeds(output: Port, port: Port) -> bool:
    if output.kind != port.kind:
        return False
    if output.shape is None or port.shape is None:
        return True
    sizes = zip(output.shape, port.shape, strict=False)
    same = all(isinstance(a, str) or isinstance(b, str) or a == b for a, b in sizes)
    return same and len(output.shape) == len(port.shape)


def _typed(port: Port) -> str:
    return f"{port.name} ({port.kind.name}{list(port.shape) if port.shape is not None else ''})"


def _fill(destination: Path, ports: Signature, inputs_of: InputsOf, making: Making, label: str) -> str:
    frames = []
    for number in range(making.frames):
        given = {tensor.name: tensor for tensor in inputs_of(number)}
        if number == 0:
            given |= {tensor.name: tensor for tensor in _initial(ports, given, making, label)}
        frames.append(tuple(given[port.name] for port in ports.inputs if port.name in given))
    data_sets, reference = run_frames_on_cpu(destination / MODEL, frames, making.feed, ports, label)
    for number, data_set in enumerate(data_sets):
        folder = destination / f"test_data_set_{number}"
        write_data_set(folder, data_set.inputs, data_set.expected, ports)
    return reference


def _initial(ports: Signature, given: dict[str, Tensor], making: Making, label: str) -> list[Tensor]:
    """The fed inputs of the first frame, where they are not the `given` ones."""
    fed = {name for _, name in making.feed}
    state = [port for port in ports.inputs if port.name in fed]
    if making.initial_state == "zeros":
        return [replace(given[port.name], data=bytes(len(given[port.name].data))) for port in state]
    if making.initial_state != "dynamic":
        return []
    sizes = dict(making.dims)
    for port in ports.inputs:
        if port.name not in fed and port.shape is not None:
            sizes |= {dim: n for dim, n in zip(port.shape, given[port.name].shape, strict=True) if isinstance(dim, str)}
    return [_empty(port, sizes, label) for port in state]


def _empty(port: Port, sizes: dict[str, int], label: str) -> Tensor:
    """Zeros for `port`, with the size 0 in each dimension that `sizes` does not know."""
    if port.shape is None:
        raise CaseError(
            f"{one_line(label)}: input {port.name!r} does not say how many dimensions it has",
            "give its first value in a folder with test_data_set_0, and leave out --initial-state dynamic",
        )
    shape = tuple(sizes.get(dim, 0) if isinstance(dim, str) else dim for dim in port.shape)
    check_size(port.kind, shape, f"{label}: input {port.name!r}")
    return Tensor(port.name, port.kind.name, shape, bytes(math.prod(shape) * port.kind.bits // 8))
