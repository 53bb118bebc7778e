"""What a case's model computes with: its operators, and whether it does so in float16."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from bisect_bot.cases.flow import Flow
from bisect_bot.cases.models import parse_model
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Case, CaseKind

# Operators whose outputs are drawn. With a seed the same in each run, but whoever implements one draws others.
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def operators(case: Case) -> frozenset[str] | None:
    """The types of all nodes of a case's model, those of subgraphs and functions too; None for a script."""
    if case.kind is not CaseKind.MODEL:
        return None
    return frozenset(node.op_type for node in nodes(parse_model(case.model.read_bytes(), case.name)))


def operator_counts(case: Case) -> Mapping[str, int] | None:
    """How many nodes of each type a case's model has, without those that are computed from constants only.

    A session computes the latter once, when it is created, and places them nowhere. None for a script.
    """
    if case.kind is not CaseKind.MODEL:
        return None
    model = parse_model(case.model.read_bytes(), case.name)
    return Counter(node.op_type for node in Flow.through(model).computing)


def computes_in_half(case: Case) -> bool:
    """Whether a node of a case's model computes with float16 numbers, whatever its outputs are.

    Weights that are stored as float16 and cast before they are used are no such thing, and neither are inputs. What
    is rounded to float16 on its way from one node to another is.
    """
    if case.kind is not CaseKind.MODEL:
        return False
    return Flow.through(parse_model(case.model.read_bytes(), case.name)).computes_in_half


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """All nodes of `model`: of its graph, of subgraphs at any depth, and of its functions."""
    yield from _nodes_in(model.graph)
    for function in model.functions:
        yield from _nodes_in(function)


def refuse_chance(model: ModelProto, where: str) -> None:
    """Raises CaseError, naming `where`, for a model whose outputs are drawn anew in each run.

    These are the random operators, and Dropout in training mode. A seed does not help: what is drawn with it differs
    between implementations, and the outputs of the one that we ask are not what onnxruntime-web gives.
    """
    constant = {tensor.name for tensor in _true_tensors(model)}
    for node in nodes(model):
        drawn = node.op_type in _RANDOM
        training = node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] in constant
        if drawn or training:
            raise CaseError(
                f"{one_line(where)} has no expected outputs: {one_line(node.op_type)} draws {_drawn(node)}",
                "cut the model before that node, or give the case as a folder with the outputs that a build gives",
            )


def _drawn(node: NodeProto) -> str:
    """What numbers the random operator `node` draws, in words."""
    seeded = any(attribute.name == "seed" for attribute in node.attribute)
    return "with its seed others in each implementation" if seeded else "others in each run"


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
