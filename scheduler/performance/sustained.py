"""The rate that a placement sustains: how many times the planned rates each bundle and each slot keeps up with.

**A full slot.** At f times the planned rates a query takes ``D(f) = events·f + batches`` of its slot's core if it runs
batches as often as alone at its peak, and ``m(f) = events·f + fewest_batches`` if it runs as few as may be. One that
waits for w of its time at the planned rate has the rest to do its work in, so it needs the core ``n(f) = m(f) /
(1 - w·f)`` of the time; for any other ``n = m``. Queries share the core evenly: who has little to do is soon done, and
a full slot slows those that have most to do, down to a level that is the same for all of them. So the rate is sustained
if there is a level with ``level >= n(f)`` for every query, such that what all take, ``min(D(f), level)`` each, leaves
every query what it needs:

    others + sum over the other queries of min(D(f), level) + n(f) <= 1, and the same with min(D(f), level) of its own.

What all take grows with the level, so the least level, the greatest n(f), decides. With that level both left sides are
sums of functions that do not fall as f, or any query's events, grow, and that are continuous: ``min`` and ``max`` of
such functions are such, too, and n is such below w·f = 1. So all rates up to one are sustained, and none above: it is
unique, scales with the planned rates, and falls if there is more to do. It is found by bisection, or directly where no
query can run fewer batches and none waits, for then both sides are lines.

Where no event on a slot takes any CPU both sides are flat: its core then limits no rate, or sustains none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from scheduler.model.fragment import Slot
from scheduler.model.placement import Placement, ThreadShortage
from scheduler.model.profile import Point
from scheduler.model.resources import NOTHING_TAKEN, TOLERANCE

Shares = Mapping[str, Mapping[int, float]]  # of a task's events, by the position of the slot
WAITS = 0.2  # of its time at the peak: a task that waits no longer is taken to be at work
PRECISION = 1e-12  # of the factor, relative


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The bottleneck of a dataflow.

    A bundle that sustains no more, a slot whose CPU or memory is taken, or one whose driver has too few threads
    (``crowd``). With a ``task`` the CPU is not taken, but comes too late for one that waits for something else, too.
    """

    what: Literal["bundle", "CPU", "memory", "threads"]
    slot: Slot
    task: str = ""  # of a bundle
    crowd: ThreadShortage | None = None

    @property
    def reason(self) -> str:
        """The reason in words."""
        if self.crowd is not None:
            return self.crowd.explanation(self.slot.name)
        if self.what == "bundle":
            return f"the threads of {self.task} on {self.slot.name} sustain no more"
        if self.task:
            return f"{self.task} waits for answers, and the CPU of {self.slot.name} comes too late for it besides"
        return f"the {self.what} of {self.slot.name} is taken"


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """The demand of a bundle on its slot at its peak rate; what a ``static`` one takes does not depend on its rate.

    ``batches`` is the CPU of its batches, ``fewest_batches`` that of as few as may be, ``events`` that of its events;
    ``memory`` is what it takes above ``idle_memory``, and ``waits`` the part of its time.
    """

    static: bool
    rate_per_s: float
    batches: float
    fewest_batches: float
    events: float
    waits: float
    idle_memory: float
    memory: float

    @classmethod
    def of(cls, point: Point, *, static: bool) -> SlotDemand:
        """The demand by the point of its number of threads."""
        if static:
            return cls(True, point.rate_per_s, 0.0, 0.0, point.cpu, 0.0, point.memory, 0.0)
        return cls(
            False, point.rate_per_s, point.batches_cpu, point.fewest_batches_cpu, point.of_events, point.waits,
            point.idle_memory, point.memory - point.idle_memory)


def sustained(
    placement: Placement,
    demands: Mapping[str, Mapping[int, SlotDemand]],
    shares: Shares,
    rates_per_s: Mapping[str, float],
    crowded: Mapping[int, ThreadShortage],
    *,
    least: float,
) -> tuple[float, Bottleneck | None]:
    """The factor on the planned rates that a placement sustains, and the bottleneck.

    Parameters
    ----------
    demands : mapping of str to mapping of int to SlotDemand
        The demand of a bundle, by task and number of threads.
    shares : mapping of str to mapping of int to float
        The part of a task's events that each bundle gets, by task and position of the slot.
    crowded : mapping of int to ThreadShortage
        The slots with more threads than their driver has, by position.
    least : float
        Times the planned rates: where bundles alone sustain no more than this, slots are not looked at.

    Returns
    -------
    tuple of float and Bottleneck or None
        1 and None where nothing limits it.
    """
    factor, limit = inf, None
    others = [placement.taken.get(position, NOTHING_TAKEN) for position in range(len(placement.slots))]
    cores = [_Core(taken.cpu) for taken in others]
    memories = [_Memory(taken.memory) for taken in others]
    # Threads at work at the planned rates: of a bundle as large a part as of what it sustains.
    working = {position: float(others[position].queries) for position in crowded}
    for task, by_slot in shares.items():
        rate_per_s, counts = rates_per_s[task], placement.counts[task]
        for position, share in by_slot.items():
            demand = demands[task][counts[position]]
            load = 0.0 if demand.static else rate_per_s * share / demand.rate_per_s
            if demand.static:  # what does at any rate takes less CPU at a lower one, too: no reason for a rate of 0
                cores[position].add(_Query(task, demand, demand.events, 0.0))
                memories[position].add(demand.idle_memory, 0.0)
            elif load:  # without events a query runs no batch and keeps no Python worker
                cores[position].add(_Query(task, demand, demand.events * load, demand.waits * load))
                memories[position].add(demand.idle_memory, demand.memory * load)
            if position in crowded:
                working[position] += counts[position] * (1.0 if demand.static else load)
            if factor * load > 1:
                factor, limit = 1 / load, Bottleneck("bundle", placement.slots[position], task)
    if factor <= least:
        return factor, limit
    for position, core in enumerate(cores):
        if (most := core.sustains(up_to=factor)) < factor:
            # What hardly waits is late for want of CPU alone.
            late = core.late(most)
            named = late.task if late is not None and late.demand.waits >= WAITS else ""
            factor, limit = most, Bottleneck("CPU", placement.slots[position], named)
    for position, memory in enumerate(memories):
        if (most := memory.sustains(up_to=factor)) < factor:
            factor, limit = most, Bottleneck("memory", placement.slots[position])
    for position, crowd in crowded.items():
        if crowd.driver_threads < factor * working[position]:
            factor = crowd.driver_threads / working[position]
            limit = Bottleneck("threads", placement.slots[position], crowd=crowd)
    return (1.0, None) if limit is None else (factor, limit)


