"""Scripts as cases, written into a folder of the test."""

from __future__ import annotations

import json
from pathlib import Path

from bisect_bot.cases import Making, load_all
from bisect_bot.model import Case

# Runs the model of `models.grid_sample`, with the provider that is asked for.
GRID_SAMPLE = """
const session = await createSession('model.onnx');
const x = new ort.Tensor('float32', Float32Array.of(1, 2, 3, 4), [1, 1, 2, 2]);
const grid = new ort.Tensor('float32', Float32Array.of(-3, -3, -0.5, -0.5, 0.5, 0.5, 3, 3), [1, 2, 2, 2]);
return session.run({ x, grid });
"""
# Runs the model of `models.add` with the providers in the placeholder.
ADD = """
const session = await createSession(await fetchAsset('model.onnx'), { executionProviders: %s });
const counting = () => new ort.Tensor('float32', Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]);
return (await session.run({ a: counting(), b: counting() })).y0;
"""
TWICE = [2, 4, 6, 8, 10, 12]


def write_script(folder: Path, body: str, expected: object = None, name: str = "repro.mjs") -> Path:
    """Writes a script whose `run` has the body `body` into `folder`, and an `expected.json` unless it is None."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"export async function run({{ ort, createSession, fetchAsset, report }}) {{\n{body}\n}}\n")
    if expected is not None:
        (folder / "expected.json").write_text(json.dumps(expected))
    return path


def script_case(folder: Path, body: str, expected: object = None) -> Case:
    """The script with the body `body` as a pinned case that is called as `folder`."""
    write_script(folder, body, expected)
    (case,) = load_all([str(folder)], Making(folder.parent / "cache"))
    return case
