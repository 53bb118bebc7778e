"""Which execution provider each node was assigned to, read from the runtime's own verbose log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bisect_bot.model import Placement

# onnxruntime/core/framework/session_state.cc, VerifyEachNodeIsAssignedToAnEp, subgraphs included: either "All nodes
# placed on [EP]. Number of nodes: N" or, by provider, "Node(s) placed on [EP]. Number of nodes: N" and then
# "OpType (name)" lines. Checked by running 1.14.0, 1.15.1, 1.16.3, 1.17.3, 1.18.0, 1.19.2, 1.20.1, 1.21.0, 1.22.0,
# 1.23.0-dev.20250821, 1.24.3, 1.27.0, 1.30.0 and 1.31.0-dev.20260914 on wasm and on webgpu with the bundles default,
# all and jspi: all print them in the same words; only the console's level differs (1.15 warns, 1.17 and later say
# error). The providers are CPUExecutionProvider, JsExecutionProvider (JSEP) and WebGpuExecutionProvider (native). WebGL
# is another implementation, without such a log.
HEADING = re.compile(r"(All nodes|Node\(s\)) placed on \[(\w+)\]\. Number of nodes: (\d+)")
NODE = re.compile(r"VerifyEachNodeIsAssignedToAnEp\]\s+(\w[\w.:]* \(.*\))\s*$")


def parse_placements(console: Sequence[str]) -> tuple[Placement, ...]:
    """The placements in `console` lines, in log order; empty where the runtime does not print them."""
    found: list[tuple[str, list[str]]] = []
    for line in console:
        heading = HEADING.search(line)
        if heading:
            found.append((heading.group(2), []))
            continue
        node = NODE.search(line)
        if node and found:
            found[-1][1].append(node.group(1))
    return tuple(Placement(provider, tuple(nodes)) for provider, nodes in found)
