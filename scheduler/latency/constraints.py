"""Latency constraints of a dataflow, and the sequences of its runtime graph that violate them (paper [5], 3.2 to 3.4).

A job sequence is a path of tasks and streams. It stands for every path of bundles and channels that has the same form,
up to the product of the bundles of its tasks; these are never listed. Their latencies are sums over their elements, so
the highest one, and whether an element is in a violated one, follow from the longest path to and from each vertex.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from .runtime_graph import Channel, RuntimeGraph

StreamEnds = tuple[str, str]  # the task that writes a stream, and the one that reads it
JobElement = str | StreamEnds  # a task by its id, or a stream
Element = str | Channel  # a vertex by its id, or a channel
Latencies = Mapping[Element, float]  # mean latency in seconds; what was not measured counts as 0


@dataclass(frozen=True, slots=True)
class LatencyConstraint:
    """The mean latency along ``sequence`` is at most ``limit_s``, over any span of ``over_s`` (equation 1).

    ``sequence`` alternates tasks and streams, and begins and ends with either. ``ValueError`` where it is no path, or
    where a figure is not above 0. Where a ``percentile`` is limited, ``limit_s`` is the mean that it allows of ages
    that are spread evenly, as long as nothing else was measured. Without ``waits`` it begins when its first task takes
    events: what they waited for the batch, as they do for that of a source, does not count.
    """

    sequence: tuple[JobElement, ...]
    limit_s: float
    over_s: float
    percentile: float | None = None
    waits: bool = True

    def __post_init__(self) -> None:
        if not self.sequence:
            raise ValueError("a latency constraint needs a task or a stream at least")
        for name, value in (("limit", self.limit_s), ("span", self.over_s)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"the {name} of a latency constraint is above 0 seconds, not {value!r}")
        for before, after in pairwise(self.sequence):
            if _joins(before, after):
                continue
            raise ValueError(f"{_named(before)} is not followed by {_named(after)}: a sequence is a path, in which "
                             "tasks and the streams between them alternate")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks along the sequence, with those at the ends of its first and last stream."""
        first, last = self.sequence[0], self.sequence[-1]
        tasks = [element for element in self.sequence if isinstance(element, str)]
        if not isinstance(first, str):
            tasks.insert(0, first[0])
        if not isinstance(last, str):
            tasks.append(last[1])
        return tuple(tasks)

    @property
    def last(self) -> str:
        """The last task that counts; of a single stream the one that writes it."""
        tasks = self.tasks
        return tasks[-1] if self.counts(tasks[-1]) else tasks[-2]

    def counts(self, element: JobElement) -> bool:
        """True if the latency of a task or stream is part of what is limited."""
        return element in self.sequence


def along(tasks: tuple[str, ...]) -> tuple[JobElement, ...]:
    """The sequence from the first task to the last one, both included."""
    elements: list[JobElement] = [tasks[0]]
    for source, target in pairwise(tasks):
        elements += [(source, target), target]
    return tuple(elements)


class WatchedConstraint:
    """One constraint on one runtime graph, with what was measured there.

    Parameters
    ----------
    latencies : mapping of elements to float
        Mean latency of each vertex and channel over the constraint's span, in seconds.
    anchors : frozenset of str, optional
        If given, only sequences through one of these vertices are watched.
    """

    def __init__(
        self, constraint: LatencyConstraint, graph: RuntimeGraph, latencies: Latencies,
        anchors: frozenset[str] | None = None,
    ) -> None:
        self._constraint, self._graph, self._latencies = constraint, graph, latencies
        self._tasks = constraint.tasks
        self._anchors = anchors
        self._anchor_position = None if anchors is None else self._position_of(anchors)
        self._rest_s = self._backward()

    def _position_of(self, anchors: frozenset[str]) -> int | None:
        return next((at for at, task in enumerate(self._tasks)
                     if any(vertex.id in anchors for vertex in self._graph.of_task(task))), None)

    def _vertices(self, position: int) -> list[str]:
        ids = [vertex.id for vertex in self._graph.of_task(self._tasks[position])]
        if self._anchors is not None and position == self._anchor_position:
            return [vertex for vertex in ids if vertex in self._anchors]
        return ids

    def _of_vertex(self, vertex: str) -> float:
        if not self._constraint.counts(self._graph.vertices[vertex].task):
            return 0.0
        return self._latencies.get(vertex, 0.0)

    def _of_channel(self, channel: Channel) -> float:
        ends = (self._graph.vertices[channel.source].task, self._graph.vertices[channel.target].task)
        return self._latencies.get(channel, 0.0) if self._constraint.counts(ends) else 0.0

    def _backward(self) -> list[dict[str, float]]:
        """The highest latencies backward, by position: the highest latency from each vertex, itself included, to the
        end; vertices that reach it."""
        last = len(self._tasks) - 1
        rest_s: list[dict[str, float]] = [{} for _ in self._tasks]
        rest_s[last] = {vertex: self._of_vertex(vertex) for vertex in self._vertices(last)}
        for position in range(last - 1, -1, -1):
            after = rest_s[position + 1]
            for vertex in self._vertices(position):
                reached = [self._of_channel(channel) + after[channel.target]
                           for channel in self._graph.out_of(vertex) if channel.target in after]
                if reached:
                    rest_s[position][vertex] = self._of_vertex(vertex) + max(reached)
        return rest_s

    def _forward(self) -> list[dict[str, float]]:
        """The highest latencies forward, by position: the highest latency from the beginning up to each vertex, without
        the vertex itself."""
        until_s: list[dict[str, float]] = [{} for _ in self._tasks]
        until_s[0] = dict.fromkeys(self._rest_s[0], 0.0)
        for position, reached in enumerate(until_s[:-1]):
            ahead = until_s[position + 1]
            for vertex, before_s in reached.items():
                for channel in self._graph.out_of(vertex):
                    if channel.target in self._rest_s[position + 1]:
                        via_s = before_s + self._of_vertex(vertex) + self._of_channel(channel)
                        ahead[channel.target] = max(via_s, ahead.get(channel.target, -math.inf))
        return until_s

    @property
    def worst_s(self) -> float | None:
        """The highest mean latency of any of its sequences, in seconds; None where there is none."""
        return max(self._rest_s[0].values(), default=None)

    def worst_through(self) -> dict[Element, float]:
        """The highest latency of a sequence through each vertex and channel that lies on one, in seconds.

        An element is in a violated sequence where its value is above the limit. Time and memory are linear in the
        number of channels.
        """
        until_s, through_s = self._forward(), dict[Element, float]()
        for position, reached in enumerate(until_s):
            for vertex, before_s in reached.items():
                through_s[vertex] = before_s + self._rest_s[position][vertex]
                if position + 1 == len(until_s):
                    continue
                for channel in self._graph.out_of(vertex):
                    if channel.target in self._rest_s[position + 1]:
                        through_s[channel] = (before_s + self._of_vertex(vertex) + self._of_channel(channel)
                                              + self._rest_s[position + 1][channel.target])
        return through_s


def _joins(before: JobElement, after: JobElement) -> bool:
    if isinstance(before, str):
        return not isinstance(after, str) and after[0] == before
    return isinstance(after, str) and before[1] == after


def _named(element: JobElement) -> str:
    return f"task {element!r}" if isinstance(element, str) else f"stream {element[0]} -> {element[1]}"
