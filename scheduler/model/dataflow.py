"""A dataflow: a directed acyclic graph of tasks joined by streams, as a team submits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from .dataflow_goals import DataflowGoals
from .latency_limits import Limits

Visibility = Literal["shared", "private"]
Chaining = Literal["allowed", "never"]


def _frozen(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(mapping))


@dataclass(frozen=True, slots=True)
class Task:
    """A vertex: a type (which logic) and a config (its parameters, JSON values).

    With ``chain: never`` it has a query of its own. That is no part of its identity: of those who share a running task
    the strictest decides.
    """

    id: str
    type: str
    config: Mapping[str, Any] = field(default_factory=dict)
    chain: Chaining = "allowed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", _frozen(self.config))


@dataclass(frozen=True, slots=True)
class Stream:
    """An edge; selectivity is output events of ``source`` on this stream for each of its input events."""

    source: str
    target: str
    selectivity: float | None = None


@dataclass(frozen=True, slots=True)
class Dataflow:
    """A validated submission. Tasks and streams keep the order of the document.

    ``rates_per_s`` gives events/s for each source task id; a source's rate is part of its identity, because the same
    source at another rate is another stream. ``latency`` is None if the document states none: then the team's default
    holds; empty if no limit is wanted. Neither it nor ``goals`` (None if the document states none) is part of a task's
    identity.
    """

    name: str
    tasks: tuple[Task, ...]
    streams: tuple[Stream, ...]
    description: str = ""
    rates_per_s: Mapping[str, float] = field(default_factory=dict)
    visibility: Visibility = "shared"
    latency: Limits | None = None
    goals: DataflowGoals | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates_per_s", _frozen(self.rates_per_s))

    @property
    def unchained(self) -> tuple[str, ...]:
        """The ids of tasks that are to have a query of their own."""
        return tuple(task.id for task in self.tasks if task.chain == "never")

    def task(self, task_id: str) -> Task:
        """The task of that id; KeyError where there is none."""
        for task in self.tasks:
            if task.id == task_id:
                return task
        raise KeyError(task_id)

    def parents(self) -> dict[str, tuple[str, ...]]:
        """Parent ids by task id, in the order of the streams."""
        parents_by_task: dict[str, list[str]] = {task.id: [] for task in self.tasks}
        for stream in self.streams:
            parents_by_task[stream.target].append(stream.source)
        return {task_id: tuple(parents) for task_id, parents in parents_by_task.items()}

    def children(self) -> dict[str, tuple[str, ...]]:
        """Child ids by task id, in the order of the streams."""
        children_by_task: dict[str, list[str]] = {task.id: [] for task in self.tasks}
        for stream in self.streams:
            children_by_task[stream.source].append(stream.target)
        return {task_id: tuple(children) for task_id, children in children_by_task.items()}
