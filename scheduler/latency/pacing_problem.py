"""The inputs of pacing: an estate's queries as values, with what batches cost, and the limits on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.costs import Costs
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment
from scheduler.model.latency_limits import LatencyLimit, Limits
from scheduler.model.task_types import TaskTypes

from .batch_costs import TIMES_ITS_CPU, BatchesSeen, batch_cost
from .pacing import LimitOnWay, Queries
from .triggers import BatchCost
from .ways import reads_among, way_of

LimitKey = tuple[str, int]  # dataflow, number of its limit
Wants = dict[LimitKey, tuple[LatencyLimit, LimitOnWay]]
SLOT_CORES = 0.95  # of a slot's core: what its queries may take
LEAST_BATCHES = 3  # that a query was seen to do, before their duration says anything


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """Events a second as measured: into each query, and out of each running task; nothing where none were."""

    queries: Mapping[str, float] = field(default_factory=dict)
    tasks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IntervalBounds:
    """Intervals that the settings name, in seconds: the usual one, and the longest."""

    usual_s: float
    longest_s: float


def queries_of(
    estate: Estate, *, task_types: TaskTypes, costs: Costs, rates: MeasuredRates, intervals: IntervalBounds,
    batches_seen: Mapping[str, BatchesSeen], trigger_ms: Mapping[str, int], times_its_cpu: float = TIMES_ITS_CPU,
) -> Queries:
    """The queries of an estate by fragment: costs of their batches, readers and slots.

    Parameters
    ----------
    batches_seen : mapping of str to BatchesSeen
        The batches of queries, by fragment or bundle.
    """
    working = {name: fragment for name, fragment in estate.fragments.items() if fragment.active_tasks}
    slots = {bundle.slot for fragment in working.values() for bundle in fragment.queries}
    of_query = _CostOfQuery(estate, task_types, costs, rates, batches_seen, times_its_cpu)
    return Queries(
        costs={name: of_query(fragment) for name, fragment in working.items()},
        reads=reads_among(estate, working),
        before_s={name: trigger_ms[name] / 1000 if name in trigger_ms else intervals.usual_s for name in working},
        slot_of={name: fragment.slot for name, fragment in working.items()},
        capacity={slot: SLOT_CORES - costs.slot_cores for slot in slots},
        largest_s=intervals.longest_s,
        bounds_s={name: intervals.usual_s for name, fragment in working.items() if fragment.divided})


def wants_of(estate: Estate, limits: Mapping[str, Limits]) -> Wants:
    """The limits of submitted dataflows, by dataflow and number; those whose tasks rest are left out."""
    wants: Wants = {}
    for name, dataflow_limits in limits.items():
        if estate.submitted[name].paused:
            continue
        for number, limit in enumerate(dataflow_limits):
            way = way_of(estate, name, limit)
            if way is not None:
                wants[name, number] = (limit, LimitOnWay(
                    f"{name}/{number}", way, limit.limit_s, limit.share, team=estate.submitted[name].team))
    return wants


@dataclass(frozen=True, slots=True)
class _CostOfQuery:
    estate: Estate
    types: TaskTypes
    costs: Costs
    rates: MeasuredRates
    seen: Mapping[str, BatchesSeen]
    times_its_cpu: float

    def __call__(self, fragment: Fragment) -> BatchCost:
        head = self.estate.tasks[fragment.tasks[0]]
        measured = [self.rates.queries[bundle.id] for bundle in fragment.queries if bundle.id in self.rates.queries]
        rate_per_s = sum(measured) if measured else head.rate_per_s or 0.0
        tasks, reads_per_s = [], rate_per_s
        for task_id in fragment.active_tasks:
            task = self.estate.tasks[task_id]
            if task.type in self.types:
                tasks.append((self.types[task.type], reads_per_s / rate_per_s if rate_per_s else 1.0))
            reads_per_s = self.rates.tasks.get(task_id, reads_per_s)
        batches = [self.seen[bundle.id] for bundle in fragment.queries
                   if bundle.id in self.seen and self.seen[bundle.id].batches >= LEAST_BATCHES]
        slowest = max(batches, key=lambda one_bundle: one_bundle.batch_s, default=None)
        working = [bundle for bundle in fragment.queries if not bundle.leaving] or list(fragment.queries)
        return batch_cost(
            tasks, costs=self.costs, rate_per_s=rate_per_s, batches_seen=slowest, times_its_cpu=self.times_its_cpu,
            threads=max(bundle.threads for bundle in working), bundles=len(working))
