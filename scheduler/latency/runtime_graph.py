"""The runtime graph: the bundles that execute each task, and the channels between them (paper [5], 3.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Vertex:
    """A bundle of a task's threads. ``worker`` is the node that it is on."""

    id: str
    task: str
    worker: str


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of events from one vertex to another, by their ids."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, init=False)
class RuntimeGraph:
    """Vertices and the channels that join them; a directed acyclic graph.

    Parameters
    ----------
    channels : iterable of Channel
        Each pair of vertices at most once. ``ValueError`` where an end is no vertex.
    """

    vertices: Mapping[str, Vertex]
    channels: tuple[Channel, ...]
    outgoing: Mapping[str, tuple[Channel, ...]]
    incoming: Mapping[str, tuple[Channel, ...]]
    by_task: Mapping[str, tuple[Vertex, ...]]

    def __init__(self, vertices: Iterable[Vertex], channels: Iterable[Channel]) -> None:
        by_id = {vertex.id: vertex for vertex in vertices}
        outgoing: dict[str, list[Channel]] = defaultdict(list)
        incoming: dict[str, list[Channel]] = defaultdict(list)
        by_task: dict[str, list[Vertex]] = defaultdict(list)
        for vertex in by_id.values():
            by_task[vertex.task].append(vertex)
        all_channels = tuple(channels)
        for channel in all_channels:
            for end in (channel.source, channel.target):
                if end not in by_id:
                    raise ValueError(f"the channel {channel.source} -> {channel.target} has no vertex {end}")
            outgoing[channel.source].append(channel)
            incoming[channel.target].append(channel)
        values: dict[str, object] = {
            "vertices": MappingProxyType(by_id), "channels": all_channels, "outgoing": _frozen(outgoing),
            "incoming": _frozen(incoming), "by_task": _frozen(by_task)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def out_of(self, vertex: str) -> tuple[Channel, ...]:
        """The channels that leave a vertex."""
        return self.outgoing.get(vertex, ())

    def into(self, vertex: str) -> tuple[Channel, ...]:
        """The channels that enter a vertex."""
        return self.incoming.get(vertex, ())

    def of_task(self, task: str) -> tuple[Vertex, ...]:
        """The vertices of a task; none where it has none here."""
        return self.by_task.get(task, ())


def _frozen(lists: Mapping[str, list[T]]) -> Mapping[str, tuple[T, ...]]:
    return MappingProxyType({key: tuple(values) for key, values in lists.items()})
