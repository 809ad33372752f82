"""Which live sources a node is to read, and for whom: from its desired state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.contracts.desired import DesiredState
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskTypes


@dataclass(frozen=True, slots=True)
class WantedSource:
    """A live source: its task; the fragments that read it, each with those that it goes on with; and those that may
    have a place still: they hand over, or rest."""

    task: Task
    readers: Mapping[str, frozenset[str]]
    staying: frozenset[str]

    @property
    def known(self) -> frozenset[str]:
        """Every fragment by which the source is known as the one that it was."""
        return self.staying.union(self.readers, *self.readers.values())


def wanted_sources(desired: DesiredState, task_types: TaskTypes) -> dict[str, WantedSource]:
    """The live sources of a node, by running task; one that is paused has no readers.

    A source is read where the fragment runs that begins with it. One whose fragment hands over to another is read on.
    """
    sources: dict[str, WantedSource] = {}
    fragments = [*desired.wanted.values(), *desired.outgoing.values()]
    for fragment in fragments:
        head = fragment.tasks[0]
        if head.type not in task_types or task_types[head.type].connector is None:
            continue
        known = sources.get(head.id, WantedSource(head, {}, frozenset()))
        before = _line(desired, fragment.inherits)
        if fragment.paused or fragment.id in desired.outgoing:
            sources[head.id] = WantedSource(head, known.readers, known.staying | before | {fragment.id})
        else:
            sources[head.id] = WantedSource(head, {**known.readers, fragment.id: before}, known.staying)
    return sources


def _line(desired: DesiredState, names: tuple[str, ...]) -> frozenset[str]:
    """Fragments, and all those before them whose work they go on with."""
    ancestors: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in ancestors:
            ancestors.add(name)
            left += desired.outgoing[name].inherits if name in desired.outgoing else ()
    return frozenset(ancestors)
