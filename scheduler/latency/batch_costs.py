"""The costs of a query's batches: from what was seen of it where it runs, else from what tasks of its types take.

Of a query that runs at one interval only the sum of a batch and its events is seen. What an event takes is told by the
costs of its tasks' types; the rest of a batch is what it takes however few events it has. So a figure is exact at the
interval at which it was seen, and near to it elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.model.checks import FiniteFigures
from scheduler.model.costs import Costs
from scheduler.model.task_types import TaskType

from .triggers import BatchCost

# A batch takes so many times its CPU until it is done: it waits for the broker, for files, and for Python.
TIMES_ITS_CPU = 2.0
MOST_FOR_EVENTS = 0.8  # of the duration of a batch that was seen: as much is put down to its events at most


@dataclass(frozen=True, slots=True)
class BatchesSeen(FiniteFigures):
    """The batches of a query over a time: its batches with events, for how long it was busy with them, and their
    events."""

    batches: int = 0
    busy_s: float = 0.0
    events: float = 0.0

    @property
    def batch_s(self) -> float:
        """The mean duration of a batch, in seconds."""
        return self.busy_s / self.batches

    @property
    def events_a_batch(self) -> float:
        """The mean number of events in a batch."""
        return self.events / self.batches


def batch_cost(
    tasks: Sequence[tuple[TaskType, float]], *, costs: Costs, rate_per_s: float,
    batches_seen: BatchesSeen | None = None, times_its_cpu: float = TIMES_ITS_CPU, threads: int = 1, bundles: int = 1,
) -> BatchCost:
    """The cost of the batches of a query.

    Parameters
    ----------
    tasks : sequence of (TaskType, float)
        Its tasks, upstream first, each with the events that it reads for each event that comes to the query.
    rate_per_s : float
        Events that come to the query each second.
    batches_seen : BatchesSeen, optional
        The batches that it ran on its slot (of a divided one, the bundle that takes longest); without it durations
        follow from CPU.
    times_its_cpu : float, optional
        The ratio of a batch's time to its CPU here.
    threads : int, optional
        Of each bundle: events are worked on side by side.
    bundles : int, optional
        Queries among which it is divided: each has batches of its own.
    """
    batch_cpu_s = costs.query_batch_s + sum(costs.task_batch_s(task_type) for task_type, _ in tasks)
    event_cpu_s = sum(costs.task_event_us(task_type) * share for task_type, share in tasks) / 1_000_000
    own_event_s = event_cpu_s / threads  # of an event that comes to one bundle
    batch_s = batch_cpu_s * times_its_cpu
    if batches_seen is not None and batches_seen.batches:
        if own_event_s * batches_seen.events_a_batch > MOST_FOR_EVENTS * batches_seen.batch_s:
            own_event_s = MOST_FOR_EVENTS * batches_seen.batch_s / batches_seen.events_a_batch
        batch_s = batches_seen.batch_s - own_event_s * batches_seen.events_a_batch
    return BatchCost(
        batch_s, bundles * batch_cpu_s, rate_per_s, own_event_s / bundles, event_cpu_s,
        costs.types_group_cpu_s(task_type for task_type, _ in tasks))


def times_its_cpu(pairs: Sequence[tuple[float, float]]) -> float:
    """The ratio of the time of batches to their CPU here, from pairs of seconds: busy with batches, and CPU by the
    costs."""
    busy_s, cpu_s = sum(busy for busy, _ in pairs), sum(cpu for _, cpu in pairs)
    return busy_s / cpu_s if cpu_s > 0 and busy_s > 0 else TIMES_ITS_CPU
