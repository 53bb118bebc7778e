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
from onnx import GraphProto, ModelProto, NodeProto, SparseTensorProto, helper, numpy_helper

from bisect_bot.cases.anonymous import without_texts
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
        return tuple(i for i, node in enumerate(self.nodes) if not set(filter(None, node.output)) <= self.constants)

    def pieces(self) -> tuple[tuple[int, int], ...]:
        """The smallest runs of nodes that can be cut out, (first, last): mostly one of the `moving` each.

        What a node gives that is no tensor of numbers (a sequence, texts) glues it to all nodes up to the last that
        takes it.
        """
        last_use = {name: i for i, node in enumerate(self.nodes) for name in _taken([node])}
        glued = [
            (i, last_use[name])
            for i, node in enumerate(self.nodes)
            for name in node.output
            if name in last_use and not is_tensor(self.values.get(name))
        ]
        pieces: list[tuple[int, int]] = []
        for i in self.moving():
            if pieces and any(begin < i <= end for begin, end in glued):
                pieces[-1] = (pieces[-1][0], i)
            else:
                pieces.append((i, i))
        return tuple(pieces)


def is_tensor(value: NDArray[np.generic] | None) -> bool:
    """Whether `value` is a tensor of numbers, which can be passed to a model."""
    return value is not None and value.dtype.kind != "O"


def refuse_indivisible(case: Case) -> None:
    """Raises CaseError for a case that is no model by itself: a script, a recurrent run, a test of a manifest."""
    name = one_line(case.name)
    why = (
        "a script, not a model"
        if case.kind is not CaseKind.MODEL
        else "run frame by frame"
        if case.feed
        else "a test of a manifest"
        if case.page
        else "a case without inputs and outputs"
        if not case.data_sets
        else ""
    )
    if why:
        raise CaseError(f"{name} cannot be taken apart: it is {why}", "name a model or an ONNX test folder")


def trace(case: Case, data_set: int = 0) -> Trace:
    """Everything that onnxruntime on the CPU computes for the data set of `case` with this index.

    Raises CaseError as `refuse_indivisible`, and when onnxruntime cannot run it.
    """
    refuse_indivisible(case)
    model = onnx.load(case.model)
    feeds = {tensor.name: tensor.array() for tensor in case.data_sets[data_set].inputs}
    # The first as the reference keeps it: what a graph calls itself is nobody's business in a report.
    initial = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    initial |= {sparse.values.name: _dense(sparse) for sparse in model.graph.sparse_initializer}
    with scratch() as place:
        values = every_value(model, feeds, place.path / MODEL, case.name)
    constants = _constants(model.graph, initial, values)
    return Trace(model, {**initial, **feeds, **values}, constants)


def _dense(sparse: SparseTensorProto) -> NDArray[np.generic]:
    """The tensor that `sparse` stands for; onnx.proto: its indices are linear, or one row of coordinates each."""
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense


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
    unknown = [name for name in (*inputs, *outputs) if not is_tensor(traced.values.get(name))]
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
    without_texts(model)
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


def _constants(graph: GraphProto, initial: Values, values: Values) -> frozenset[str]:
    """The names of all tensors that do not depend on an input of the graph; `values` are those that nodes give."""
    constants = set(initial) - {value.name for value in graph.input}
    for node in graph.node:
        random = node.op_type.startswith(("Random", "Bernoulli", "Multinomial"))
        if not random and all(name in constants for name in _taken([node])):
            constants.update(name for name in node.output if name in values)
    return frozenset(constants)


def _taken(nodes: Iterator[NodeProto] | tuple[NodeProto, ...] | list[NodeProto]) -> Iterator[str]:
    """The names that `nodes` take as inputs, those that their subgraphs take from around them included."""
    for node in nodes:
        yield from (name for name in node.input if name)
        for attribute in node.attribute:
            for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
                own |= {sparse.values.name for sparse in graph.sparse_initializer}
                own |= {name for inner in graph.node for name in inner.output}
                yield from (name for name in _taken(list(graph.node)) if name not in own)


def _value_info(name: str, array: NDArray[np.generic]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
