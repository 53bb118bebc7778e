"""Upstream's op manifests (js/web/test/data/ops/*.jsonc): tests of one operator each, with the data of several cases.

The schema is upstream's own (js/web/test/op-test-schema.json), with what it was before 641c3a4a37 (2023-08-03):
`opsets` and `condition`. A test's condition on the platform is not looked at: those that upstream ever had are about
phones, and who names a test wants it run.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bisect_bot.cases.jsonc import parse_jsonc
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError

DEFAULT_OPSET = 21
"""The opset of ai.onnx where a test names none: upstream takes its newest, 21 since 5cc7fb4a74 (2024-10-29)."""
_NAME = 120
_LOOKED_THROUGH = 2_000

_Size = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
_Text = Annotated[str, Field(max_length=10_000)]


class _Part(BaseModel):
    """What decides over the model: a field that is not known could mean another model, and is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Data(BaseModel):
    """Elements: upstream itself has some with fields that nothing reads."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Opset(_Part):
    """Operators of `domain` in the version `version`."""

    domain: _Text
    version: _Size


class Attribute(_Part):
    """An attribute of the operator; `data` fits `type`."""

    name: _Text
    type: Literal["float", "int", "string", "floats", "ints", "strings"]
    data: Any


class Value(_Data):
    """An input or output: its elements and shape, or no `data` for one that is left out."""

    type: _Text
    data: list[Any] | None = None
    dims: list[_Size] | None = None


class OpCase(_Data):
    """Data of one run of a test's model."""

    name: _Text
    inputs: list[Value]
    outputs: list[Value]


class OpTest(_Part):
    """One operator with attributes, and cases that upstream runs in one session. `name` need not be the only one."""

    name: _Text
    operator: _Text
    opset: Opset | None = None
    opsets: list[Opset] | None = None
    attributes: list[Attribute] | None = None
    shapes: Literal["none", "rankOnly", "static"] | list[list[_Size | _Text] | None] | None = Field(
        None, alias="inputShapeDefinitions"
    )
    condition: _Text | None = None
    platform_condition: _Text | None = Field(None, alias="platformCondition")
    cases: list[OpCase]

    @property
    def alike(self) -> bool:
        """Whether one model serves all cases. Upstream's runner, but for WebGL, refuses a test where none does."""
        kinds = {
            tuple(tuple((value.type, value.data is None) for value in side) for side in (case.inputs, case.outputs))
            for case in self.cases
        }
        return len(kinds) == 1

    @property
    def imports(self) -> list[Opset]:
        """The opsets of the model."""
        return self.opsets or [self.opset or Opset(domain="", version=DEFAULT_OPSET)]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A test, or one case of it, under the name that no other of its manifest has. `labels` are its cases' names."""

    name: str
    test: OpTest
    labels: tuple[str, ...]

    def split(self) -> tuple[Chosen, ...]:
        """Each case for itself."""
        if len(self.labels) == 1:
            return (self,)
        return tuple(
            Chosen(f"{self.name}/{label}", self.test.model_copy(update={"cases": [case]}), (label,))
            for label, case in zip(self.labels, self.test.cases, strict=True)
        )


def parse_manifest(content: bytes, where: str) -> tuple[Chosen, ...]:
    """The tests of the manifest `content`, in its order; those without cases, which upstream skips, are left out.

    Names are on one line, and repeated ones are numbered (`name (2)`). `where` names the manifest in errors. Raises
    CaseError for what is no manifest, and nothing else.
    """
    found = parse_jsonc(content, where)
    if not isinstance(found, list):
        raise CaseError(f"{one_line(where)} is no op manifest: it holds no list of tests")
    try:
        tests = _TESTS.validate_python(found)
    except ValidationError as error:
        raise CaseError(f"{one_line(where)}: {_first(error, found)}", "is it an op manifest of upstream?") from error
    tests = [test for test in tests if test.cases]
    names = _told_apart(test.name for test in tests)
    return tuple(
        Chosen(name, test, tuple(_told_apart(case.name for case in test.cases)))
        for name, test in zip(names, tests, strict=True)
    )


def choose(tests: Sequence[Chosen], wanted: str, where: str) -> tuple[Chosen, ...]:
    """Those of `tests` that `wanted` names: tests by their name, else cases by `test/case`, else by their own name.

    A name is what the manifest or what this tool calls it. Raises CaseError, naming `where`, for one that is none.
    """
    whole = tuple(test for test in tests if wanted in (test.name, test.test.name))
    if whole:
        return whole
    by_path, by_name = [], []
    for test in tests:
        for part, label, case in zip(test.split(), test.labels, test.test.cases, strict=True):
            names = {label, case.name}
            if wanted in {f"{prefix}/{name}" for prefix in (test.name, test.test.name) for name in names}:
                by_path.append(part)
            elif wanted in names:
                by_name.append(part)
    if by_path or by_name:
        return tuple(by_path or by_name)
    known = [test.name for test in tests] + [label for test in tests for label in test.labels]
    close = difflib.get_close_matches(wanted[:_NAME], list(dict.fromkeys(known))[:_LOOKED_THROUGH], 3, 0.4)
    shown = "; ".join(close or [test.name for test in tests[:3]])
    raise CaseError(
        f"{one_line(where)} has no case {one_line(repr(wanted), _NAME)}",
        f"{'is one of these meant' if close else 'it has'}: {one_line(shown)}",
    )


def manifest_text(test: OpTest) -> str:
    """`test` as a JSON object that upstream's runner reads, but for its name; empty where JSON cannot hold it.

    The opset is always named: it is the runner's newest otherwise, another one in each era. `opsets` is what runners
    before 641c3a4a37 read.
    """
    imports = [opset.model_dump() for opset in test.imports]
    entry: dict[str, Any] = {"operator": test.operator, "opset": imports[0], "opsets": imports}
    if test.attributes is not None:
        entry["attributes"] = [attribute.model_dump() for attribute in test.attributes]
    if test.shapes is not None:
        entry["inputShapeDefinitions"] = test.shapes
    entry["cases"] = [
        {"name": case.name, "inputs": _values(case.inputs), "outputs": _values(case.outputs)} for case in test.cases
    ]
    try:
        return json.dumps(entry, allow_nan=False)
    except ValueError:  # a number beyond all doubles
        return ""


def _values(values: Sequence[Value]) -> list[dict[str, Any]]:
    return [
        {"type": value.type, "data": value.data, **({} if value.dims is None else {"dims": value.dims})}
        for value in values
    ]


_TESTS = TypeAdapter(list[OpTest])


def _told_apart(names: Iterable[str]) -> list[str]:
    numbers: dict[str, Iterator[int]] = {}
    given: dict[str, None] = {}
    for text in names:
        name = one_line(text, limit=_NAME) or "unnamed"
        numbered = (f"{name} ({number})" if number > 1 else name for number in numbers.setdefault(name, count(1)))
        given[next(candidate for candidate in numbered if candidate not in given)] = None
    return list(given)


def _first(error: ValidationError, found: list[Any]) -> str:
    """The first problem and where it is, in words."""
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    index, *rest = problem["loc"]
    test = found[index] if isinstance(index, int) else None
    name = f" ({test['name']!r})" if isinstance(test, dict) and isinstance(test.get("name"), str) else ""
    place = ".".join(str(part) for part in rest)
    return one_line(f"test {index + 1 if isinstance(index, int) else index}{name}: {place or 'it'}: {problem['msg']}")
