"""Routing: how a task's events are divided over its threads, evenly or by what their slots sustain (paper [2], 8.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from scheduler.model.allocation import Allocation
from scheduler.model.estate import Slot
from scheduler.model.placement import Crowd, Placement
from scheduler.model.profile import Estimate, Profile

Routing = Literal["shuffle", "slot_aware"]
# Of what queries take at any rate, a slot without CPU left still spends so much: it runs their batches up to four
# triggers apart. Latency grows with that, but nothing piles up.
LEAST_OFTEN = 0.25
Shares = Mapping[str, Mapping[int, float]]  # of a task's events, by the position of the slot


@dataclass(frozen=True, slots=True)
class Limit:
    """What keeps a dataflow from more.

    A bundle that sustains no more, a slot whose CPU or memory is taken, or one whose driver has too few threads
    (``crowd``).
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
    estimates = {
        task: {position: profiles[task].estimate(threads) for position, threads in counts.items()}
        for task, counts in placement.counts.items()
    }
    if routing == "shuffle":
        candidates = [_even(placement)]
    else:
        candidates = [_by_capacity(estimates), _even(placement)]
        if allocation is not None:
            candidates.append(_by_plan(placement, allocation))
    found: Routed | None = None
    for shares in candidates:
        factor, limit = _sustained(placement, profiles, estimates, shares, rates_per_s, crowded)
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
    profiles: Mapping[str, Profile],
    estimates: Mapping[str, Mapping[int, Estimate]],
    shares: Shares,
    rates_per_s: Mapping[str, float],
    crowded: Mapping[int, Crowd],
) -> tuple[float, Limit | None]:
    """How many times the planned rate the placement sustains, and what keeps it from more; 1 where nothing does."""
    factor, limit = inf, None
    # Shares of each slot's CPU and memory that are taken without events, and those that grow with them.
    moving = {"CPU": [0.0] * len(placement.slots), "memory": [0.0] * len(placement.slots)}
    fixed = {what: list(nothing) for what, nothing in moving.items()}
    for position, taken in placement.taken.items():
        fixed["CPU"][position], fixed["memory"][position] = taken.cpu, taken.memory
    # Threads at work at the planned rate: of a bundle as large a part as of what it sustains.
    working = {
        position: placement.taken[position].queries if position in placement.taken else 0.0 for position in crowded}
    for task, by_slot in shares.items():
        static = profiles[task].static
        for position, share in by_slot.items():
            point = estimates[task][position].point
            load = 0.0 if static else rates_per_s[task] * share / point.rate_per_s
            # What does at any rate takes less at a lower one, too: it is no reason for a rate of 0.
            fixed["CPU"][position] += 0.0 if static else min(LEAST_OFTEN, point.often) * point.idle_cpu
            fixed["memory"][position] += point.memory if static else point.idle_memory
            moving["CPU"][position] += point.cpu if static else point.of_events * load
            moving["memory"][position] += (point.memory - point.idle_memory) * load
            if position in crowded:
                working[position] += placement.counts[task][position] * (1.0 if static else load)
            if factor * load > 1:
                factor, limit = 1 / load, Limit("bundle", placement.slots[position], task)
    for what, by_slot in moving.items():
        for position, of_events in enumerate(by_slot):
            left = max(0.0, 1.0 - fixed[what][position])
            if of_events and left < factor * of_events:
                factor, limit = left / of_events, Limit(what, placement.slots[position])
    for position, crowd in crowded.items():
        if crowd.there < factor * working[position]:
            factor = crowd.there / working[position]
            limit = Limit("threads", placement.slots[position], crowd=crowd)
    return (1.0, None) if limit is None else (factor, limit)
