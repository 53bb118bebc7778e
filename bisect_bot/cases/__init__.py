"""Cases: things that must hold, read from a user's files and pinned by content.

`load_all` turns what was typed into cases, `load_pinned` finds one again when the files are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bisect_bot.cases.bare import fill_from_model, free_dimensions
from bisect_bot.cases.builtin import demo, smoke
from bisect_bot.cases.files import read
from bisect_bot.cases.folder import copy_folder
from bisect_bot.cases.making import Making, Source
from bisect_bot.cases.models import parse_model, signature
from bisect_bot.cases.pin import external_files, load_pinned, pin
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Case

__all__ = ["Making", "demo", "describe", "external_files", "load", "load_all", "load_pinned", "smoke"]

_SHOWN_OPERATORS = 6
_BUILTIN: Mapping[str, Callable[[Path], Case]] = {"builtin:smoke": smoke, "builtin:demo": demo}


def load(text: str, making: Making) -> Case:
    """The first case that `text` names, as `load_all`."""
    return load_all([text], making)[0]


def load_all(texts: Sequence[str], making: Making) -> tuple[Case, ...]:
    """The cases that `texts` name, pinned, in their order and without repetitions.

    A text is a folder with `model.onnx` and `test_data_set_*`, a `.onnx` model, `builtin:smoke` or `builtin:demo`.
    A name in `making.dims` must be a free dimension of at least one of them. Two different cases of the same name
    are told apart by the beginning of their digest (`name@1a2b3c4d`). Raises CaseError for a case that cannot be
    read or run and for a name in `dims` that none has, DiskFull when no space is left.
    """
    sources = [_source(text) for text in texts]
    unused = sorted(set(making.dims) - {name for source in sources for name in source.free})
    if unused:
        known = ", ".join(dict.fromkeys(name for source in sources for name in source.free)) or "none"
        raise CaseError(
            f"no case has a free dimension {one_line(', '.join(unused))}", f"free dimensions are: {one_line(known)}"
        )
    made = [
        case
        for source in sources
        for case in source.make(replace(making, dims={n: s for n, s in making.dims.items() if n in source.free}))
    ]
    return _told_apart(tuple({(case.name, case.digest, case.page): case for case in made}.values()))


def describe(case: Case) -> str:
    """What `case` is, on one line: its operators and opsets, the inputs of its first data set, and its digest."""
    model = parse_model(case.model.read_bytes(), case.name)
    operators = Counter(node.op_type for node in model.graph.node)
    listed = [f"{count} {name}" if count > 1 else name for name, count in operators.most_common(_SHOWN_OPERATORS)]
    more = ["…"] if len(operators) > _SHOWN_OPERATORS else []
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    inputs = ", ".join(f"{t.name} {t.dtype}{list(t.shape)}" for t in case.data_sets[0].inputs) if case.data_sets else ""
    text = (
        f"{', '.join([*listed, *more]) or 'no operator'} ({opsets}); {inputs or 'no inputs'}; sha256 {case.digest[:16]}"
    )
    return one_line(text, limit=400)


def _source(text: str) -> Source:
    """The kind of `text`, decided by what lies there. Manifests, archives and scripts get their line here."""
    if text in _BUILTIN:
        return Source(lambda making: [_BUILTIN[text](making.root)])
    try:
        path = Path(text).expanduser().absolute()
        folder, found = path.is_dir(), path.exists()
    except (OSError, ValueError, RuntimeError) as error:
        raise CaseError(f"{one_line(text)} is no case: {one_line(error)}") from error
    if folder:
        return _from_folder(path, text)
    if not found:
        raise CaseError(f"there is no case {one_line(text) or '(empty)'}", "give a folder with model.onnx, or an .onnx")
    if path.suffix.lower() == ".onnx":
        return _from_model(path, text)
    raise CaseError(
        f"{one_line(text)} is neither a folder with model.onnx and test_data_set_0 nor an .onnx model",
        "give one of these",
    )


def _from_folder(path: Path, text: str) -> Source:
    def fill(destination: Path) -> str:
        copy_folder(path, destination, text)
        return "files"

    return Source(lambda making: [pin(fill, name=_name(path.resolve().name), label=text, root=making.root)])


def _from_model(path: Path, text: str) -> Source:
    def make(making: Making) -> list[Case]:
        def fill(destination: Path) -> str:
            return fill_from_model(path, destination, text, making.dims, making.seed)

        return [pin(fill, name=_name(path.stem), label=text, root=making.root)]

    return Source(make, free_dimensions(signature(parse_model(read(path, text), text), text)))


def _name(text: str) -> str:
    return one_line(text, limit=120) or "unnamed"


def _told_apart(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    names = [case.name for case in cases]
    return tuple(
        replace(case, name=f"{case.name}@{case.digest[:8]}") if names.count(case.name) > 1 else case for case in cases
    )