def crowded_slots(placement: Placement, threads: Mapping[str, int]) -> dict[int, ThreadShortage]:
    """The slots with more threads on them than their driver has; each query of others counts as one thread."""
    placed: Counter[int] = Counter()
    for counts in placement.counts.values() if threads else ():
        placed.update(counts)
    crowded = {}
    for position, count in placed.items():
        in_driver = threads.get(placement.slots[position].node)
        count += placement.taken[position].queries if position in placement.taken else 0
        if in_driver is not None and count > in_driver:
            crowded[position] = ThreadShortage(in_driver, count)
    return crowded


@dataclass(frozen=True, slots=True)
class _Query:
    """A bundle that gets events: CPU that these take, and the part of its time that it waits, at the planned rate."""

    task: str
    demand: SlotDemand
    events: float
    waits: float

    def takes(self, factor: float) -> float:
        """CPU with batches as often as alone at its peak: D."""
        return self.demand.batches + self.events * factor

    def needs(self, factor: float) -> float:
        """The part of the time that it needs the core with as few batches as may be: n."""
        working = 1.0 - self.waits * factor
        return (self.demand.fewest_batches + self.events * factor) / working if working > 0 else inf


@dataclass(slots=True)
class _Core:
    """The CPU of a slot: what others take of it, and the queries that share the rest."""

    others: float
    queries: list[_Query] = field(default_factory=list)
    fixed: float = 0.0  # CPU of all batches as often as alone at the peaks
    moving: float = 0.0  # CPU of all events at the planned rates
    is_linear: bool = True  # no query can run fewer batches, and none waits

    def add(self, query: _Query) -> None:
        self.queries.append(query)
        self.fixed += query.demand.batches
        self.moving += query.events
        if query.waits or query.demand.fewest_batches < query.demand.batches:
            self.is_linear = False

    def sustains(self, *, up_to: float) -> float:
        """The sustained factor on the planned rates, at most ``up_to``; which is finite where a query gets events."""
        if self.is_linear:
            return _line_within(1.0 - self.others - self.fixed, self.moving, up_to=up_to)
        if self.claimed(up_to) <= 1.0:
            return up_to
        if self.claimed(0.0) > 1.0 + TOLERANCE:
            return 0.0
        low, high = 0.0, up_to
        while high - low > PRECISION * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.claimed(middle) <= 1.0 else (low, middle)
        return low

    def claimed(self, factor: float) -> float:
        """The part of the core that has to be there at so many times the planned rates; more than 1 is too much."""
        takes, needs = self._shared(factor)
        late = max(need - take for take, need in zip(takes, needs, strict=True))
        return self.others + sum(takes) + max(0.0, late)

    def late(self, factor: float) -> _Query | None:
        """The query that most needs more of the time than it takes of the core; None where none does."""
        if not self.queries:
            return None
        takes, needs = self._shared(factor)
        missing = [need - take for take, need in zip(takes, needs, strict=True)]
        most = max(missing)
        return self.queries[missing.index(most)] if most > TOLERANCE else None

    def _shared(self, factor: float) -> tuple[Sequence[float], Sequence[float]]:
        """The part of the core that each query takes, no more than the level that the neediest needs; and what each
        needs."""
        needs = [query.needs(factor) for query in self.queries]
        level = max(needs)
        return [min(query.takes(factor), level) for query in self.queries], needs


@dataclass(slots=True)
class _Memory:
    """The memory of a slot: what is taken at any rate, and what grows with the rate."""

    fixed: float
    moving: float = 0.0

    def add(self, fixed: float, moving: float) -> None:
        self.fixed += fixed
        self.moving += moving

    def sustains(self, *, up_to: float) -> float:
        """The sustained factor on the planned rates, at most ``up_to``."""
        return _line_within(1.0 - self.fixed, self.moving, up_to=up_to)


def _line_within(free_share: float, moving: float, *, up_to: float) -> float:
    """The number of times that the rest holds ``moving``, at most ``up_to``."""
    if free_share < -TOLERANCE:
        return 0.0
    return min(up_to, max(0.0, free_share) / moving) if moving else up_to
