"""Cases: things that must hold, read from a user's files and pinned by content.

`load_all` turns what was typed into cases, `load_pinned` finds one again when the files are gone.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bisect_bot.cases.archive import archive_source
from bisect_bot.cases.builtin import demo, smoke
from bisect_bot.cases.making import Making, Source
from bisect_bot.cases.manifests import manifest_source
from bisect_bot.cases.models import parse_model
from bisect_bot.cases.patterns import expand
from bisect_bot.cases.pin import load_pinned
from bisect_bot.cases.script import describe_script, is_script, script_source
from bisect_bot.cases.sets import together
from bisect_bot.cases.single import model_source
from bisect_bot.cases.suite import suite_source
from bisect_bot.cases.text import one_line
from bisect_bot.cases.tree import tree_source
from bisect_bot.errors import CaseError
from bisect_bot.model import Case, CaseKind

__all__ = ["Making", "demo", "describe", "load", "load_all", "load_between", "load_pinned", "smoke", "told_apart"]

_SHOWN_OPERATORS = 6
_BUILTIN: Mapping[str, Callable[[Path], Case]] = {"builtin:smoke": smoke, "builtin:demo": demo}


def load(text: str, making: Making) -> Case:
    """The first case that `text` names, as `load_all`."""
    return load_all([text], making)[0]


def load_between(text: str, making: Making) -> Case:
    """The first case that `text` names, to be run between others: without frames, with those sizes that it has.

    Raises CaseError as `load_all`, and for a script.
    """
    source = next(_source(each) for each in expand(text))
    case = source.make(replace(making, frames=0, feed=()).only(source.free))[0]
    if case.kind is not CaseKind.MODEL:
        raise CaseError(f"{one_line(text)} is no model, which --between needs", "name a model or a folder with one")
    return case


def load_all(texts: Sequence[str], making: Making) -> tuple[Case, ...]:
    """The cases that `texts` name, pinned, in their order and without repetitions.

    A text is a folder with `model.onnx` and data sets, a folder or zip of such folders, a `.onnx` model, a manifest
    `x.jsonc#name`, `suite-test-list.jsonc#backend`, one of these in a clone (`REV:path`), a script `repro.mjs`, a
    pattern of any of these, `builtin:smoke` or `builtin:demo`.
    A name in `making.dims` must be a free dimension of at least one of them. Two different cases of the same name
    are told apart by the beginning of their digest (`name@1a2b3c4d`), and by a number where that is the same, as for
    one test of two manifests, whose pages differ (`name@1a2b3c4d-2`). Raises CaseError for a case that cannot be
    read or run, for a name in `dims` that none has, and for `frames` of what cannot be run by frames; DiskFull when
    no space is left.
    """
    sources = [_sources(text) for text in texts]
    unused = sorted(set(making.dims) - {name for source in sources for name in source.free})
    if unused:
        known = ", ".join(dict.fromkeys(name for source in sources for name in source.free)) or "none"
        raise CaseError(
            f"no case has a free dimension {one_line(', '.join(unused))}", f"free dimensions are: {one_line(known)}"
        )
    made = [case for source in sources for case in source.make(making.only(source.free))]
    for case in made:
        if making.frames and (len(case.data_sets) != making.frames or case.feed != making.feed):
            raise CaseError(
                f"{one_line(case.name)} cannot be run by frames: it is no model and no folder with data sets",
                "leave out --frames and --feed, or name a model",
            )
    return told_apart(tuple({(case.name, case.digest, case.page): case for case in made}.values()))


def describe(case: Case) -> str:
    """What `case` is, on one line: its operators and opsets, the inputs of its first data set, and its digest."""
    if case.kind is CaseKind.SCRIPT:
        return describe_script(case)
    model = parse_model(case.model.read_bytes(), case.name)
    operators = Counter(node.op_type for node in model.graph.node)
    listed = [f"{count} {name}" if count > 1 else str(name) for name, count in operators.most_common(_SHOWN_OPERATORS)]
    more = ["…"] if len(operators) > _SHOWN_OPERATORS else []
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    inputs = ", ".join(f"{t.name} {t.dtype}{list(t.shape)}" for t in case.data_sets[0].inputs) if case.data_sets else ""
    text = (
        f"{', '.join([*listed, *more]) or 'no operator'} ({opsets}); {inputs or 'no inputs'}; sha256 {case.digest[:16]}"
    )
    return one_line(text, limit=400)


def _sources(text: str) -> Source:
    found = expand(text)
    return _source(text) if found == (text,) else together(text, found, _source)


def _source(text: str) -> Source:
    """The kind of `text`, decided by what lies there. Manifests, archives and scripts get their line here."""
    if text in _BUILTIN:
        return Source(lambda making: [_BUILTIN[text](making.root)])
    listed = suite_source(text) or manifest_source(text)
    if listed is not None:
        return listed
    try:
        path = Path(text).expanduser().absolute()
        folder, found = path.is_dir(), path.exists()
    except (OSError, ValueError, RuntimeError) as error:
        raise CaseError(f"{one_line(text)} is no case: {one_line(error)}") from error
    if is_script(path):
        return script_source(path, text)
    if folder:
        return tree_source(path, text)
    if not found:
        raise CaseError(f"there is no case {one_line(text) or '(empty)'}", "give a folder with model.onnx, or an .onnx")
    if path.suffix.lower() == ".onnx":
        return model_source(path, text)
    if path.suffix.lower() == ".zip":
        return archive_source(path, text)
    raise CaseError(
        f"{one_line(text)} is neither a folder with model.onnx and test_data_set_0 nor an .onnx model",
        "give one of these",
    )


def told_apart(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """`cases` with names that are each of one of them alone: by its name a case's verdicts are known."""
    count = Counter(case.name for case in cases)
    taken = {name for name, times in count.items() if times == 1}
    named = []
    for case in cases:
        if count[case.name] > 1:
            wish = f"{case.name}@{case.digest[:8]}"
            wishes = itertools.chain([wish], (f"{wish}-{number}" for number in itertools.count(2)))
            case = replace(case, name=next(name for name in wishes if name not in taken))  # noqa: PLW2901
            taken.add(case.name)
        named.append(case)
    return tuple(named)
