"""Cases of upstream's op manifests, from a file or from a revision of a clone.

A test is one case whose data sets are the test's own cases: upstream runs them in one session. Where these need
different models, each is a case of its own. All of a manifest run
in one page, in its order, because state between them is part of some bugs; `Making.isolate` makes each of a test's
cases a case of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bisect_bot.cases.files import read
from bisect_bot.cases.folder import MODEL, write_data_set
from bisect_bot.cases.gitobject import GitObject
from bisect_bot.cases.jsonc import MAX_BYTES
from bisect_bot.cases.making import Making, Source
from bisect_bot.cases.manifest import Chosen, OpTest, choose, manifest_text, parse_manifest
from bisect_bot.cases.models import parse_model, signature
from bisect_bot.cases.op_models import data_sets_of, model_of
from bisect_bot.cases.pin import pin
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError
from bisect_bot.model import Case, Tensor

_MANIFEST = re.compile(r"(?P<file>.+?\.jsonc?)(?:#(?P<case>.*))?", re.IGNORECASE | re.DOTALL)
_OBJECT = re.compile(r"(?P<rev>[^:]*):(?P<path>[^:].*)", re.DOTALL)
_LISTED = 5

Run = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]


def manifest_source(text: str) -> Source | None:
    """The cases of the manifest, or those of a name in it, that `text` means; None where it names no manifest.

    `text` is `x.jsonc`, `x.jsonc#name` (a test, `test/case`, or a case), or one of these after `REV:`, read from the
    clone of `Making.repo`. Making them raises CaseError for a manifest that cannot be read, a name that it does not
    have, and when none of its tests can be run; `Making.say` is told of some that cannot.
    """
    typed = _MANIFEST.fullmatch(text)
    if typed is None or _lies_there(text, Path.is_dir):
        return None
    file, wanted = (text, None) if _lies_there(text, Path.exists) else (typed["file"], typed["case"])
    named = _OBJECT.fullmatch(file)
    if named is None or _lies_there(file, Path.exists):
        return Source(lambda making: _cases(read(Path(file).expanduser(), file), file, wanted, making))
    content = GitObject(named["rev"], named["path"])
    return Source(lambda making: _cases(content.read(making.repo, MAX_BYTES), file, wanted, making))


def convert(test: OpTest, where: str) -> tuple[bytes, tuple[Run, ...]]:
    """The serialised model of `test`, and the inputs and expected outputs of each of its cases.

    Raises CaseError, naming `where`, for a test that cannot be run, and nothing else.
    """
    return bytes(model_of(test, where).SerializeToString(deterministic=True)), data_sets_of(test, where)


def _cases(content: bytes, file: str, wanted: str | None, making: Making) -> list[Case]:
    tests = parse_manifest(content, file)
    if wanted is not None:
        tests = choose(tests, wanted, file)
    tests = tuple(
        part for test in tests for part in (test.split() if making.isolate or not test.test.alike else (test,))
    )
    if not tests:
        raise CaseError(f"{one_line(file)} holds no tests")
    page = f"manifest {hashlib.sha256(content).hexdigest()[:16]}"
    made, refused = [], []
    for test in tests:
        try:
            model, runs = convert(test.test, f"{file}#{test.name}")
        except CaseError as error:
            refused.append(error)
        else:
            made.append(replace(_pinned(test, model, runs, file, making), page=page))
    if refused and not made:
        raise refused[0]
    if refused:
        listed = "; ".join(str(error) for error in refused[:_LISTED])
        more = f"; and {len(refused) - _LISTED} more" if len(refused) > _LISTED else ""
        left_out = f"{len(refused)} of {len(tests)} tests are left out: {one_line(listed, 1_000)}{more}"
        making.say(f"{one_line(file)}: {left_out}")
    return made


def _pinned(test: Chosen, model: bytes, runs: Sequence[Run], file: str, making: Making) -> Case:
    label = f"{file}#{test.name}"

    def fill(destination: Path) -> str:
        (destination / MODEL).write_bytes(model)
        ports = signature(parse_model(model, label), label)
        for number, (inputs, outputs) in enumerate(runs):
            write_data_set(destination / f"test_data_set_{number}", inputs, outputs, ports)
        return "files"

    text = manifest_text(test.test)
    return pin(fill, name=test.name, label=label, root=making.root, data_sets=test.labels, manifest=text)


def _lies_there(text: str, test: Callable[[Path], bool]) -> bool:
    try:
        return test(Path(text).expanduser())
    except (OSError, ValueError, RuntimeError):
        return False
