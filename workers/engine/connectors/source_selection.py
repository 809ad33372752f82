"""Selection of the live sources that a node is to read, and for whom: from its desired state. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from scheduler.contracts.desired import DesiredState
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskTypes
from workers.engine.passing import Passed
from workers.engine.sinks.sink_selection import wanted_sinks


@dataclass(frozen=True, slots=True)
class WantedSource:
    """A live source: its task; the fragments that read it, each with those that it goes on with; those that may have a
    place still (they hand over, or rest); and how it passes between nodes."""

    task: Task
    readers: Mapping[str, frozenset[str]]
    staying: frozenset[str]
    passed: Passed = field(default_factory=Passed)

    @property
    def known_readers(self) -> frozenset[str]:
        """All fragments that count as known readers: with one of them the source keeps its state."""
        return self.staying.union(self.readers, *self.readers.values(), self.passed.heirs)


def wanted_sources(
    desired: DesiredState, task_types: TaskTypes, *, let_go: Collection[str] = ()
) -> dict[str, WantedSource]:
    """The live sources of a node, by running task; one that is paused has no readers.

    A source is read where the fragment runs that begins with it. One whose fragment hands over to another is read on;
    one that goes on on another node, until that is let go.

    Parameters
    ----------
    let_go : collection of str
        The fragments of other nodes for which this node has let go what it held.
    """
    sources: dict[str, WantedSource] = {}
    fragments = [*desired.wanted.values(), *desired.outgoing.values()]
    for fragment in fragments:
        head = fragment.tasks[0]
        if head.type not in task_types or task_types[head.type].connector is None:
            continue
        live_source = sources.get(head.id, WantedSource(head, {}, frozenset()))
        before = _line(desired, fragment.inherits)
        if fragment.paused or fragment.id in desired.outgoing:
            live_source = replace(live_source, staying=live_source.staying | before | {fragment.id})
        else:
            live_source = replace(live_source, readers={**live_source.readers, fragment.id: before})
        sources[head.id] = replace(live_source, passed=live_source.passed.seen(desired, fragment))
    for node, heirs in desired.remote_heirs.items():
        for heir in heirs:
            live_source = sources.get(heir.tasks[0].id)
            if live_source is not None:
                sources[live_source.task.id] = replace(
                    live_source, passed=live_source.passed.followed_by(heir.id, node))
    return {task: source for task, source in sources.items() if not source.passed.is_over(let_go)}


def wants_connectors(desired: DesiredState, task_types: TaskTypes, *, let_go: Collection[str]) -> bool:
    """True where a node has a live source to read, or a sink to write."""
    return bool(wanted_sources(desired, task_types, let_go=let_go) or wanted_sinks(desired, task_types, let_go=let_go))


def _line(desired: DesiredState, names: tuple[str, ...]) -> frozenset[str]:
    """Fragments, and all those before them whose work they go on with."""
    ancestors: set[str] = set()
    remaining_names = list(names)
    while remaining_names:
        name = remaining_names.pop()
        if name not in ancestors:
            ancestors.add(name)
            remaining_names += desired.outgoing[name].inherits if name in desired.outgoing else ()
    return frozenset(ancestors)
