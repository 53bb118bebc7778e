"""One-node models and tensors of op manifests, as upstream's runner makes them (js/web/test/test-runner.ts)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, ValueInfoProto, helper

from bisect_bot.cases.element_types import ElementType, check_size, named_type
from bisect_bot.cases.manifest import Attribute, OpTest, Value
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Tensor

LOWEST_IR = 8
"""Of ONNX 1.10 … 1.13, known to every build from 1.10 on. Upstream writes 9, which 1.14 refuses."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_EXACT = 2**53


def model_of(test: OpTest, where: str) -> ModelProto:
    """The model of `test`, whose cases are alike: one node, inputs `input_0`, … and outputs `output_0`, … with data.

    Inputs have the shapes that `inputShapeDefinitions` says, by default none; outputs have none. Raises CaseError,
    naming `where`, where upstream's runner refuses the test, and for element types that cannot be run.
    """
    first = test.cases[0]
    imports = test.imports
    node = NodeProto(
        op_type=test.operator,
        name=test.operator,
        domain=imports[0].domain if len(imports) == 1 else "",
        input=[f"input_{i}" if _given(value) else "" for i, value in enumerate(first.inputs)],
        output=[f"output_{i}" if _given(value) else "" for i, value in enumerate(first.outputs)],
        attribute=[_attribute(attribute, where) for attribute in test.attributes or ()],
    )
    shapes = _shapes(test, where)
    inputs = [_port(f"input_{i}", value, shapes[i], where) for i, value in enumerate(first.inputs) if _given(value)]
    outputs = [_port(f"output_{i}", value, None, where) for i, value in enumerate(first.outputs) if _given(value)]
    if not outputs:
        raise CaseError(f"{one_line(where)} expects no output")
    opsets = [helper.make_opsetid(opset.domain, opset.version) for opset in imports]
    graph = helper.make_graph([node], test.name, inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=_ir_version(test))


def data_sets_of(test: OpTest, where: str) -> tuple[tuple[tuple[Tensor, ...], tuple[Tensor, ...]], ...]:
    """The inputs and expected outputs of each case of `test`, named as in its model.

    Raises CaseError, naming `where`, for elements that do not fit their type and data that does not fill its shape.
    """
    labels = [f"{where}/{case.name}" if len(test.cases) > 1 else where for case in test.cases]
    return tuple(
        (_tensors(case.inputs, "input", label), _tensors(case.outputs, "output", label))
        for case, label in zip(test.cases, labels, strict=True)
    )


def _given(value: Value) -> bool:
    return value.data is not None


def _attribute(attribute: Attribute, where: str) -> AttributeProto:
    label = f"{where}: attribute {attribute.name}"
    proto = AttributeProto(name=attribute.name)
    data = attribute.data
    values = data if attribute.type.endswith("s") else [data]
    if not isinstance(values, list):
        raise CaseError(f"{one_line(label)} is no list")
    kind = attribute.type.removesuffix("s")
    if kind == "string":
        texts = [_text(value, label) for value in values]
    elif kind == "int":
        numbers = [_integer(value, label) for value in values]
        if any(not -(2**63) <= number < 2**63 for number in numbers):
            raise CaseError(f"{one_line(label)} does not fit in 64 bits")
    else:
        floats = _floats(values, label).astype(np.float32).tolist()
    match attribute.type:
        case "float":
            proto.type, proto.f = AttributeProto.FLOAT, floats[0]
        case "int":
            proto.type, proto.i = AttributeProto.INT, numbers[0]
        case "string":
            proto.type, proto.s = AttributeProto.STRING, texts[0]
        case "floats":
            proto.type = AttributeProto.FLOATS
            proto.floats.extend(floats)
        case "ints":
            proto.type = AttributeProto.INTS
            proto.ints.extend(numbers)
        case "strings":
            proto.type = AttributeProto.STRINGS
            proto.strings.extend(texts)
    return proto


