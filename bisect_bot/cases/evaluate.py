"""The child of `opinion`: runs `onnx`'s reference evaluator on the task in a folder, and leaves the outputs there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from bisect_bot.cases.opinion import INPUTS, OUTPUTS, TASK, WHY


def do_task(folder: Path) -> None:
    """Runs the data sets of the task in `folder` in order. Raises whatever the reference evaluator does."""
    task = json.loads((folder / TASK).read_text(encoding="utf-8"))
    evaluator = ReferenceEvaluator(task["model"])
    outputs: list[NDArray[np.generic]] = []
    fed: dict[str, NDArray[np.generic]] = {}
    with np.load(folder / INPUTS, allow_pickle=False) as inputs:
        arrays = iter([inputs[name] for name in inputs.files])
        for data_set in task["data_sets"]:
            feeds = {name: next(arrays) for name in data_set["inputs"]} | fed
            names = list(dict.fromkeys([*data_set["outputs"], *(output for output, _ in task["feed"])]))
            results = dict(zip(names, evaluator.run(names, feeds), strict=True))
            outputs += [np.asarray(results[name]) for name in data_set["outputs"]]
            fed = {name: np.asarray(results[output]) for output, name in task["feed"]}
    np.savez(folder / OUTPUTS, *outputs)


def main(folder: Path) -> int:
    """Does the task in `folder`; the exit status is 1, and the reason left there, when it cannot be done."""
    try:
        do_task(folder)
    # Whatever the evaluator raises is what it has to say.
    except Exception as error:
        (folder / WHY).write_text(f"{type(error).__name__}: {error}"[:2000], encoding="utf-8", errors="replace")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
