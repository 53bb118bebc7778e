"""A folder: a case itself, or the top of a tree of cases such as ONNX's node tests."""

from __future__ import annotations

from pathlib import Path

from bisect_bot.cases.finding import Found, files_below, find_cases
from bisect_bot.cases.folder import MODEL, data_set_folders
from bisect_bot.cases.making import Source
from bisect_bot.cases.sets import Member, make_set
from bisect_bot.cases.single import folder_source, pin_folder
from bisect_bot.cases.text import one_line
from bisect_bot.errors import CaseError


def tree_source(folder: Path, label: str) -> Source:
    """The case in `folder`, or, where it has no `model.onnx`, all cases with data sets below it.

    Those are named after their folders, and come in the order of these. `label` names the folder in errors. Raises
    CaseError when there is none.
    """
    if (folder / MODEL).exists():
        return folder_source(folder, label)
    found = find_cases(files_below(folder, label))
    cases = [case for case in found if not case.bare]
    if not cases and data_set_folders(folder, label):
        return folder_source(folder, label)
    if not cases:
        raise CaseError(
            f"{one_line(label)} holds no case: neither it nor a folder in it has {MODEL} and test_data_set_0",
            f"to have inputs made for bare models, name them: '{one_line(label)}/*.onnx'" if found else "",
        )
    return Source(lambda making: make_set(label, [member(folder, case, label) for case in cases], making))


def member(root: Path, case: Found, label: str) -> Member:
    """How to make `case`, found below the folder `root`."""
    where = f"{label}/{case.folder}" if case.folder.parts else label
    name = case.name(root.resolve().name)
    return lambda making: [pin_folder(root / case.folder, case.model, where, name, making)]
