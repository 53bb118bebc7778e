"""Which execution provider each node was assigned to, read from the runtime's own verbose log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bisect_bot.model import Placement

# onnxruntime/core/framework/session_state.cc, VerifyEachNodeIsAssignedToAnEp: either "All nodes placed on [EP].
# Number of nodes: N" or, by provider, "Node(s) placed on [EP]. Number of nodes: N" and then "OpType (name)" lines.
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
