"""A part of a model without what it gives away: random values, and names that say nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from google.protobuf.message import Message  # type: ignore[import-untyped]
from numpy.typing import NDArray
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from bisect_bot.cases.operators import nodes
from bisect_bot.cases.text import one_line

SMALL = 16
"""So many integers may be axes, a shape or padding, which mean something; larger tensors of them are weights."""
_LONG_TEXT = 64
_OWN_DOMAIN = "local"
_FLOATS = {number for name, number in TensorProto.DataType.items() if "FLOAT" in name or name == "DOUBLE"}
_NO_NUMBERS = {TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128, TensorProto.UNDEFINED}
_KNOWN = {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft", _OWN_DOMAIN}

Values: TypeAlias = Mapping[str, NDArray[np.generic]]
Scope: TypeAlias = GraphProto | FunctionProto


@dataclass(frozen=True, slots=True)
class Anonymous:
    """A model with random values, its inputs, and what is still the model's own: in words, empty for nothing."""

    model: ModelProto
    feeds: dict[str, NDArray[np.generic]]
    left: tuple[str, ...]


def anonymous(model: ModelProto, feeds: Values, seed: int, *, integers: bool) -> Anonymous:
    """`model` and its inputs `feeds` with other values of the same range, and with neutral names.

    Floats are replaced wherever they stand: initialisers, attributes, subgraphs and functions. So are integers and
    booleans, more than `SMALL` of them at once, where `integers` says so. Texts, metadata and functions that nothing
    calls are left out; small integers, attributes that are options, and operators stay.
    """
    mine = ModelProto()
    mine.CopyFrom(model)
    generator = np.random.default_rng(seed)
    left: list[str] = []

    def like(array: NDArray[np.generic], floats: bool, name: str) -> NDArray[np.generic]:
        if floats and array.size > 1:
            return _floats_like(array, generator)
        if not floats and integers and array.size > SMALL:
            return _integers_like(array, generator)
        if array.size > SMALL:
            left.append(f"{one_line(name, 60) or 'a constant'} ({array.size} elements)")
        return array

    _drop_unused(mine)
    fed = {name: like(array, array.dtype.kind == "f", name) for name, array in feeds.items()}
    for scope in _scopes(mine):
        for tensor, name in _tensors(scope):
            if tensor.data_type in _NO_NUMBERS:
                if np.prod(tensor.dims) > 1:
                    left.append(f"{one_line(name, 60)} (no numbers)")
                continue
            changed = numpy_helper.from_array(
                like(numpy_helper.to_array(tensor), tensor.data_type in _FLOATS, name), tensor.name
            )
            tensor.CopyFrom(changed)
    for node in nodes(mine):
        for attribute in node.attribute:
            _change_lists(attribute, f"{node.op_type}.{attribute.name}", like, left)
    names = _Names({})
    without_texts(mine)
    _rename_functions(mine)
    for scope in _scopes(mine):
        _rename(scope, names)
    left += [f"the domain {one_line(each.domain, 60)}" for each in mine.opset_import if each.domain not in _KNOWN]
    return Anonymous(mine, {names(name): array for name, array in fed.items()}, tuple(dict.fromkeys(left)))


def without_texts(model: ModelProto) -> None:
    """Takes out of `model` what no runtime needs: descriptions, metadata, who made it, and types that are inferred."""
    for name in ("doc_string", "metadata_props", "producer_name", "producer_version", "domain", "model_version"):
        model.ClearField(name)
    for scope in _scopes(model):
        for name in ("doc_string", "metadata_props", "value_info", "quantization_annotation"):
            _clear(scope, name)
        for node in scope.node:
            for name in ("doc_string", "metadata_props", "device_configurations"):
                _clear(node, name)
            for attribute in node.attribute:
                attribute.ClearField("doc_string")
        for tensor, _ in _tensors(scope):
            for name in ("doc_string", "metadata_props"):
                _clear(tensor, name)
        for value in (*scope.input, *scope.output) if isinstance(scope, GraphProto) else ():
            for name in ("doc_string", "metadata_props"):
                _clear(value, name)


def _clear(message: Message, name: str) -> None:
    if name in message.DESCRIPTOR.fields_by_name:
        message.ClearField(name)


def _scopes(model: ModelProto) -> Iterator[Scope]:
    """The graph of `model`, its functions, and all subgraphs of these."""
    yield from (model.graph, *model.functions)
    for node in nodes(model):
        for attribute in node.attribute:
            yield from [attribute.g] if attribute.HasField("g") else []
            yield from attribute.graphs


def _tensors(scope: Scope) -> Iterator[tuple[TensorProto, str]]:
    """The tensors that stand in `scope` itself, not in its subgraphs, each with what it is called."""
    if isinstance(scope, GraphProto):
        yield from ((tensor, tensor.name) for tensor in scope.initializer)
        yield from ((sparse.values, sparse.values.name) for sparse in scope.sparse_initializer)
    owned = [(attribute, node.output[0] if node.output else "") for node in scope.node for attribute in node.attribute]
    if isinstance(scope, FunctionProto):
        owned += [(attribute, attribute.name) for attribute in scope.attribute_proto]
    for attribute, name in owned:
        yield from [(attribute.t, name)] if attribute.HasField("t") else []
        yield from ((tensor, name) for tensor in attribute.tensors)
        yield from [(attribute.sparse_tensor.values, name)] if attribute.HasField("sparse_tensor") else []
        yield from ((sparse.values, name) for sparse in attribute.sparse_tensors)


