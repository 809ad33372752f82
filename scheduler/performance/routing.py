"""Routing: how a task's events are divided over its threads, evenly or by what their slots sustain (paper [2], 8.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduler.model.allocated import Allocation
from scheduler.model.placement import Placement, ThreadShortage
from scheduler.model.profile import Estimate, Profile

from .sustained import Bottleneck, Shares, SlotDemand, crowded_slots, sustained

Routing = Literal["shuffle", "slot_aware"]


@dataclass(frozen=True)
class Routed:
    """The events' way over a placement, and what that way sustains.

    ``factor`` is the sustained rate over the planned one; ``estimates`` what each bundle's profile says of it;
    ``crowded`` the slots with more threads than their driver has, by position.
    """

    routing: Routing
    shares: Shares
    factor: float
    limit: Bottleneck | None
    estimates: Mapping[str, Mapping[int, Estimate]]
    crowded: Mapping[int, ThreadShortage] = field(default_factory=dict)

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

    Parameters
    ----------
    profiles : mapping of str to Profile
        The profile of each task that was measured, by task.
    rates_per_s : mapping of str to float
        Events per second that each task gets.
    threads : mapping of str to int, optional
        Threads that the driver of each node's slots has; absent where unknown.
    """
    crowded = crowded_slots(placement, threads or {})
    # By number of threads: many bundles of a task have the same.
    by_count = {
        task: {threads: profiles[task].estimate(threads) for threads in set(counts.values())}
        for task, counts in placement.counts.items()}
    estimates = {
        task: {position: by_count[task][threads] for position, threads in counts.items()}
        for task, counts in placement.counts.items()}
    demands = {
        task: {
            threads: SlotDemand.of(estimate.point, static=profiles[task].static)
            for threads, estimate in by_threads.items()
        }
        for task, by_threads in by_count.items()
    }
    if routing == "shuffle":
        candidates = [_even(placement)]
    else:
        candidates = [_by_capacity(estimates), _even(placement)]
        if allocation is not None:
            candidates.append(_by_plan(placement, allocation))
    routed: Routed | None = None
    for shares in candidates:
        factor, limit = sustained(
            placement, demands, shares, rates_per_s, crowded, least=0.0 if routed is None else routed.factor)
        if routed is None or factor > routed.factor:
            routed = Routed(routing, shares, factor, limit, estimates, crowded)
    assert routed is not None
    return routed


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
    """Each thread's part of what was planned for its bundle; threads are numbered in the order of the bundles. Where
    several of one slot are one, they have even parts."""
    shares = {}
    for task, positions in placement.threads.items():
        planned = [
            bundle.rate_per_s / bundle.threads
            for bundle in allocation.tasks[task].bundles for _ in range(bundle.count * bundle.threads)
        ]
        if len(positions) < len(planned):
            planned = [1.0] * len(positions)
        by_slot = dict.fromkeys(positions, 0.0)
        for position, rate in zip(positions, planned, strict=True):
            by_slot[position] += rate
        shares[task] = _normal(by_slot)
    return shares


def _normal(rates: Mapping[int, float]) -> dict[int, float]:
    total = sum(rates.values())
    return {position: rate / total if total else 1 / len(rates) for position, rate in rates.items()}
