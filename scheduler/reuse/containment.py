"""Containment: a task whose output can be had from a wider one that runs already, by a cheap refinement on top of it.

A range filter inside a wider one, a block of readings made of shorter blocks: where a task type says that a config is
contained in a running sibling's, the submitted task is replaced by its refinement, which reads the wider task's stream.
The rest follows by itself. The refinement is a task like others, with a fingerprint of its own, so that whoever
submits the same finds it; the wider task becomes one of the submitted dataflow's, so that it stays while it is needed.
A dynamic task is contained in a static one where all of its alternates are, or equal it (`narrower_alternates`).

What is contained in what is the task types' word (`Rule`): outputs must be equal event by event, Weir's columns
included, and the library's tests hold each rule against Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from itertools import islice
from typing import Any

from scheduler.model.alternates import alternates_in, logic_version, selectivity_at_work
from scheduler.model.canonical import canonical_config, identity_config
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.fragment import RunningTask
from scheduler.model.refinement import Refined, Refinement, Rule
from scheduler.model.task_types import DYNAMIC, TaskTypes

from .fingerprint import fingerprint
from .merge import merged_ids
from .narrower_alternates import PASSES, refined_alternates
from .siblings import Siblings, expect, kin

MOST_WIDER = 16  # wider siblings among which the best is looked for
_WIDER = "{}~wider"  # the id of the wider task in the submitted dataflow: none that a document can give


@dataclass(frozen=True, slots=True)
class Containment:
    """The facts for containment: where siblings are, and the task types' rules."""

    siblings: Siblings
    rule: Rule


@dataclass(frozen=True, slots=True)
class Contained:
    """A dataflow with refinements, and their list."""

    dataflow: Dataflow
    refinements: tuple[Refinement, ...] = ()


def contain(
    running: Mapping[str, RunningTask], dataflow: Dataflow, *, task_types: TaskTypes, containment: Containment | None,
    scope: str = "", fresh_for: str = "", works: Callable[[str], bool] = lambda running_task: True,
) -> Contained:
    """Replace each task that does not run, but is contained in one that does, by its refinement.

    Of several wider siblings the one with a running refinement is taken; else one that contains no other of them,
    because it leaves the least to do; else the first by id. Tasks that the merge would not join are left out: a task
    that was started fresh, or by another version of its type, has another fingerprint than the dataflow's would get.

    Parameters
    ----------
    running : mapping of str to RunningTask
        The running tasks, closed under parents.
    containment : Containment, optional
        None to leave the dataflow as it is.
    scope : str
        "" for a shared dataflow, else the team whose private dataflow it is.
    fresh_for : str
        The dataflow's id if it wants no state older than itself, as for `merge`: then stateful tasks stay as they are,
        and no task behind a freshly started one is contained.
    works : callable, optional
        Takes a running task; True if it works. To wake a resting one costs more than doing without it.

    Returns
    -------
    Contained
        A valid, de-duplicated dataflow of equal output. Each refinement keeps the id of the task that it replaces.
    """
    if containment is None:
        return Contained(dataflow)
    rewriting = _Rewriting(running, dataflow, task_types, containment, scope, fresh_for=fresh_for, works=works)
    parents = dataflow.parents()
    for task_id in TopologicalSorter(parents).static_order():
        rewriting.task(task_id, parents[task_id])
    return rewriting.outcome()


