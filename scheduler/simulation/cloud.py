"""A cloud to try adaptation in: rates come, machines are rented and differ, whoever adapts is asked at each step.

Time goes in steps, each worked out by the equations of ``problem``. A machine is paid for from when it is asked for,
and works once it has started. How quick its cores are follows a trace, if there are any: each machine has one of them,
from a moment on that is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .elastic import ElasticDataflow, ElasticPlacement, RentedVm
from .loads import Chance, recorded
from .problem import Billing, Conditions, SimulatedStep, cost_of, value_of, work_out


@dataclass(frozen=True)
class Cloud:
    """How machines behave: seconds until one has started, and how quick its cores are against what its class says, by
    traces of which each step is so many samples long; and how it is paid for."""

    starts_s: float = 0.0
    traces: Sequence[Sequence[float]] = ()
    samples_a_step: float = 1.0
    billing: Billing = "hours"

    def __post_init__(self) -> None:
        if not (self.starts_s >= 0 and self.samples_a_step > 0):
            raise ValueError("a machine starts after 0 s or later, and a step is longer than no sample")


@dataclass(frozen=True)
class Instant:
    """What whoever adapts may know when a step begins: the time, what runs, what came in the step before (None in the
    first) and how quick machines were in it."""

    at_s: float
    placement: ElasticPlacement
    worked: SimulatedStep | None = None
    rates_per_s: Mapping[str, float] = field(default_factory=dict)
    speeds: Mapping[str, float] = field(default_factory=dict)


Adapts = Callable[[Instant], ElasticPlacement]


@dataclass(frozen=True)
class SimulatedCourse:
    """What a time came to, step by step: value Γ, throughput Ω, the part that reached the outputs, and cost μ so far;
    and all machines that were rented."""

    values: tuple[float, ...]
    throughputs: tuple[float, ...]
    reached: tuple[float, ...]
    costs: tuple[float, ...]
    vms: Mapping[str, RentedVm]


def simulate(
    dataflow: ElasticDataflow, adapts: Adapts, *, rates_per_s: Mapping[str, Sequence[float]], step_s: float,
    cloud: Cloud, rng: Chance, message_bytes: float = 100.0,
) -> SimulatedCourse:
    """Let time go by.

    Parameters
    ----------
    dataflow : ElasticDataflow
        What runs, from when nothing waits.
    adapts : callable
        Given what is known, what is to run from now on. A machine that is new in it is rented now, whatever it says of
        when; one that it leaves out is given back, and its name is not used again.
    rates_per_s : mapping of str to sequence of float
        By source: events a second, step by step; as many of each.
    rng : Chance
        What is drawn from.

    Raises
    ------
    ValueError
        The name of a machine that was given back is used again.
    """
    (steps,) = {len(rates) for rates in rates_per_s.values()}
    machines, waiting = _Machines(cloud, rng, steps), dict[str, float]()
    placement, worked = ElasticPlacement({}), None
    now = Instant(0.0, placement)
    course: list[tuple[float, float, float, float]] = []
    for at in range(steps):
        at_s = at * step_s
        placement = machines.rented(adapts(now), at_s)
        rates = {source: float(rates_per_s[source][at]) for source in rates_per_s}
        speeds = machines.speeds(placement, at, at_s)
        worked = work_out(dataflow, placement, Conditions(rates, step_s, waiting, speeds, message_bytes))
        waiting = dict(worked.waiting)
        course.append((
            value_of(dataflow, placement.active), worked.throughput, worked.reached,
            cost_of(machines.known, at_s + step_s, billing=cloud.billing)))
        now = Instant(at_s + step_s, placement, worked, rates, speeds)
    values, throughputs, reached, costs = zip(*course, strict=True)
    return SimulatedCourse(values, throughputs, reached, costs, machines.known)


class _Machines:
    """All machines that were rented so far, and how quick each is when."""

    def __init__(self, cloud: Cloud, rng: Chance, steps: int) -> None:
        self._cloud, self._rng, self._steps = cloud, rng, steps
        self._traces: dict[str, Sequence[float]] = {}
        self.known: dict[str, RentedVm] = {}

    def rented(self, placement: ElasticPlacement, at_s: float) -> ElasticPlacement:
        """A placement with machines as they were rented; those that are new in it are rented now, others given back."""
        for name, vm in placement.vms.items():
            if name not in self.known:
                self.known[name] = RentedVm(vm.kind, at_s)
                self._traces[name] = self._trace()
            elif self.known[name].ended_s is not None:
                raise ValueError(f"{name} was given back")
        for name, vm in self.known.items():
            if name not in placement.vms and vm.ended_s is None:
                self.known[name] = replace(vm, ended_s=at_s)
        return replace(placement, vms={name: self.known[name] for name in placement.vms})

    def _trace(self) -> Sequence[float]:
        if not self._cloud.traces:
            return ()
        trace = self._cloud.traces[self._rng.integers(len(self._cloud.traces))]
        return recorded(
            np.roll(trace, -self._rng.integers(len(trace))), self._steps, samples_a_step=self._cloud.samples_a_step)

    def speeds(self, placement: ElasticPlacement, at: int, at_s: float) -> dict[str, float]:
        """How quick the cores of each machine are in a step; 0 of one that starts."""
        return {
            name: 0.0 if at_s < vm.begun_s + self._cloud.starts_s else vm.kind.speed * (
                float(self._traces[name][at]) if len(self._traces[name]) else 1.0)
            for name, vm in placement.vms.items()}
