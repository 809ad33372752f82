"""Newcomers: a dataflow on its way into the estate, however it joins what runs, and what its tasks take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

from .mapping.least_loaded import place_new
from .model.alternates import types_at_work
from .model.cost_figures import NO_COST, CostFigure, total_cost
from .model.dataflow import Dataflow
from .model.fragment import RunningTask
from .model.plan import Price
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .performance.pricing import charged_query_cores, price_of, query_cores, task_cores
from .performance.rates import input_rates_per_s
from .performance.running_costs import estimated_cost, running_costs, turned_cost
from .reuse.activity import FragmentChange, adjust, is_working, queries_begun
from .reuse.fragments import LONGEST_CHAIN, cut_into_chains
from .reuse.merge import Merge, merge


@dataclass(frozen=True)
class Newcomer:
    """A dataflow that is submitted, however it joins what runs: what its tasks merge into, and what they take."""

    estate: EstateView
    dataflow: Dataflow  # with the tasks that are made from wider ones
    _: KW_ONLY
    dataflow_id: str
    team: str
    scope: str
    task_types: TaskTypes
    prices: Prices
    longest_chain: int = LONGEST_CHAIN
    unchanged: Mapping[str, str] = field(default_factory=dict)  # of another version: what goes on as it is (`merge`)
    restored: str = ""  # what sets it apart where it begins from a named savepoint (`merge`)

    @cached_property
    def rates_per_s(self) -> Mapping[str, float]:
        """Events per second that each task is expected to work on, by its id in the dataflow."""
        return input_rates_per_s(self.dataflow, task_types=self.task_types)

    @cached_property
    def cores(self) -> Mapping[str, float]:
        """CPU cores that each task is expected to take, by its id in the dataflow."""
        return task_cores(self.dataflow, task_types=self.task_types, prices=self.prices)

    def merged(self, *, fresh: bool) -> Merge:
        """Running tasks that it reuses and the tasks that it adds, with its stateful tasks joined or started anew."""
        return merge(
            self.estate.tasks, self.dataflow, task_types=self.task_types, scope=self.scope,
            fresh_for=self.dataflow_id if fresh else "", restored=self.restored, unchanged=self.unchanged)

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

    def least_loaded(
        self, chains: Sequence[Sequence[str]], started: Mapping[str, RunningTask], *, node: str = ""
    ) -> tuple[str, ...]:
        """A slot for each chain, of that node where one is given (`place_new`)."""
        for_query = query_cores(self.prices)
        return place_new(
            self.estate, [for_query + sum(started[task_id].cores for task_id in chain) for chain in chains],
            team=self.team, query_cores=for_query, node=node)

    def price(
        self, merged: Merge, change: FragmentChange, *, queries: int, freed: CostFigure = NO_COST, **counts: int
    ) -> Price:
        """The price of a merge that starts so many queries and resumes others by a change.

        Parameters
        ----------
        freed : CostFigure, optional
            The running tasks whose cost ceases with it.
        **counts
            Further counts of the price, instead of those of the merge.
        """
        here: dict[str, Any] = {"task_types": self.task_types, "prices": self.prices}
        named = {running_id: task_id for task_id, running_id in merged.running.items()}
        resumed = resting(self.estate, merged.reused)
        added = [turned_cost(self.estate, resumed, **here)] if resumed else []
        if merged.started:
            tasks = sum(self.cores[named[task.id]] for task in merged.started)
            added.append(estimated_cost(
                tasks + queries * charged_query_cores(self.prices), prices=self.prices))
        working = [task_id for task_id in merged.reused if task_id not in set(resumed)]
        reused = [cost.figure for cost in running_costs(self.estate, working, **here).values()]
        return price_of(
            prices=self.prices, added=total_cost(added), freed=freed, whole=total_cost([*added, *reused]),
            types={
                step.name for task in self.dataflow.tasks
                for step, _ in types_at_work(task.type, task.config, self.task_types)},
            **{"tasks_started": len(merged.started), "tasks_reused": len(merged.reused),
               "queries_started": queries + queries_begun(change), **counts})

    def price_otherwise(self, merged: Merge, *, fresh: bool) -> Price | None:
        """Price of the other choice: to start anew what a merge joins, or the reverse; None where it is the same."""
        alternative = self.merged(fresh=fresh)
        if alternative.running == merged.running:
            return None
        resumed = adjust(self.estate, dict.fromkeys(resting(self.estate, alternative.reused), "works"))
        return self.price(alternative, resumed, queries=len(self.chains(alternative)))


def as_running(dataflow: Dataflow) -> tuple[RunningTask, ...]:
    """The dataflow's tasks as if they ran under their own ids: enough to cut them into chains."""
    parents = dataflow.parents()
    return tuple(
        RunningTask(id=task.id, type=task.type, config={}, parents=tuple(parents[task.id])) for task in dataflow.tasks)


def resting(estate: EstateView, reused: Iterable[str]) -> tuple[str, ...]:
    """The resting ones of some running tasks."""
    return tuple(task_id for task_id in reused if not is_working(estate, task_id))
