"""What a case's model computes with: its operators, and whether it does so in float16."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from bisect_bot.cases.models import parse_model
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Case, CaseKind

# Operators whose outputs are drawn anew in each run, unless they have a seed. Whoever implements one draws others.
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def operators(case: Case) -> frozenset[str] | None:
    """The types of all nodes of a case's model, those of subgraphs and functions too; None for a script."""
    if case.kind is not CaseKind.MODEL:
        return None
    return frozenset(node.op_type for node in nodes(parse_model(case.model.read_bytes(), case.name)))


def computes_in_half(case: Case) -> bool:
    """Whether any weight, input, constant or cast of a case's model is float16, whatever its outputs are."""
    if case.kind is not CaseKind.MODEL:
        return False
    model = parse_model(case.model.read_bytes(), case.name)
    types = {tensor.data_type for tensor in model.graph.initializer}
    types |= {value.type.tensor_type.elem_type for value in model.graph.input}
    for node in nodes(model):
        types |= {attribute.t.data_type for attribute in node.attribute if attribute.HasField("t")}
        types |= {attribute.i for attribute in node.attribute if node.op_type == "Cast" and attribute.name == "to"}
    return TensorProto.FLOAT16 in types


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """All nodes of `model`: of its graph, of subgraphs at any depth, and of its functions."""
    yield from _nodes_in(model.graph)
    for function in model.functions:
        yield from _nodes_in(function)


def refuse_chance(model: ModelProto, where: str) -> None:
    """Raises CaseError, naming `where`, for a model whose outputs are drawn anew in each run.

    These are the random operators without a seed, and Dropout in training mode.
    """
    constant = {tensor.name for tensor in _true_tensors(model)}
    for node in nodes(model):
        drawn = node.op_type in _RANDOM and not any(attribute.name == "seed" for attribute in node.attribute)
        training = node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] in constant
        if drawn or training:
            raise CaseError(
                f"{one_line(where)} has no expected outputs: {one_line(node.op_type)} draws others in each run",
                "cut the model before that node, give the node a seed, or give the case as a folder with its outputs",
            )


def _true_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The constants of `model` that hold True, under the name of the value that they give."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.BOOL and any((*tensor.raw_data, *tensor.int32_data)):
            yield tensor
    for node in nodes(model):
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.t.data_type == TensorProto.BOOL and any((*attribute.t.raw_data, *attribute.t.int32_data)):
                yield TensorProto(name=node.output[0])


def _nodes_in(graph: Message) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            subgraphs: tuple[GraphProto, ...] = (attribute.g, *attribute.graphs)
            for subgraph in subgraphs:
                yield from _nodes_in(subgraph)
