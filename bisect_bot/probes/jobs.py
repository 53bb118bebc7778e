"""The messages that tell the page what to run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bisect_bot.model import Case, CaseKind
from bisect_bot.probes.operations import operations
from bisect_bot.probes.types import Probe

# The runtime's log of this severity names the provider of each node.
LOG_VERBOSE = 0


def jobs(probe: Probe, indices: Sequence[int], adapter_attempts: int) -> tuple[dict[str, object], tuple[bytes, ...]]:
    """Header and blobs of the message that makes the page run the cases at `indices` of `probe.in_order`.

    They share a backend: a batch never spans a smoke case and others.
    """
    blobs: list[bytes] = []
    file = probe.bundle.file
    header: dict[str, object] = {
        "kind": "cases",
        "backend": probe.backend_of(indices[0]),
        # A bundle finds its WebAssembly beside itself; one in a folder of its own is told where it lies. Telling
        # the others would make those that have the glue inside load it from a file instead.
        "bundle": {
            "url": f"artifact/{file}",
            "loader": probe.bundle.loader.value,
            "wasm_paths": "artifact/" if "/" in file else None,
        },
        "adapter_attempts": adapter_attempts,
        "log_severity": LOG_VERBOSE,
        "cases": [_case(index, probe, blobs) for index in indices],
    }
    return header, tuple(blobs)


def assets(probe: Probe) -> dict[int, Path]:
    """The folders that the server needs for the scripts among `probe.in_order`, by index."""
    scripts = ((i, case) for i, case in enumerate(probe.in_order) if case.kind is CaseKind.SCRIPT)
    return {index: case.model.parent for index, case in scripts}


def size_of(case: Case) -> int:
    """The bytes of a case's model, its external data and inputs."""
    inputs = (tensor for data_set in case.data_sets for tensor in data_set.inputs)
    files = (case.model, *(case.model.parent / location for location in case.external))
    return sum(file.stat().st_size for file in files) + sum(len(tensor.data) for tensor in inputs)


def _case(index: int, probe: Probe, blobs: list[bytes]) -> dict[str, object]:
    """One case of a message, with what is to be done with it."""
    case, plan = probe.in_order[index], probe.plan_of(index)
    if case.kind is CaseKind.SCRIPT:
        return {"index": index, "script": case.model.name, "assets": f"asset/{index}/"}
    return {
        "index": index,
        **_model(case, blobs),
        "other": _model(plan.between, blobs) if plan.between else None,
        "operations": [[each.what, each.session, each.step] for each in operations(plan)],
    }


def _model(case: Case, blobs: list[bytes]) -> dict[str, object]:
    """A case's model, external data and inputs, which are appended to `blobs`. What is fed back does not travel."""
    fed = {name for _, name in case.feed}

    def blob(data: bytes) -> int:
        blobs.append(data)
        return len(blobs) - 1

    return {
        "model": blob(case.model.read_bytes()),
        "external": [
            {"path": location, "blob": blob((case.model.parent / location).read_bytes())} for location in case.external
        ],
        "data_sets": [
            {
                "name": data_set.name,
                "inputs": [
                    {"name": t.name, "dtype": t.dtype, "shape": list(t.shape), "blob": blob(t.data)}
                    for t in data_set.inputs
                    if number == 0 or t.name not in fed
                ],
            }
            for number, data_set in enumerate(case.data_sets)
        ],
        "feed": case.feed,
    }
