"""Parts of a model as cases of their own: some consecutive nodes, fed with what the reference computed up to there.

onnx.utils.Extractor is not used: it does not see the values that a node's subgraphs take from around it, and it would
make an input of a constant, which runtimes treat otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from bisect_bot.cases.bare import fill_outputs
from bisect_bot.cases.element_types import element_type
from bisect_bot.cases.folder import MODEL
from bisect_bot.cases.reference import every_value
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Case, CaseKind, Tensor
from bisect_bot.scratch import scratch

Values = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Trace:
    """A model whose values are all known: `values` by name, for one data set; `constants` do not depend on an input."""

    model: ModelProto
    values: Values
    constants: frozenset[str]

    @property
    def nodes(self) -> tuple[NodeProto, ...]:
        """The nodes in the graph's own order, in which each comes after those that it needs."""
        return tuple(self.model.graph.node)

    def moving(self) -> tuple[int, ...]:
        """The indices of the nodes that depend on an input: only they can compute anything wrong."""
        return tuple(i for i, node in enumerate(self.nodes) if not set(node.output) <= self.constants)


def trace(case: Case) -> Trace:
    """Everything that onnxruntime on the CPU computes for the first data set of `case`.

    Raises CaseError when it is a script or a sequence of frames, or when onnxruntime cannot run it.
    """
    if case.kind is not CaseKind.MODEL or case.feed or not case.data_sets:
        raise CaseError(f"{one_line(case.name)} is not one model with inputs", "name a model or an ONNX test folder")
    model = onnx.load(case.model)
    feeds = {tensor.name: tensor.array() for tensor in case.data_sets[0].inputs}
    # The first as the reference keeps it: what a graph calls itself is nobody's business in a report.
    initial = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    with scratch() as place:
        values = every_value(model, feeds, place.path / MODEL, case.name)
    constants = _constants(model.graph, initial)
    return Trace(model, {**initial, **feeds, **values}, constants)


def part(traced: Trace, first: int, last: int, destination: Path, label: str) -> str:
    """Writes the nodes `first` to `last` (both included) as a case to the empty folder `destination`.

    Inputs are the values that other nodes give them, outputs those that others or the user take; expected outputs are
    computed anew, by onnxruntime on the CPU, whose name is returned. Raises CaseError when a value on the rim is no
    numeric tensor, or onnxruntime refuses the part.
    """
    nodes = traced.nodes[first : last + 1]
    made = {name for node in nodes for name in node.output if name}
    wanted = [name for name in dict.fromkeys(_taken(nodes)) if name not in made]
    inputs = [name for name in wanted if name not in traced.constants]
    outside = {name for i, node in enumerate(traced.nodes) if not first <= i <= last for name in _taken([node])}
    outside |= {value.name for value in traced.model.graph.output}
    outputs = [name for name in dict.fromkeys(n for node in nodes for n in node.output) if name and name in outside]
    unknown = [name for name in (*inputs, *outputs) if name not in traced.values]
    if unknown or not outputs:
        raise CaseError(
            f"{one_line(label)}: {one_line(', '.join(unknown) or 'no output')} cannot be passed as a tensor"
        )
    graph = helper.make_graph(
        list(nodes),
        "part",
        [_value_info(name, traced.values[name]) for name in inputs],
        [_value_info(name, traced.values[name]) for name in outputs],
        [
            numpy_helper.from_array(np.ascontiguousarray(traced.values[name]), name)
            for name in wanted
            if name in traced.constants
        ],
    )
    model = helper.make_model(
        graph,
        ir_version=traced.model.ir_version,
        opset_imports=list(traced.model.opset_import),
        functions=list(traced.model.functions),
    )
    return write(model, {name: traced.values[name] for name in inputs}, destination, label)


def write(model: ModelProto, feeds: Values, destination: Path, label: str) -> str:
    """Writes `model` with the inputs `feeds` as a case to `destination`; expected outputs by onnxruntime on the CPU.

    Returns who computed them. Raises CaseError for inputs whose type cannot be passed, or when it cannot be run.
    """
    inputs = []
    for name, array in feeds.items():
        kind = element_type(helper.np_dtype_to_tensor_dtype(array.dtype), f"{label}: {name}")
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
        inputs.append(Tensor(name, kind.name, tuple(array.shape), little.tobytes()))
    (destination / MODEL).write_bytes(model.SerializeToString())
    return fill_outputs(destination, tuple(inputs), label)


def without_secrets(traced: Trace, folder: Path, destination: Path, label: str, seed: int) -> str:
    """Writes the case in `folder` with random floats in the place of its inputs and weights to `destination`.

    What is not floating point stays: indices, shapes and axes mean something. So do scalars and single values, which
    are rarely weights. Returns who computed the expected outputs; raises CaseError when it cannot be run.
    """
    model = onnx.load(folder / MODEL)
    generator = np.random.default_rng(seed)

    def like(array: NDArray[np.generic]) -> NDArray[np.generic]:
        if array.dtype.kind != "f" or array.size < 2:
            return array
        spread = float(np.nanstd(array.astype(np.float64))) or 1.0
        return (generator.standard_normal(array.shape) * spread).astype(array.dtype)

    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(like(numpy_helper.to_array(tensor)), tensor.name))
    feeds = {value.name: like(traced.values[value.name]) for value in model.graph.input}
    return write(model, feeds, destination, label)


def _constants(graph: GraphProto, initial: Values) -> frozenset[str]:
    """The names of all values that do not depend on an input of the graph."""
    constants = set(initial) - {value.name for value in graph.input}
    for node in graph.node:
        random = node.op_type.startswith(("Random", "Bernoulli", "Multinomial"))
        if not random and all(name in constants for name in _taken([node])):
            constants.update(name for name in node.output if name)
    return frozenset(constants)


def _taken(nodes: Iterator[NodeProto] | tuple[NodeProto, ...] | list[NodeProto]) -> Iterator[str]:
    """The names that `nodes` take as inputs, those that their subgraphs take from around them included."""
    for node in nodes:
        yield from (name for name in node.input if name)
        for attribute in node.attribute:
            for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
                own |= {name for inner in graph.node for name in inner.output}
                yield from (name for name in _taken(list(graph.node)) if name not in own)


def _value_info(name: str, array: NDArray[np.generic]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
