"""Prediction: the rate that a placed dataflow will sustain, and each slot's CPU and memory (paper [2], 8.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from math import inf

from scheduler.model.allocated import Allocation
from scheduler.model.dataflow import Dataflow
from scheduler.model.fragment import Slot
from scheduler.model.placement import Placement
from scheduler.model.profile import Basis, Profile
from scheduler.model.resources import TOLERANCE

from .routing import Routed, Routing, route


@dataclass(frozen=True, slots=True)
class BundleLoad:
    """The future load of a task's threads on a slot, and their capacity.

    ``share`` is their part of the task's events. ``basis`` says whether this number of threads was measured.
    """

    task: str
    slot: Slot
    threads: int
    share: float
    rate_per_s: float
    sustains_per_s: float
    cpu: float
    memory: float
    basis: Basis


@dataclass(frozen=True, slots=True)
class PredictedSlot:
    """Shares of a slot's CPU and memory that its bundles take, with what others are expected to take of it."""

    slot: Slot
    cpu: float
    memory: float


@dataclass(frozen=True)
class Prediction:
    """The prediction for a placement.

    Loads are those at the planned rate where that is sustained, else at the rate that is.
    """

    routed: Routed
    bundles: tuple[BundleLoad, ...]
    slots: tuple[PredictedSlot, ...]

    @property
    def factor(self) -> float:
        """The rate that it sustains over the planned one: 1.2 has room for a fifth more, 0.8 keeps four fifths."""
        return self.routed.factor

    @property
    def keeps(self) -> bool:
        """True if the planned rate is sustained."""
        return self.factor >= 1 - TOLERANCE

    @property
    def unmeasured(self) -> int:
        """Bundles of a number of threads that was interpolated, or that is beyond what was measured."""
        return sum(bundle.basis != "measured" for bundle in self.bundles)


def predict(
    placement: Placement,
    profiles: Mapping[str, Profile],
    *,
    rates_per_s: Mapping[str, float],
    routing: Routing = "shuffle",
    allocation: Allocation | None = None,
    threads: Mapping[str, int] | None = None,
) -> Prediction:
    """Predict what a placed dataflow sustains, and what its slots have to bear.

    A bundle sustains what its profile says for its number of threads, linear between measured numbers; it gets its
    part of the task's events as they are routed; and it takes CPU and memory in proportion to its rate. The dataflow
    sustains the rate at which the first bundle has as much as it can, or the first slot no CPU or memory left.

    Or no threads: a driver runs so many at a time, of all its queries together. A bundle that gets a part of what it
    sustains has that part of its threads at work; where those on a slot are more than its driver has, they wait for
    their turn, and all of them do so much less. With every bundle at its peak that is the driver's threads over those
    placed there. A first approximation: that a batch waits for its last thread is not in it. A thread reads its channel
    and does its task in one, so nothing comes on top; threads that do at any rate (of sources), and one for each query
    of others, count as at work all the time.

    Parameters
    ----------
    routing : {"shuffle", "slot_aware"}
        The division of a task's events over its threads, see `route`.
    allocation : Allocation, optional
        The plan for each bundle: slot-aware routing can keep to it.
    threads : mapping of str to int, optional
        The number of threads of each slot's driver, by node; of a node that is absent nobody knows, and they are taken
        to be enough.

    Returns
    -------
    Prediction
        With the bundle or slot that limits it, and why.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, 8.5.
    """
    routed = route(
        placement, profiles, rates_per_s=rates_per_s, routing=routing, allocation=allocation, threads=threads)
    at = min(1.0, routed.factor)
    cpu, memory = [0.0] * len(placement.slots), [0.0] * len(placement.slots)
    for position, taken in placement.taken.items():
        cpu[position], memory[position] = taken.cpu, taken.memory
    bundles = []
    for task, counts in placement.counts.items():
        for position, count in sorted(counts.items()):
            estimate, share = routed.estimates[task][position], routed.shares[task][position]
            rate_per_s = rates_per_s[task] * share * at
            static = profiles[task].static
            if static:
                takes = estimate.point.cpu, estimate.point.memory
            elif rates_per_s[task]:
                takes = estimate.cpu_at(rate_per_s), estimate.memory_at(rate_per_s)
            else:  # without events it runs no batch and keeps no Python worker
                takes = 0.0, 0.0
            load = BundleLoad(
                task, placement.slots[position], count, share, rate_per_s,
                inf if static else estimate.point.rate_per_s, *takes, estimate.basis)
            cpu[position] += load.cpu
            memory[position] += load.memory
            bundles.append(load)
    # A slot without CPU left runs batches less often, and so takes no more than all of it.
    slots = tuple(
        PredictedSlot(slot, min(1.0, cpu[position]), memory[position])
        for position, slot in enumerate(placement.slots))
    return Prediction(routed, tuple(bundles), slots)


def latency_s(
    dataflow: Dataflow, prediction: Prediction, *, trigger_s: float, hop_s: float
) -> float:
    """An estimate of the time from an event's birth to the end of its longest way through the dataflow."""
    return max(latencies_s(dataflow, prediction, trigger_s=trigger_s, hop_s=hop_s).values(), default=0.0)


def latencies_s(
    dataflow: Dataflow, prediction: Prediction, *, trigger_s: float, hop_s: float
) -> dict[str, float]:
    """An estimate for each task of the time from an event's birth until the task is done with it.

    Of each task on the way: half the time between two batches for which the event waits, a hop over the broker, and
    the time that a thread takes for one event where that is longest. Queues are none of it: they are short while the
    load is well below what is sustained, and without end above.
    """
    service: dict[str, float] = {}
    for bundle in prediction.bundles:
        service[bundle.task] = max(service.get(bundle.task, 0.0), bundle.threads / bundle.sustains_per_s)
    ready: dict[str, float] = {}
    parents = dataflow.parents()
    for task in TopologicalSorter(parents).static_order():
        before = max((ready[parent] + hop_s for parent in parents[task]), default=0.0)
        ready[task] = before + trigger_s / 2 + service.get(task, 0.0)
    return ready
