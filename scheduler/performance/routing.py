"""Routing: how a task's events are divided over its threads, evenly or by what their slots sustain (paper [2], 8.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, sqrt
from typing import Literal

from scheduler.model.allocation import Allocation
from scheduler.model.estate import Slot
from scheduler.model.placement import Crowd, Placement
from scheduler.model.profile import Estimate, Point, Profile
from scheduler.model.resources import NOTHING_TAKEN, TOLERANCE

Routing = Literal["shuffle", "slot_aware"]
Shares = Mapping[str, Mapping[int, float]]  # of a task's events, by the position of the slot
WAITS = 0.2  # of its time at the peak: a task that waits no longer is taken to be at work


@dataclass(frozen=True, slots=True)
class Limit:
    """What keeps a dataflow from more.

    A bundle that sustains no more, a slot whose CPU or memory is taken, or one whose driver has too few threads
    (``crowd``). With a ``task`` the CPU is not taken, but comes too late for one that waits for something else, too.
    """

    what: Literal["bundle", "CPU", "memory", "threads"]
    slot: Slot
    task: str = ""  # of a bundle
    crowd: Crowd | None = None

    @property
    def reason(self) -> str:
        """In words."""
        if self.crowd is not None:
            return self.crowd.told(self.slot.name)
        if self.what == "bundle":
            return f"the threads of {self.task} on {self.slot.name} sustain no more"
        if self.task:
            return f"{self.task} waits for answers, and the CPU of {self.slot.name} comes too late for it besides"
        return f"the {self.what} of {self.slot.name} is taken"


@dataclass(frozen=True)
class Routed:
    """The events' way over a placement, and what that way sustains.

    ``factor`` is the sustained rate over the planned one; ``estimates`` what each bundle's profile says of it;
    ``crowded`` the slots with more threads than their driver has, by position.
    """

    routing: Routing
    shares: Shares
    factor: float
    limit: Limit | None
    estimates: Mapping[str, Mapping[int, Estimate]]
    crowded: Mapping[int, Crowd] = field(default_factory=dict)

    def weights(self, placement: Placement, task: str) -> tuple[float, ...]:
        """The part of a task's events that each of its partitions gets; they add up to 1."""
        counts = placement.counts[task]
        return tuple(self.shares[task][position] / counts[position] for position in placement.threads[task])


def route(
    placement: Placement,
    profiles: Mapping[str, Profile],
    *,
    rates_per_s: Mapping[str, float],
    routing: Routing,
    allocation: Allocation | None = None,
    threads: Mapping[str, int] | None = None,
) -> Routed:
    """Divide each task's events over its threads.

    ``shuffle`` gives every thread the same, as Storm does, however many others it shares its slot with.
    ``slot_aware`` gives each bundle what it sustains: by its profile, or, where that sustains more, what
    ``allocation`` planned for it, which leaves room to the others on its slot; and evenly where neither helps. With
    what was planned a schedule of MBA and SAM sustains its rate whenever its profiles are right and the drivers of its
    slots have the ``threads`` (by node; absent where unknown).
    """
    crowded = _crowded(placement, threads or {})
    # By number of threads: many bundles of a task have the same.
    known = {
        task: {threads: profiles[task].estimate(threads) for threads in set(counts.values())}
        for task, counts in placement.counts.items()}
    estimates = {
        task: {position: known[task][threads] for position, threads in counts.items()}
        for task, counts in placement.counts.items()}
    demands = {
        task: {threads: _Demand.of(one.point, static=profiles[task].static) for threads, one in by_threads.items()}
        for task, by_threads in known.items()}
    if routing == "shuffle":
        candidates = [_even(placement)]
    else:
        candidates = [_by_capacity(estimates), _even(placement)]
        if allocation is not None:
            candidates.append(_by_plan(placement, allocation))
    found: Routed | None = None
    for shares in candidates:
        factor, limit = _sustained(
            placement, demands, shares, rates_per_s, crowded, least=0.0 if found is None else found.factor)
        if found is None or factor > found.factor:
            found = Routed(routing, shares, factor, limit, estimates, crowded)
    assert found is not None
    return found


def _crowded(placement: Placement, threads: Mapping[str, int]) -> dict[int, Crowd]:
    """The slots with more threads on them than their driver has; of others each query counts as one."""
    placed: Counter[int] = Counter()
    for counts in placement.counts.values() if threads else ():
        placed.update(counts)
    found = {}
    for position, count in placed.items():
        there = threads.get(placement.slots[position].node)
        count += placement.taken[position].queries if position in placement.taken else 0
        if there is not None and count > there:
            found[position] = Crowd(there, count)
    return found


def _even(placement: Placement) -> Shares:
    return {
        task: {position: threads / len(placement.threads[task]) for position, threads in counts.items()}
        for task, counts in placement.counts.items()
    }


def _by_capacity(estimates: Mapping[str, Mapping[int, Estimate]]) -> Shares:
    return {
        task: _normal({position: estimate.point.rate_per_s for position, estimate in by_slot.items()})
        for task, by_slot in estimates.items()
    }


def _by_plan(placement: Placement, allocation: Allocation) -> Shares:
    """Each thread's part of what was planned for its bundle; threads are numbered in the order of the bundles."""
    shares = {}
    for task, positions in placement.threads.items():
        planned = (
            bundle.rate_per_s / bundle.threads
            for bundle in allocation.tasks[task].bundles for _ in range(bundle.count * bundle.threads)
        )
        by_slot = dict.fromkeys(positions, 0.0)
        for position, rate in zip(positions, planned, strict=True):
            by_slot[position] += rate
        shares[task] = _normal(by_slot)
    return shares