def _floats_like(array: NDArray[np.generic], generator: np.random.Generator) -> NDArray[np.generic]:
    """Random values of the mean, spread and range of `array`: variances stay positive. What is not finite stays."""
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if low == high:
        low, high = low - 1.0, high + 1.0
    mean, spread = (float(finite.mean()), float(finite.std())) if finite.size else (0.0, 0.0)
    drawn = generator.normal(mean, spread or 1.0, array.shape)
    return np.where(np.isfinite(wide), np.clip(drawn, low, high), wide).astype(array.dtype)


def _integers_like(array: NDArray[np.generic], generator: np.random.Generator) -> NDArray[np.generic]:
    """Random values of the range of `array`, which may be indices; where all are the same, of those from it to 0."""
    # Neither numpy's uint64 nor ml_dtypes' 4-bit types go through int64 as a whole; Python's numbers do.
    low, high = int(array.min()), int(array.max())
    if low == high:
        low, high = min(0, low), max(1, high)
    if array.dtype.kind in "iu":
        return generator.integers(low, high, array.shape, dtype=array.dtype.type, endpoint=True)
    return generator.integers(low, high, array.shape, endpoint=True).astype(array.dtype)


def _change_lists(
    attribute: AttributeProto,
    name: str,
    like: Callable[[NDArray[np.generic], bool, str], NDArray[np.generic]],
    left: list[str],
) -> None:
    """Changes the lists of numbers of `attribute`; adds to `left` what cannot be changed."""
    constant = attribute.name in ("value_ints", "value_floats")
    if len(attribute.floats) > (1 if constant else SMALL):
        attribute.floats[:] = like(np.asarray(attribute.floats, np.float32), True, name).tolist()
    if len(attribute.ints) > SMALL:
        if constant:
            attribute.ints[:] = like(np.asarray(attribute.ints, np.int64), False, name).tolist()
        else:  # they are structure, as the nodes of a tree are
            left.append(f"{one_line(name, 60)} ({len(attribute.ints)} elements)")
    if len(attribute.s) > _LONG_TEXT or len(attribute.strings) > SMALL:
        left.append(f"{one_line(name, 60)} (text)")


def _drop_unused(model: ModelProto) -> None:
    """Takes out the functions that nothing calls, and the operator sets that nothing uses."""
    while True:
        called = {(node.domain, node.op_type) for node in nodes(model)}
        kept = [function for function in model.functions if (function.domain, function.name) in called]
        if len(kept) == len(model.functions):
            break
        model.ClearField("functions")
        model.functions.extend(kept)
    used = {node.domain for node in nodes(model)} | {"", "ai.onnx"}
    opsets = [each for each in model.opset_import if each.domain in used]
    model.ClearField("opset_import")
    model.opset_import.extend(opsets)


def _rename_functions(model: ModelProto) -> None:
    """Calls the functions f0, f1, … in a domain of ours."""
    if not model.functions:
        return
    new = {(f.domain, f.name, f.overload): f"f{n}" for n, f in enumerate(model.functions)}
    for node in nodes(model):
        name = new.get((node.domain, node.op_type, node.overload))
        if name is not None:
            node.domain, node.op_type, node.overload = _OWN_DOMAIN, name, ""
    for function, name in zip(model.functions, new.values(), strict=True):
        function.domain, function.name, function.overload = _OWN_DOMAIN, name, ""
    used = {node.domain for node in nodes(model)} | {"", "ai.onnx"}
    for holder in (model, *model.functions):
        opsets = [each for each in holder.opset_import if each.domain in used and each.domain != _OWN_DOMAIN]
        holder.ClearField("opset_import")
        holder.opset_import.extend([*opsets, helper.make_opsetid(_OWN_DOMAIN, 1)])


@dataclass(frozen=True, slots=True)
class _Names:
    """A new name for each old one. Values of the same name get the same, in whatever scope they stand."""

    given: dict[str, str]

    def __call__(self, name: str) -> str:
        return self.given.setdefault(name, f"v{len(self.given)}") if name else ""


def _rename(scope: Scope, names: _Names) -> None:
    if isinstance(scope, GraphProto):
        scope.name = "part"
        for value in (*scope.input, *scope.output):
            value.name = names(value.name)
            for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
                dim.ClearField("dim_param")
                dim.ClearField("denotation")
        for tensor in scope.initializer:
            tensor.name = names(tensor.name)
        for sparse in scope.sparse_initializer:
            sparse.values.name = names(sparse.values.name)
    else:
        for side in (scope.input, scope.output):
            side[:] = [names(name) for name in side]
    for number, node in enumerate(scope.node):
        _rename_node(node, number, names)


def _rename_node(node: NodeProto, number: int, names: _Names) -> None:
    node.name = f"n{number}"
    for side in (node.input, node.output):
        side[:] = [names(name) for name in side]
    for attribute in node.attribute:
        for tensor in ([attribute.t] if attribute.HasField("t") else []) + list(attribute.tensors):
            tensor.ClearField("name")
