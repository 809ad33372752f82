"""Newcomers: a dataflow on its way into the estate, however it joins what runs, and what its tasks take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property

from .mapping.least_loaded import place_new
from .model.dataflow import Dataflow
from .model.fragment import RunningTask
from .model.plan import Price
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .performance.pricing import cores_at, price_of, query_cores
from .performance.rates import input_rates_per_s
from .reuse.activity import FragmentChange, adjust, is_working, queries_begun
from .reuse.fragments import LONGEST_CHAIN, cut_into_chains
from .reuse.merge import Merge, merge


@dataclass(frozen=True)
class Newcomer:
    """A dataflow that is submitted, however it joins what runs: what its tasks merge into, and what they take."""

    estate: EstateView
    dataflow: Dataflow  # with the tasks that are made from wider ones
    alone: Dataflow  # as it would run by itself
    _: KW_ONLY
    dataflow_id: str
    team: str
    scope: str
    task_types: TaskTypes
    prices: Prices
    longest_chain: int = LONGEST_CHAIN
    unchanged: Mapping[str, str] = field(default_factory=dict)  # of another version: what goes on as it is (`merge`)

    @cached_property
    def rates_per_s(self) -> Mapping[str, float]:
        """Events per second that each task is expected to work on, by its id in the dataflow."""
        return input_rates_per_s(self.dataflow, task_types=self.task_types)

    @cached_property
    def cores(self) -> Mapping[str, float]:
        """CPU cores that each task is expected to take, by its id in the dataflow."""
        return self._cores(self.dataflow, self.rates_per_s)

    @cached_property
    def cores_alone(self) -> float:
        """CPU cores of all tasks if the dataflow ran alone."""
        if self.dataflow is self.alone:
            return sum(self.cores.values())
        return sum(self._cores(self.alone, input_rates_per_s(self.alone, task_types=self.task_types)).values())

    @cached_property
    def queries_alone(self) -> int:
        """How many queries the dataflow would be if it ran alone."""
        return len(self._cut(as_running(self.alone), self.alone.unchained))

    def _cores(self, dataflow: Dataflow, rates_per_s: Mapping[str, float]) -> dict[str, float]:
        return {
            task.id: cores_at(self.task_types[task.type], rates_per_s[task.id], prices=self.prices)
            for task in dataflow.tasks}

    def merged(self, *, fresh: bool) -> Merge:
        """What it finds running and what it adds, with its stateful tasks joined or started anew."""
        return merge(
            self.estate.tasks, self.dataflow, task_types=self.task_types, scope=self.scope,
            fresh_for=self.dataflow_id if fresh else "", unchanged=self.unchanged)

    def started(self, merged: Merge) -> dict[str, RunningTask]:
        """The tasks that a merge starts, with the rate and the cores that they are expected to take, by running id."""
        named = {running_id: task_id for task_id, running_id in merged.running.items()}
        return {
            task.id: replace(task, cores=self.cores[named[task.id]], rate_per_s=self.rates_per_s[named[task.id]])
            for task in merged.started}

    def chains(self, merged: Merge) -> tuple[tuple[str, ...], ...]:
        """The tasks that a merge starts, cut into chains, each a query."""
        return self._cut(merged.started, [merged.running[task_id] for task_id in self.dataflow.unchained])

    def _cut(self, tasks: Sequence[RunningTask], unchained: Collection[str]) -> tuple[tuple[str, ...], ...]:
        return cut_into_chains(
            tasks, task_types=self.task_types, longest_chain=self.longest_chain, unchained=unchained)

    def least_loaded(self, chains: Sequence[Sequence[str]], started: Mapping[str, RunningTask]) -> tuple[str, ...]:
        """A slot for each chain (`place_new`)."""
        for_query = query_cores(self.prices)
        return place_new(
            self.estate, [for_query + sum(started[task_id].cores for task_id in chain) for chain in chains],
            team=self.team, query_cores=for_query)

    def price(self, merged: Merge, change: FragmentChange, *, queries: int) -> Price:
        """The price of a merge that starts so many queries and resumes others by a change."""
        cores = self._running_cores(merged)
        working = (*(task.id for task in merged.started), *resting(self.estate, merged.reused))
        return price_of(
            prices=self.prices, tasks_started=len(merged.started), tasks_reused=len(merged.reused),
            queries_started=queries + queries_begun(change), task_cores_alone=self.cores_alone,
            task_cores_delta=sum(cores[task_id] for task_id in working),
            queries_alone=self.queries_alone,
            types={task.type for task in self.alone.tasks})

    def price_otherwise(self, merged: Merge, *, fresh: bool) -> Price | None:
        """The price of the other choice: to start anew what a merge joins, or the reverse; None where it is the same.
        """
        other = self.merged(fresh=fresh)
        if other.running == merged.running:
            return None
        resumed = adjust(self.estate, dict.fromkeys(resting(self.estate, other.reused), "works"))
        return self.price(other, resumed, queries=len(self.chains(other)))

    def _running_cores(self, merged: Merge) -> dict[str, float]:
        return {running_id: self.cores[task_id] for task_id, running_id in merged.running.items()}


def as_running(dataflow: Dataflow) -> tuple[RunningTask, ...]:
    """The dataflow's tasks as if they ran under their own ids: enough to cut them into chains."""
    parents = dataflow.parents()
    return tuple(
        RunningTask(id=task.id, type=task.type, config={}, parents=tuple(parents[task.id])) for task in dataflow.tasks)


def resting(estate: EstateView, reused: Iterable[str]) -> tuple[str, ...]:
    """Those of some running tasks that rest."""
    return tuple(task_id for task_id in reused if not is_working(estate, task_id))