class _Rewriting:
    """A dataflow on its way to its contained form, task by task, upstream first."""

    def __init__(
        self, running: Mapping[str, RunningTask], dataflow: Dataflow, task_types: TaskTypes, containment: Containment,
        scope: str, *, fresh_for: str, works: Callable[[str], bool],
    ) -> None:
        self.works = works
        self.running, self.dataflow, self.task_types = running, dataflow, task_types
        self.containment, self.scope, self.fresh_for = containment, scope, fresh_for
        self.tasks = {task.id: task for task in dataflow.tasks}
        self.streams: dict[tuple[str, str], Stream] = {
            (stream.source, stream.target): stream for stream in dataflow.streams}
        self.added: list[Task] = []
        self.refinements: list[Refinement] = []
        self.ids: dict[str, str] = {}  # submitted task id -> running task id
        self.joining: dict[str, str] = {}  # the same if nothing were started anew
        # Running task id -> submitted task id: those of the dataflow as it came (whose ancestors run keep theirs), then
        # what is added.
        _, as_it_came = merged_ids(running, dataflow, task_types=task_types, scope=scope, fresh_for=fresh_for)
        self.holders = {fingerprint: task_id for task_id, fingerprint in as_it_came.items()}
        self._expect(as_it_came)

    def _expect(self, ids: Mapping[str, str]) -> None:
        """Read in one go what is looked up first: the dataflow's tasks, and the kin of those next to what runs."""
        expect(self.running, ids.values())
        above = {task_id: [ids[parent] for parent in parents] for task_id, parents in self.dataflow.parents().items()}
        expect(self.containment.siblings, (
            kin(name, parents=parents, scope=self.scope) for task_id, parents in above.items()
            if parents and ids[task_id] not in self.running and all(parent in self.running for parent in parents)
            for name in _types_of_wider(self.tasks[task_id].type, self.tasks[task_id].config)))

    def task(self, task_id: str, parents: Sequence[str]) -> None:
        task = self.tasks[task_id]
        config = identity_config(self.dataflow, task, self.task_types[task.type])
        task_type = self.task_types[task.type]
        above = [self.ids[parent] for parent in parents]
        joining = self._fingerprint(task.type, config, [self.joining[parent] for parent in parents])
        anew = bool(self.fresh_for) and task_type.stateful
        identity = self._fingerprint(
            task.type, config, above, self.fresh_for if anew and joining in self.running else "")
        may = above and identity not in self.running and not anew
        if may and all(parent in self.running for parent in above):
            best = self._best(task.type, config, above)
            if best is not None:
                identity = joining = self._refine(task, parents, *best)
        self._hold(task_id, identity, joining)

    def outcome(self) -> Contained:
        if not self.refinements:
            return Contained(self.dataflow)
        dataflow = replace(
            self.dataflow,
            tasks=(*(self.tasks[task.id] for task in self.dataflow.tasks), *self.added),
            streams=tuple(self.streams.values()),
        )
        return Contained(dataflow, tuple(self.refinements))

    def _best(
        self, type_name: str, config: Mapping[str, Any], above: Sequence[str]
    ) -> tuple[RunningTask, Refined, str] | None:
        offers = list(islice(self._offers(type_name, config, above), MOST_WIDER))

        def rank(offer: tuple[RunningTask, Refined, str]) -> tuple[bool, int, str]:
            inside = sum(
                self._narrowed(offer[0], other_task.type, other_task.config) is not None
                for other_task, *_ in offers
                if other_task is not offer[0]
            )
            return offer[2] not in self.running, inside, offer[0].id

        # A refinement that the dataflow has already would be the same task twice.
        return min((offer for offer in offers if offer[2] not in self.holders), key=rank, default=None)

    def _offers(
        self, type_name: str, config: Mapping[str, Any], above: Sequence[str]
    ) -> Iterator[tuple[RunningTask, Refined, str]]:
        """Wider siblings that the merge joins, each with the refinement of its stream, and that one's fingerprint."""
        for name in _types_of_wider(type_name, config):
            for wider in self.containment.siblings.siblings(kin(name, parents=above, scope=self.scope)):
                refined = self._refined(wider, type_name, config, above)
                if refined is not None and refined.type in self.task_types and self._is_joined(wider, above):
                    refined = replace(refined, config=canonical_config(self.task_types[refined.type], refined.config))
                    yield wider, refined, self._fingerprint(refined.type, refined.config, [wider.id])

    def _refined(
        self, wider: RunningTask, type_name: str, config: Mapping[str, Any], above: Sequence[str]
    ) -> Refined | None:
        """The task that makes of a wider task's stream what one of this type and config makes of what both read."""
        def of_alternate(name: str, stated: Mapping[str, Any]) -> Refined | None:
            if self._fingerprint(name, stated, above) == wider.id:
                return Refined(PASSES, {})
            return self._narrowed(wider, name, stated)

        if type_name == DYNAMIC:
            return refined_alternates(config, of_alternate, task_types=self.task_types)
        return self._narrowed(wider, type_name, config)

    def _narrowed(self, wider: RunningTask, type_name: str, config: Mapping[str, Any]) -> Refined | None:
        """The refinement by the types' rule of two tasks of one type."""
        if type_name != wider.type:
            return None
        return self.containment.rule(self.task_types[type_name], wider.config, config)

    def _is_joined(self, wider: RunningTask, above: Sequence[str]) -> bool:
        """True if the merge joins this task where the dataflow gets it, and that wakes nothing for it alone."""
        if self._fingerprint(wider.type, wider.config, above) != wider.id:
            return False
        return wider.id in self.holders or self.works(wider.id)

    def _refine(self, task: Task, parents: Sequence[str], wider: RunningTask, refined: Refined, identity: str) -> str:
        holder = self.holders.get(wider.id)
        reads = {parent: self.streams.pop((parent, task.id)) for parent in parents}
        if holder is None:
            holder = _WIDER.format(task.id)
            self.added.append(Task(holder, wider.type, dict(wider.config)))
            self._hold(holder, wider.id, wider.id)
            for parent, stream in reads.items():
                self.streams[parent, holder] = replace(stream, target=holder)
        self.streams[holder, task.id] = Stream(holder, task.id)
        self._keep_rates(task, self.task_types[wider.type].selectivity)
        self.tasks[task.id] = Task(task.id, refined.type, refined.config, task.chain)
        self.refinements.append(Refinement(task=task.id, wider=holder, running=wider.id))
        return identity

    def _keep_rates(self, task: Task, selectivity: float) -> None:
        """Keep the output rate of the task: the wider task has taken its part out already."""
        for key, stream in self.streams.items():
            if stream.source == task.id and selectivity > 0:
                stated = stream.selectivity
                whole = selectivity_at_work(task.type, task.config, self.task_types) if stated is None else stated
                self.streams[key] = replace(stream, selectivity=whole / selectivity)

    def _hold(self, task_id: str, running_id: str, joining: str) -> None:
        self.ids[task_id], self.joining[task_id] = running_id, joining
        self.holders.setdefault(running_id, task_id)

    def _fingerprint(
        self, type_name: str, config: Mapping[str, Any], above: Sequence[str], salt: str = ""
    ) -> str:
        version = logic_version(self.task_types[type_name], config, self.task_types)
        return fingerprint(type_name, version=version, config=config, parents=above, scope=self.scope, salt=salt)


def _types_of_wider(type_name: str, config: Mapping[str, Any]) -> list[str]:
    """The types of tasks that may be wider: the task's own; for a dynamic task those that read the same stream."""
    if type_name != DYNAMIC:
        return [type_name]
    return sorted({alternate.tasks[0].type for alternate in alternates_in(type_name, config)})
