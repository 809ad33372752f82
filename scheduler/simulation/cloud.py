"""A cloud to try adaptation in: rates come, machines are rented and differ, whoever adapts is asked at each step.

Time goes in steps, each worked out by the equations of ``problem``. A machine is paid for from when it is asked for,
and works once it has started. How quick its cores and its network are follows a trace, if there are any: each machine
has one of them that is drawn, from a moment on that is drawn too, unless traces are of the very time that goes by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from .elastic import ElasticDataflow, ElasticPlacement, RentedVm
from .loads import Chance, Rates, recorded
from .problem import Billing, Conditions, SimulatedStep, cost_of, value_of, work_out


@dataclass(frozen=True)
class Cloud:
    """The behaviour of machines: seconds until one has started, and how quick its cores and its network are against
    what its class says, by traces of which each step is so many samples long; and how it is paid for. Tasks keep what
    waits for so many seconds of their input at most, all of it if None. Traces of the ``same_time`` begin when the time
    does."""

    starts_s: float = 0.0
    traces: Sequence[Sequence[float]] = ()
    samples_a_step: float = 1.0
    billing: Billing = "hours"
    network_traces: Sequence[Sequence[float]] = ()
    keeps_s: float | None = None
    same_time: bool = False

    def __post_init__(self) -> None:
        if not (self.starts_s >= 0 and self.samples_a_step > 0):
            raise ValueError("a machine starts after 0 s or later, and a step is longer than no sample")


class SimulatedFuture(Protocol):
    """The future of a simulation, for the forecasts of an oracle: an algorithm without an oracle does not use it."""

    def rates_to_come(self, steps: int) -> Mapping[str, Rates]:
        """The rates by source in the next steps, in events a second, the last ones again past the end."""

    def speeds_to_come(self, steps: int) -> Mapping[str, Rates]:
        """The speeds of the cores of each rented machine in the next steps once it has started."""


@dataclass(frozen=True)
class Instant:
    """The facts that adaptation may know when a step begins: the time, what runs, what came in the step before (None in
    the first) and how quick machines were in it, their network too where it varies."""

    at_s: float
    placement: ElasticPlacement
    worked: SimulatedStep | None = None
    rates_per_s: Mapping[str, float] = field(default_factory=dict)
    speeds: Mapping[str, float] = field(default_factory=dict)
    bandwidths: Mapping[str, float] = field(default_factory=dict)
    future: SimulatedFuture | None = field(default=None, compare=False)


Adapts = Callable[[Instant], ElasticPlacement]


@dataclass(frozen=True)
class SimulatedCourse:
    """The results of a time, step by step: value Γ, throughput Ω, the part that reached the outputs, and cost μ so far;
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
        The running dataflow, at a time when nothing waits.
    adapts : callable
        Given what is known, what is to run from now on. A machine that is new in it is rented now, whatever it says of
        when; one that it leaves out is given back, and its name is not used again.

    Raises
    ------
    ValueError
        The name of a machine that was given back is used again.
    """
    (steps,) = {len(rates) for rates in rates_per_s.values()}
    machines, waiting = _Machines(cloud, rng, steps, step_s), dict[str, float]()
    placement, worked = ElasticPlacement({}), None
    now = Instant(0.0, placement, future=_Future(rates_per_s, machines, 0))
    course: list[tuple[float, float, float, float]] = []
    for at in range(steps):
        at_s = at * step_s
        placement = machines.rented(adapts(now), at_s)
        rates = {source: float(rates_per_s[source][at]) for source in rates_per_s}
        speeds, bandwidths = machines.speeds(placement, at), machines.bandwidths(placement, at)
        worked = work_out(dataflow, placement, Conditions(
            rates, step_s, waiting, speeds, message_bytes, bandwidths, cloud.keeps_s))
        waiting = dict(worked.waiting)
        course.append((
            value_of(dataflow, placement.active), worked.throughput, worked.reached,
            cost_of(machines.rented_vms, at_s + step_s, billing=cloud.billing)))
        now = Instant(at_s + step_s, placement, worked, rates, speeds, bandwidths, _Future(
            rates_per_s, machines, at + 1))
    values, throughputs, reached, costs = zip(*course, strict=True)
    return SimulatedCourse(values, throughputs, reached, costs, machines.rented_vms)


class _Machines:
    """All machines that were rented so far, and how quick each is when."""

    def __init__(self, cloud: Cloud, rng: Chance, steps: int, step_s: float) -> None:
        self._cloud, self._rng, self._steps, self._step_s = cloud, rng, steps, step_s
        self._traces: dict[str, Sequence[float]] = {}
        self._network: dict[str, Sequence[float]] = {}
        self.rented_vms: dict[str, RentedVm] = {}

    def rented(self, placement: ElasticPlacement, at_s: float) -> ElasticPlacement:
        """A placement with machines as they were rented. Its new machines are rented now, machines that it lacks given
        back."""
        for name, vm in placement.vms.items():
            if name not in self.rented_vms:
                self.rented_vms[name] = RentedVm(vm.kind, at_s)
                self._traces[name] = self._trace(self._cloud.traces)
                self._network[name] = self._trace(self._cloud.network_traces)
            elif self.rented_vms[name].ended_s is not None:
                raise ValueError(f"{name} was given back")
        for name, vm in self.rented_vms.items():
            if name not in placement.vms and vm.ended_s is None:
                self.rented_vms[name] = replace(vm, ended_s=at_s)
        return replace(placement, vms={name: self.rented_vms[name] for name in placement.vms})

    def _trace(self, traces: Sequence[Sequence[float]]) -> Sequence[float]:
        if not traces:
            return ()
        trace = traces[self._rng.integers(len(traces))]
        if not self._cloud.same_time:
            trace = np.roll(trace, -self._rng.integers(len(trace)))
        return recorded(trace, self._steps, samples_a_step=self._cloud.samples_a_step)

    def speeds(self, placement: ElasticPlacement, at: int) -> dict[str, float]:
        """The speed of the cores of each machine in a step: of one that starts, for the part in which it works."""
        ends_s = (at + 1) * self._step_s
        return {
            name: self.speed(name, at) * min(
                1.0, max(0.0, (ends_s - vm.begun_s - self._cloud.starts_s) / self._step_s))
            for name, vm in placement.vms.items()}

    def speed(self, name: str, at: int) -> float:
        """The speed of the cores of a machine in a step, once it has started."""
        trace = self._traces[name]
        return self.rented_vms[name].kind.speed * (float(trace[at]) if len(trace) else 1.0)

    def bandwidths(self, placement: ElasticPlacement, at: int) -> dict[str, float]:
        """Bytes a second of each machine in a step, where they vary."""
        return {name: vm.kind.bytes_per_s * float(self._network[name][at])
                for name, vm in placement.vms.items() if len(self._network[name])}


@dataclass(frozen=True)
class _Future:
    """The future from a step on."""

    rates: Mapping[str, Sequence[float]]
    machines: _Machines
    at: int

    def _steps(self, steps: int, of: int) -> list[int]:
        return [min(self.at + ahead, of - 1) for ahead in range(steps)]

    def rates_to_come(self, steps: int) -> dict[str, Rates]:
        return {source: np.array([rates[at] for at in self._steps(steps, len(rates))])
                for source, rates in self.rates.items()}

    def speeds_to_come(self, steps: int) -> dict[str, Rates]:
        some = next(iter(self.rates.values()))
        return {name: np.array([self.machines.speed(name, at) for at in self._steps(steps, len(some))])
                for name, vm in self.machines.rented_vms.items() if vm.ended_s is None}
