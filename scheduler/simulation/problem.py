"""The problem of elastic dataflows: their value, throughput, cost and profit (equations 4.2 to 4.9).

After Kumbhare, "Adaptive and Resilient Stream Processing on Cloud Infrastructure", 2016, sections 4.2 and 4.3. What is
to be found are alternates, machines and cores of the greatest profit with a mean throughput of at least some bound.

Where the text says less than it means: a flow is a rate, so it is bounded by β/m, and not by β·Δt/m, which is how many
messages pass in Δt. And by (4.7) alone an output task that gets nothing from a starved one upstream has its full
throughput, for it does all that comes: `SimulatedStep.reached` measures it, as the text beside the equation says, by
what would leave if nothing were short anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduler.model.checks import require_finite

from .elastic import ElasticDataflow, ElasticPlacement, RentedVm

HOUR_S = 3600.0
Billing = Literal["hours", "seconds"]


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions at the beginning of a step of time: its length in seconds, events a second that come to each
    source, how many wait for each task, speed and bandwidth of machines as measured (else those of their class), and
    the mean size of a message. Tasks keep what waits for so many seconds of their input at most: the rest is dropped.
    """

    rates_per_s: Mapping[str, float]
    seconds: float = 1.0
    waiting: Mapping[str, float] = field(default_factory=dict)
    speeds: Mapping[str, float] = field(default_factory=dict)
    message_bytes: float = 100.0
    bandwidths: Mapping[str, float] = field(default_factory=dict)
    keeps_s: float | None = None

    def __post_init__(self) -> None:
        require_finite(self)
        if self.seconds <= 0 or self.message_bytes <= 0:
            raise ValueError("a step takes more than 0 s, and a message more than 0 bytes")


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """The results of a step of time: events a second into and out of each task, how many wait after it, each task's
    throughput Ω_i, that of the dataflow Ω (4.7), and what part reached its outputs of all that could have."""

    in_per_s: Mapping[str, float]
    out_per_s: Mapping[str, float]
    waiting: Mapping[str, float]
    throughputs: Mapping[str, float]
    throughput: float
    reached: float


def value_of(dataflow: ElasticDataflow, active: Mapping[str, str]) -> float:
    """Γ: the mean of what the active alternates are worth (4.3)."""
    return sum(dataflow.tasks[task][active[task]].worth for task in dataflow.tasks) / len(dataflow.tasks)


def power_of(placement: ElasticPlacement, task: str, speeds: Mapping[str, float]) -> float:
    """φ: how many standard cores those of a task add up to."""
    return sum(cores * speeds.get(vm, placement.vms[vm].kind.speed) for vm, cores in placement.cores.get(
        task, {}).items())


def bytes_between(
    placement: ElasticPlacement, source: str, target: str, bandwidths: Mapping[str, float] | None = None
) -> float:
    """β: the bandwidth between all instances of two tasks together; infinite where two share a machine.

    Parameters
    ----------
    bandwidths : mapping of str to float, optional
        Bytes a second of machines as measured, else those of their class.
    """
    ends = [[vm for vm, cores in placement.cores.get(task, {}).items() if cores] for task in (source, target)]
    if not set(ends[0]).isdisjoint(ends[1]):
        return math.inf
    measured = bandwidths or {}
    written, read = ([measured.get(vm, placement.vms[vm].kind.bytes_per_s) for vm in end] for end in ends)
    return sum_of_lesser(written, read)


def sum_of_lesser(some: Iterable[float], others: Iterable[float]) -> float:
    """Over all pairs of one of these and one of those, the sum of the lesser, without looking at each pair.

    >>> sum_of_lesser([1.0, 4.0], [2.0, 3.0])
    7.0
    """
    sides = (list(some), list(others))
    counts_not_less = [len(figures) for figures in sides]  # those that are not less than where we are
    total = 0.0
    for figure, side in sorted((figure, at) for at in (0, 1) for figure in sides[at]):
        total += figure * counts_not_less[1 - side]
        counts_not_less[side] -= 1
    return total


