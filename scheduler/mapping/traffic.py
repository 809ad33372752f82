"""Traffic between nodes: the events that leave the machine which they were made on."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.placement import Placement
from scheduler.model.resources import TOLERANCE

Streams = Mapping[tuple[str, str], float]  # events/s on each stream, by (source, target)


def between_nodes_per_s(placement: Placement, streams: Streams) -> float:
    """Events/s that cross from one node to another, where every thread reads and writes its even part of a stream."""
    parts: dict[str, dict[str, float]] = {}
    for task, positions in placement.threads.items():
        by_node: dict[str, float] = {}
        for position in positions:
            node = placement.slots[position].node
            by_node[node] = by_node.get(node, 0.0) + 1 / len(positions)
        parts[task] = by_node
    total = 0.0
    for (source, target), rate in streams.items():
        stays = sum(part * parts[target].get(node, 0.0) for node, part in parts[source].items())
        total += rate * (1 - stays) if stays < 1 - TOLERANCE else 0.0
    return total