def _shapes(test: OpTest, where: str) -> Sequence[Sequence[int | str] | None]:
    """The shape that the model declares for each input, None for an unknown rank."""
    inputs = test.cases[0].inputs
    wish = test.shapes
    if wish is None or wish == "none":
        return [None] * len(inputs)
    if isinstance(wish, list):
        if len(wish) != len(inputs):
            raise CaseError(f"{one_line(where)} defines the shapes of {len(wish)} inputs, but has {len(inputs)}")
        return wish
    shapes = [[value.dims if _given(value) else None for value in case.inputs] for case in test.cases]
    if any(dims is None for case in shapes for dims in case):
        raise CaseError(f"{one_line(where)} has an input without data, so its shapes cannot be {wish}")
    first = [dims or [] for dims in shapes[0]]
    if wish == "static":
        if any(case != first for case in shapes):
            raise CaseError(f"{one_line(where)} has static shapes, but its cases differ in them")
        return first
    if any([len(dims or []) for dims in case] != [len(dims) for dims in first] for case in shapes):
        raise CaseError(f"{one_line(where)} has one rank for each input, but its cases differ in them")
    return [[f"_input_{i}_d{axis}" for axis in range(len(dims))] for i, dims in enumerate(first)]


def _port(name: str, value: Value, shape: Sequence[int | str] | None, where: str) -> ValueInfoProto:
    kind = named_type(value.type, f"{where}: {name}")
    return helper.make_tensor_value_info(name, kind.onnx, shape)


def _ir_version(test: OpTest) -> int:
    """The lowest IR version that goes with the opsets and element types of `test`, so that old builds take it."""
    four_bits = any(value.type in ("int4", "uint4") for value in (*test.cases[0].inputs, *test.cases[0].outputs))
    known = [helper.make_opsetid(o.domain, o.version) for o in test.imports if o.domain in ("", "ai.onnx")]
    try:
        lowest = helper.find_min_ir_version_for(known)
    except ValueError:
        lowest = LOWEST_IR  # an opset that never was: the builds will say so
    return max(LOWEST_IR, lowest, 10 if four_bits else 0)


def _tensors(values: Sequence[Value], side: str, where: str) -> tuple[Tensor, ...]:
    return tuple(_tensor(value, f"{side}_{i}", where) for i, value in enumerate(values) if _given(value))


def _tensor(value: Value, name: str, where: str) -> Tensor:
    label = f"{where}: {name}"
    kind = named_type(value.type, label)
    if value.dims is None:
        raise CaseError(f"{one_line(label)} has data, but no dims")
    check_size(kind, value.dims, label)
    data = value.data or []
    if len(data) != math.prod(value.dims):
        raise CaseError(f"{one_line(label)} has {len(data)} elements, but its shape is {value.dims[:16]}")
    return Tensor(name, kind.name, tuple(value.dims), _packed(data, kind, label))


def _packed(data: Sequence[Any], kind: ElementType, label: str) -> bytes:
    if kind.name.startswith("float"):
        with np.errstate(over="ignore"):
            return _floats(data, label).astype(np.dtype(kind.name).newbyteorder("<")).tobytes()
    numbers = [_integer(value, label) for value in data]
    if kind.name == "bool" and any(number not in (0, 1) for number in numbers):
        raise CaseError(f"{one_line(label)} is bool, but holds other numbers than 0 and 1")
    # What does not fit wraps, as in JavaScript's typed arrays.
    wrapped = [number & ((1 << kind.bits) - 1) for number in numbers]
    if kind.bits == 4:
        wrapped = [low | high << 4 for low, high in zip(wrapped[::2], [*wrapped[1::2], 0], strict=False)]
    return np.array(wrapped, dtype=f"<u{max(kind.bits, 8) // 8}").tobytes()


def _floats(values: Sequence[Any], label: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([_float(value, label) for value in values], dtype=np.float64)


def _float(value: Any, label: str) -> float:
    if isinstance(value, (int, float, str)):
        try:
            return float(value)
        except OverflowError:  # an integer beyond all doubles, which JavaScript reads as infinite
            return math.inf if value == abs(int(value)) else -math.inf
        except ValueError:
            pass
    raise CaseError(f"{one_line(label)} holds {one_line(repr(value), 40)}, which is no number")


def _integer(value: Any, label: str) -> int:
    """`value` as JavaScript's BigInt() reads it: numbers are doubles there, longer ones have to be strings."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, (int, float)) and not isinstance(value, str):
        number = _float(value, label) if abs(value) > _EXACT else value
        if math.isfinite(number) and number == int(number):
            return int(number)
    raise CaseError(f"{one_line(label)} holds {one_line(repr(value), 40)}, which is no integer")


def _text(value: Any, label: str) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            pass
    raise CaseError(f"{one_line(label)} holds {one_line(repr(value), 40)}, which is no text")
