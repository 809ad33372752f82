"""Costs: the CPU that queries, tasks and events take, as it is declared or as it was measured on a class of machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .checks import require_finite
from .dataflow import _frozen
from .task_types import TaskType

# CPU seconds of a batch, whatever is in it: Spark plans every batch anew. Fitted to `./weir bench prices`
# (docs/bills.md), and used where nothing was measured on this class of machine.
QUERY_BATCH_S = 0.033  # of a query, besides its tasks'
TASK_BATCH_S = 0.006  # what a task adds to each batch of its query
STATE_BATCH_S = 0.025  # what a stateful task adds to that
SLOT_CORES = 0.02  # cores that a driver with queries takes besides their batches; an idle one takes half of that
QUERYS_DRIVER_CORES = 0.007  # cores of it that a query is charged: a third, as with three queries
# CPU seconds of a group of events in a batch that stays open, from its channel to the next one
# (`./weir bench channels --only real_time`).
GROUP_CPU_S = 0.001


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs in CPU that a plan is priced with.

    ``batch_s`` and ``event_us`` hold, by task type, what was measured for each batch (s) and for each event (µs); other
    types take what they declare, ``scale`` times. ``group_cpu_s`` is what a group of events takes in a query whose
    batches stay open. ``queries`` is how many queries that was measured of, on machines of the class ``machine``; 0
    where all is declared. ``error`` is the relative error (root mean square) of what such figures said of queries that
    they were not fitted to. ``version`` counts the fits of a class. ``fixed_cores`` is what a query is charged of its
    slot's driver, however little it does.
    """

    query_batch_s: float = QUERY_BATCH_S
    slot_cores: float = SLOT_CORES
    group_cpu_s: float = GROUP_CPU_S
    fixed_cores: float = QUERYS_DRIVER_CORES
    batch_s: Mapping[str, float] = field(default_factory=dict)
    event_us: Mapping[str, float] = field(default_factory=dict)
    scale: float = 1.0
    queries: int = 0
    error: float = 0.0
    machine: str = ""
    version: int = 0

    def __post_init__(self) -> None:
        require_finite(self)
        for name in ("batch_s", "event_us"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))

    @property
    def are_measured(self) -> bool:
        """True if anything of them was measured."""
        return self.queries > 0

    def task_batch_s(self, task_type: TaskType) -> float:
        """CPU seconds that a task of a type adds to each batch of its query."""
        return self.batch_s.get(task_type.name, self.scale * declared_batch_s(task_type))

    def types_group_cpu_s(self, types: Iterable[TaskType]) -> float:
        """CPU seconds that a group of events takes in a query of such tasks whose batches stay open."""
        return self.group_cpu_s * legs_of_a_group(types)

    def task_event_us(self, task_type: TaskType) -> float:
        """CPU microseconds that a task of a type takes for an event that it reads."""
        return self.event_us.get(task_type.name, self.scale * task_type.cost_us)

    def steps_event_us(self, steps: Iterable[tuple[TaskType, float]]) -> float:
        """The same of several types, each with its share of the events."""
        return sum(share * self.task_event_us(step) for step, share in steps)

    def not_measured(self, types: Iterable[str]) -> tuple[str, ...]:
        """The task types that were not measured, sorted."""
        return tuple(sorted(set(types) - set(self.batch_s)))


def declared_batch_s(task_type: TaskType) -> float:
    """The part of a task in a batch where nothing was measured, in CPU seconds."""
    return TASK_BATCH_S + (STATE_BATCH_S if task_type.stateful else 0.0)


def legs_of_a_group(types: Iterable[TaskType]) -> int:
    """The number of times that a group of events is passed on as one in a query whose batches stay open: from its
    channel to the next, and to the fold host and back for each stateful task. Each is taken to cost as much."""
    return 1 + sum(task_type.stateful for task_type in types)


DECLARED_ERROR = 1.0  # relative: what is declared is a first guess
DECLARED = Costs(error=DECLARED_ERROR)
