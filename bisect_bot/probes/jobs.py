"""The messages that tell the page what to run."""

from __future__ import annotations

from collections.abc import Sequence

from bisect_bot.model import Case
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
        "cases": [_case(index, probe.in_order[index], blobs) for index in indices],
    }
    return header, tuple(blobs)


def size_of(case: Case) -> int:
    """The bytes of a case's model and inputs."""
    inputs = (tensor for data_set in case.data_sets for tensor in data_set.inputs)
    return case.model.stat().st_size + sum(len(tensor.data) for tensor in inputs)


def _case(index: int, case: Case, blobs: list[bytes]) -> dict[str, object]:
    """One case of a message; its model and inputs are appended to `blobs`."""

    def blob(data: bytes) -> int:
        blobs.append(data)
        return len(blobs) - 1

    return {
        "index": index,
        "model": blob(case.model.read_bytes()),
        "data_sets": [
            {
                "name": data_set.name,
                "inputs": [
                    {"name": t.name, "dtype": t.dtype, "shape": list(t.shape), "blob": blob(t.data)}
                    for t in data_set.inputs
                ],
            }
            for data_set in case.data_sets
        ],
    }
