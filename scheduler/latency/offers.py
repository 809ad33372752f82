"""What a dataflow's batches would take under one latency limit or another, before it runs: from costs of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.model.costs import Costs
from scheduler.model.dataflow import Dataflow
from scheduler.model.latency import LatencyLimit
from scheduler.model.task_types import TaskTypes

from .batch_costs import batch_cost
from .pacing import Queries, Wanted, pace
from .triggers import LARGEST_S
from .ways import Way


@dataclass(frozen=True, slots=True)
class Offer:
    """A limit on the mean of the whole, in seconds (None for none): whether it can be met, and CPU in cores."""

    limit_s: float | None
    met: bool
    cores: float


def expected_queries(
    dataflow: Dataflow, chains: Sequence[Sequence[str]], *, rates_per_s: Mapping[str, float], task_types: TaskTypes,
    costs: Costs, largest_s: float = LARGEST_S,
) -> tuple[Queries, Way]:
    """The queries of a dataflow that runs alone, named by their first tasks, and the way of its events.

    Parameters
    ----------
    dataflow : Dataflow
        As it would run.
    chains : sequence of sequence of str
        Its tasks cut into queries, upstream first.
    rates_per_s : mapping of str to float
        Events that come to each task in a second; of a source, those that it makes.
    task_types : TaskTypes
        The catalogue.
    costs : Costs
        CPU of batches and events, measured or declared.
    largest_s : float, optional
        The longest interval.
    """
    parents, home = dataflow.parents(), {task: chain[0] for chain in chains for task in chain}
    types = {task.id: task_types[task.type] for task in dataflow.tasks}
    cost = {}
    for chain in chains:
        rate_per_s = rates_per_s[chain[0]]
        tasks = [(types[task], rates_per_s[task] / rate_per_s if rate_per_s > 0 else 0.0) for task in chain]
        cost[chain[0]] = batch_cost(tasks, costs=costs, rate_per_s=rate_per_s)
    reads = {
        chain[0]: tuple(sorted({home[parent] for parent in parents[chain[0]]} - {chain[0]})) for chain in chains}
    starts = frozenset(home[task] for task, above in parents.items() if not above)
    ends = frozenset(home[task.id] for task in dataflow.tasks if types[task.id].kind == "sink")
    return Queries(cost, reads, largest_s=largest_s), Way(reads, starts, ends)


def offers(queries: Queries, way: Way, limits_s: Sequence[float | None]) -> tuple[Offer, ...]:
    """What the queries of a way take under each of some limits on the mean of the whole; each a core of its own."""
    share = LatencyLimit(1.0).share
    made = []
    for limit_s in limits_s:
        paced = pace(queries, [] if limit_s is None else [Wanted("offer", way, limit_s, share)])
        expected = paced.expected.get("offer")
        made.append(Offer(limit_s, expected is None or expected.least_s is None, paced.cores))
    return tuple(made)