def work_out(dataflow: ElasticDataflow, placement: ElasticPlacement, conditions: Conditions) -> SimulatedStep:
    """The output of each task in a step of time, from the sources on (4.4 to 4.7)."""
    seconds = conditions.seconds
    in_per_s: dict[str, float] = {}
    out_per_s: dict[str, float] = {}
    most_per_s: dict[str, float] = {}
    waiting: dict[str, float] = {}
    throughputs: dict[str, float] = {}
    for task in dataflow.upstream_first:
        alternate, parents = dataflow.tasks[task][placement.active[task]], dataflow.parents[task]
        source_per_s = conditions.rates_per_s.get(task, 0.0)
        in_per_s[task] = source_per_s + sum(
            min(out_per_s[parent], bytes_between(placement, parent, task, conditions.bandwidths)
                / conditions.message_bytes)
            for parent in parents)
        before = conditions.waiting.get(task, 0.0)
        events = before + in_per_s[task] * seconds
        done = min(events, power_of(placement, task, conditions.speeds) * seconds / alternate.event_s)
        waiting[task] = events - done if conditions.keeps_s is None else min(
            events - done, in_per_s[task] * conditions.keeps_s)
        out_per_s[task] = done * alternate.selectivity / seconds
        throughputs[task] = _part(done, events)
        could_come = source_per_s + sum(most_per_s[parent] for parent in parents)
        most_per_s[task] = (before + could_come * seconds) * alternate.selectivity / seconds
    outputs = dataflow.outputs
    return SimulatedStep(
        in_per_s, out_per_s, waiting, throughputs, sum(throughputs[task] for task in outputs) / len(outputs),
        sum(_part(out_per_s[task], most_per_s[task]) for task in outputs) / len(outputs))


def cost_of(vms: Mapping[str, RentedVm], at_s: float, *, billing: Billing = "hours") -> float:
    """μ: what machines have cost by a moment (4.2).

    Parameters
    ----------
    at_s : float
        The moment, in seconds; what is rented later costs nothing yet.
    billing : str, optional
        ``hours`` that are begun, as the thesis has it, or ``seconds``.
    """
    cost = 0.0
    for vm in vms.values():
        seconds = max(0.0, min(at_s, math.inf if vm.ended_s is None else vm.ended_s) - vm.begun_s)
        hours = math.ceil(seconds / HOUR_S) if billing == "hours" else seconds / HOUR_S
        cost += hours * vm.kind.per_hour
    return cost


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The largest spending for the greatest value that a dataflow can have, and for the least."""

    at_most_value: float
    at_least_value: float

    def __post_init__(self) -> None:
        require_finite(self)
        if not self.at_most_value > self.at_least_value:
            raise ValueError("more may be spent for the greatest value than for the least")


def price_of_value(dataflow: ElasticDataflow, goal: BreakEven) -> float:
    """σ: how much value a unit of money is to bring (4.9)."""
    def extreme(choose: Callable[[Iterable[float]], float]) -> float:
        return sum(
            choose(alternate.worth for alternate in alternates.values()) for alternates in dataflow.tasks.values())

    spread = (extreme(max) - extreme(min)) / len(dataflow.tasks)
    return spread / (goal.at_most_value - goal.at_least_value)


def profit_of(dataflow: ElasticDataflow, goal: BreakEven, *, value: float, cost: float) -> float:
    """Θ: the mean value, less the cost beyond what may be spent at the greatest value, and 1 (4.8).

    Parameters
    ----------
    value : float
        The mean of Γ over the time, 0 to 1.
    cost : float
        μ at its end, in the unit of the machines' prices.
    """
    return value - price_of_value(dataflow, goal) * (cost - goal.at_most_value) + 1


def _part(done: float, of: float) -> float:
    return done / of if of > 0 else 1.0