def _normal(rates: Mapping[int, float]) -> dict[int, float]:
    total = sum(rates.values())
    return {position: rate / total if total else 1 / len(rates) for position, rate in rates.items()}


def _sustained(
    placement: Placement,
    demands: Mapping[str, Mapping[int, _Demand]],
    shares: Shares,
    rates_per_s: Mapping[str, float],
    crowded: Mapping[int, Crowd],
    *,
    least: float,
) -> tuple[float, Limit | None]:
    """How many times the planned rate the placement sustains, and what keeps it from more; 1 where nothing does.

    ``demands`` are by task and number of threads. Where bundles alone sustain no more than ``least``, the rest is not
    looked at.
    """
    factor, limit = inf, None
    # Of each slot's CPU and memory: what is taken without events, and what grows with them.
    of_others = [placement.taken.get(position, NOTHING_TAKEN) for position in range(len(placement.slots))]
    cpu, memory = [_Spent(taken.cpu) for taken in of_others], [_Spent(taken.memory) for taken in of_others]
    queries: dict[int, list[_Query]] = {}
    # Threads at work at the planned rate: of a bundle as large a part as of what it sustains.
    working = {position: float(of_others[position].queries) for position in crowded}
    for task, by_slot in shares.items():
        rate_per_s, counts = rates_per_s[task], placement.counts[task]
        for position, share in by_slot.items():
            demand = demands[task][counts[position]]
            load = 0.0 if demand.static else rate_per_s * share / demand.rate_per_s
            if demand.static:  # what does at any rate takes less CPU at a lower one, too: no reason for a rate of 0
                cpu[position].add(0.0, demand.events)
                memory[position].add(demand.idle_memory, 0.0)
            elif load:  # without events a query runs no batch and keeps no Python worker
                query = _Query(task, demand, demand.events * load, demand.waits * load)
                queries.setdefault(position, []).append(query)
                cpu[position].add(demand.batches, query.events)
                memory[position].add(demand.idle_memory, demand.memory * load)
            if position in crowded:
                working[position] += counts[position] * (1.0 if demand.static else load)
            if factor * load > 1:
                factor, limit = 1 / load, Limit("bundle", placement.slots[position], task)
    if factor <= least:
        return factor, limit
    # Who has little to do is soon done, and waits for its next trigger: a full slot slows the one that has most to do.
    slowed = {position: max(its, key=lambda query: query.demand.batches + query.events)
              for position, its in queries.items()}
    for position, query in slowed.items():
        cpu[position].add(query.demand.fewest_batches - query.demand.batches, 0.0)
    for what, by_slot in (("CPU", cpu), ("memory", memory)):
        for position, spent in enumerate(by_slot):
            if spent.fixed > 1 + TOLERANCE or spent.left < factor * spent.moving:
                factor = min(factor, spent.left / spent.moving) if spent.moving else 0.0
                limit = Limit(what, placement.slots[position])
    for position, its in queries.items():
        for query in its:
            in_all = query.demand.fewest_batches if query is slowed[position] else query.demand.batches
            others = _Spent(cpu[position].fixed - in_all, cpu[position].moving - query.events)
            if query.waits and (sustained := _in_time(query, others=others)) < factor:
                # What hardly waits is late for want of CPU alone.
                named = query.task if query.demand.waits >= WAITS else ""
                factor, limit = sustained, Limit("CPU", placement.slots[position], named)
    for position, crowd in crowded.items():
        if crowd.there < factor * working[position]:
            factor = crowd.there / working[position]
            limit = Limit("threads", placement.slots[position], crowd=crowd)
    return (1.0, None) if limit is None else (factor, limit)


@dataclass(frozen=True, slots=True)
class _Demand:
    """What a bundle takes of its slot at its peak rate; what a ``static`` one takes does not depend on its rate.

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
    def of(cls, point: Point, *, static: bool) -> _Demand:
        """By the point of its number of threads."""
        if static:
            return cls(True, point.rate_per_s, 0.0, 0.0, point.cpu, 0.0, point.memory, 0.0)
        return cls(
            False, point.rate_per_s, point.batches_cpu, point.fewest_batches_cpu, point.of_events, point.waits,
            point.idle_memory, point.memory - point.idle_memory)


@dataclass(frozen=True, slots=True)
class _Query:
    """A bundle that gets events: CPU that these take, and the part of its time that it waits, at the planned rate."""

    task: str
    demand: _Demand
    events: float
    waits: float


@dataclass(slots=True)
class _Spent:
    """Shares of a slot that are taken without events, and at the planned rate besides."""

    fixed: float = 0.0
    moving: float = 0.0

    def add(self, fixed: float, moving: float) -> None:
        self.fixed += fixed
        self.moving += moving

    @property
    def left(self) -> float:
        return max(0.0, 1.0 - self.fixed)


def _in_time(query: _Query, *, others: _Spent) -> float:
    """How many times the planned rate a query that waits sustains beside the others on its slot.

    At f times the rate it waits for f·w of its time and has work for r(f) of a core, in as few batches as may be, the
    others for s(f), all of them lines. The core is shared evenly, so its work goes by at 1 - s of its speed, and has to
    be done in the time that is left: f·w + r(f) / (1 - s(f)) = 1, a quadratic equation of which the smaller root
    counts. Without waiting that is where the slot's CPU is taken.
    """
    left = 1.0 - others.fixed - query.demand.fewest_batches
    if left <= 0:
        return 0.0
    grows = query.waits * (1.0 - others.fixed) + others.moving + query.events
    return 2 * left / (grows + sqrt(max(0.0, grows * grows - 4 * query.waits * others.moving * left)))
