"""Traffic between nodes: the events that leave the machine which they were made on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.model.fragment import Slot
from scheduler.model.placement import Bound, Placement
from scheduler.model.resources import TOLERANCE

Streams = Mapping[tuple[str, str], float]  # events/s on each stream, by (source, target)
Shares = Mapping[str, Mapping[int, float]]  # of a task's events, by the position of the slot


def between_nodes_per_s(placement: Placement, streams: Streams, shares: Shares | None = None) -> float:
    """Events/s that cross from one node to another.

    Parameters
    ----------
    shares : mapping of str to mapping of int to float, optional
        The division of each task's events over its slots: a slot makes the same part of what the task makes. Without it
        every thread reads and writes its even part.
    """
    parts: dict[str, dict[str, float]] = {}
    for task, counts in placement.counts.items():
        by_node: dict[str, float] = {}
        for position, threads in counts.items():
            part = threads / len(placement.threads[task]) if shares is None else shares[task][position]
            node = placement.slots[position].node
            by_node[node] = by_node.get(node, 0.0) + part
        parts[task] = by_node
    total = 0.0
    for (source, target), rate in streams.items():
        stays = sum(part * parts[target].get(node, 0.0) for node, part in parts[source].items())
        total += rate * (1 - stays) if stays < 1 - TOLERANCE else 0.0
    return total


def on_other_slots(placement: Placement, slots: Sequence[Slot], streams: Streams) -> Placement:
    """The same placement with each of its slots in another's place.

    What is known of the least traffic holds there only where as many of its slots are on as many nodes.
    """
    moved = replace(placement, slots=tuple(slots))
    bound = placement.traffic_bound
    if bound is None:
        return moved
    reached = between_nodes_per_s(moved, streams)
    alike = _by_node(placement.slots) == _by_node(moved.slots)
    proved = reached <= TOLERANCE or (alike and bound.proved and reached <= bound.reached + TOLERANCE)
    return replace(moved, traffic_bound=Bound(reached, min(bound.least, reached) if alike else 0.0, proved=proved))


def _by_node(slots: Sequence[Slot]) -> list[int]:
    """The number of the slots on each node, the largest first."""
    return sorted(Counter(slot.node for slot in slots).values(), reverse=True)
