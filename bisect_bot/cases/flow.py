"""How values flow through a model: which come from constants only, and which are float16 numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

# Operators that move the elements of their first input and compute nothing with them.
_MOVING = frozenset(
    (
        "Concat",
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "Pad",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    )
)
# Operators that ask for the shape of a value alone.
_MEASURING = frozenset(("Shape", "Size"))


@dataclass(slots=True)
class Flow:
    """What was found in a model. `computing` are its nodes, those of subgraphs and functions too, that depend on an
    input or on chance; `computes_in_half` tells whether one of them computes with float16 numbers."""

    computing: list[NodeProto] = field(default_factory=list)
    computes_in_half: bool = False
    # By name, of the graph at hand and those around it.
    _constant: set[str] = field(default_factory=set)
    _half: set[str] = field(default_factory=set)
    # Of those in _half: what a node made, so that every use of it is of rounded numbers.
    _rounded: set[str] = field(default_factory=set)

    @classmethod
    def through(cls, model: ModelProto) -> Self:
        """The flow through `model`. Graphs are in topological order, as ONNX demands it."""
        flow = cls()
        flow._graph(model.graph)
        for function in model.functions:
            inner = cls()  # its names are its own
            inner._nodes(function)
            flow.computing += inner.computing
            flow.computes_in_half |= inner.computes_in_half
        return flow

    def _graph(self, graph: GraphProto) -> None:
        initialisers = {tensor.name: tensor.data_type for tensor in graph.initializer}
        self._constant |= initialisers.keys()
        self._half |= {name for name, kind in initialisers.items() if kind == TensorProto.FLOAT16}
        for value in (*graph.input, *graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
                self._half.add(value.name)
        self._nodes(graph)

    def _nodes(self, graph: Message) -> None:
        for node in graph.node:
            self._node(node)
            for attribute in node.attribute:
                for subgraph in (attribute.g, *attribute.graphs):
                    self._graph(subgraph)

    def _node(self, node: NodeProto) -> None:
        inputs = [name for name in node.input if name]
        # A subgraph sees values around it that are no inputs of its node.
        inner = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if node.op_type == "Constant" or (inputs and not inner and self._constant.issuperset(inputs)):
            self._constant.update(node.output)
        else:
            self.computing.append(node)
            self.computes_in_half |= self._is_half(node, inputs)
        self._spread(node, inputs)

    def _is_half(self, node: NodeProto, inputs: list[str]) -> bool:
        """Whether `node` computes with float16 numbers, or takes what was rounded to float16."""
        if node.op_type in _MEASURING:
            return False
        if not self._rounded.isdisjoint(inputs):
            return True
        return node.op_type != "Cast" and node.op_type not in _MOVING and not self._half.isdisjoint(inputs)

    def _spread(self, node: NodeProto, inputs: list[str]) -> None:
        """Notes which outputs of `node` are float16 numbers."""
        moved = node.op_type in _MOVING and bool(inputs) and inputs[0] in self._half
        filled = any(attribute.t.data_type == TensorProto.FLOAT16 for attribute in node.attribute)
        cast = node.op_type == "Cast" and any(a.name == "to" and a.i == TensorProto.FLOAT16 for a in node.attribute)
        if moved or filled or cast:
            self._half.update(node.output)
        if cast and not self._constant.issuperset(inputs):
            self._rounded.update(node.output)
