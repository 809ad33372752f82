"""The cost of a dataflow's batches under alternative latency limits, before it runs: from costs of its tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler.model.costs import Costs
from scheduler.model.dataflow import Dataflow
from scheduler.model.latency_limits import LatencyLimit, Limits
from scheduler.model.task_types import TaskTypes

from .batch_costs import batch_cost
from .pacing import LimitOnWay, Queries, interval_alone
from .real_time import BatchModes, choose_modes
from .triggers import LARGEST_S
from .ways import Way, part_along
from .wide_ways import MOST_STREAMS


@dataclass(frozen=True, slots=True)
class Offer:
    """A limit on the mean of the whole, in seconds (None for none): whether it can be met, CPU in cores, and how many
    queries leave their batches open for it."""

    limit_s: float | None
    met: bool
    cores: float
    open_queries: int = 0


def expected_queries(
    dataflow: Dataflow, chains: Sequence[Sequence[str]], *, rates_per_s: Mapping[str, float], task_types: TaskTypes,
    costs: Costs, largest_s: float = LARGEST_S,
) -> tuple[Queries, Way]:
    """The queries of a dataflow that runs alone, named by their first tasks, and the way of its events.

    Parameters
    ----------
    chains : sequence of sequence of str
        Its tasks cut into queries, upstream first.
    rates_per_s : mapping of str to float
        Events that come to each task in a second; of a source, those that it makes.
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
    return Queries(cost, reads, slot_of={name: name for name in cost}, largest_s=largest_s), Way(reads, starts, ends)


@dataclass(frozen=True, slots=True)
class Alone:
    """The queries of a dataflow that would run alone, named by their first tasks, the way of its events, and the
    queries whose batches may stay open. ``home`` has the query of each task."""

    queries: Queries
    way: Way
    home: Mapping[str, str]
    able: frozenset[str] = frozenset()

    def with_open_batches(self, limit: LatencyLimit) -> tuple[float, bool] | None:
        """The latency of a limit, in seconds, and whether it is met, where queries leave their batches open that may
        and help it; None where none do."""
        if not self.able:
            return None
        way = part_along(limit, self.home, sources=self.way.starts).way if limit.along else self.way
        able = dict.fromkeys(self.able & way.writers.keys(), "")
        chosen = choose_modes(self.queries, [LimitOnWay("limit", way, limit.limit_s, limit.share)], able)
        expected = chosen.paced.expected["limit"]
        return (expected.latency_s, expected.least_s is None) if chosen.open else None


def able_chains(dataflow: Dataflow, chains: Sequence[Sequence[str]], able_types: Collection[str]) -> frozenset[str]:
    """The queries of a dataflow, named by their first tasks, whose batches may stay open as far as can be told before
    they run: they read one stream, and all their tasks are of types that may be in such a query. None of a dataflow
    with more than `MOST_STREAMS` between its queries, which begins with micro-batches."""
    parents, types = dataflow.parents(), {task.id: task.type for task in dataflow.tasks}
    if sum(len(parents[chain[0]]) for chain in chains) > MOST_STREAMS:
        return frozenset()
    return frozenset(
        chain[0] for chain in chains
        if len(parents[chain[0]]) <= 1 and all(types[task] in able_types for task in chain))


def offers(
    queries: Queries, way: Way, limits_s: Sequence[float | None], *, able: Collection[str] = ()
) -> tuple[Offer, ...]:
    """The cost of the queries of a way under each of some limits on the mean of the whole; each a core of its own.

    Parameters
    ----------
    way : Way
        From sources to sinks.
    limits_s : sequence
        Limits in seconds; None for no limit.
    able : collection of str, optional
        Queries whose batches may stay open: they do where they would when they run (`real_time.choose_modes`).
    """
    share = LatencyLimit(1.0).share
    made = []
    for limit_s in limits_s:
        wants = [] if limit_s is None else [LimitOnWay("offer", way, limit_s, share)]
        chosen = choose_modes(queries, wants, dict.fromkeys(able, ""))
        expected = chosen.paced.expected.get("offer")
        cores = sum(chosen.cores(query, cost) for query, cost in queries.costs.items())
        made.append(Offer(limit_s, expected is None or expected.least_s is None, cores, len(chosen.open)))
    return tuple(made)


def modes_alone(queries: Queries, way: Way, limits: Limits, *, able: Collection[str]) -> BatchModes:
    """The modes that the queries of a dataflow would have alone: what plans are priced with, and what new queries begin
    with.

    Parameters
    ----------
    able : collection of str
        The queries whose batches may stay open.
    """
    wants = [LimitOnWay(f"{number}", way, limit.limit_s, limit.share) for number, limit in enumerate(limits)]
    return choose_modes(queries, wants, dict.fromkeys(able, ""))


def planned_interval_s(queries: Queries, chosen: BatchModes, limits: Limits, *, batch_s: float) -> float:
    """The interval of batches that a plan is priced with.

    A query with open batches counts as micro-batches of equal cost, any other by `interval_alone`. The result is the
    common interval at which all of them cost the same together.

    Parameters
    ----------
    queries : Queries
        Of the dataflow alone.
    batch_s : float
        The duration of a micro-batch, in seconds.
    """
    micro_s = interval_alone(limits, batch_s=batch_s, largest_s=queries.largest_s)
    if not chosen.open:
        return micro_s
    cpu_s = sum(cost.batch_cpu_s for cost in queries.costs.values())
    cores = sum(cost.batch_cpu_s / (chosen.priced_s(query, cost) if query in chosen.open else micro_s)
                for query, cost in queries.costs.items())
    return cpu_s / cores if cores else micro_s
