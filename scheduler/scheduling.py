"""Scheduling (paper [2]): rate → allocation → mapping → machines → prediction → price, for one pair or all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from .allocation.acquisition import Acquisition, acquire
from .allocation.lsa import allocate_lsa
from .allocation.mba import allocate_mba
from .mapping.dsm import map_dsm
from .mapping.rsm import map_rsm
from .mapping.sam import map_sam
from .mapping.traffic import Streams, between_nodes_per_s
from .model.allocation import Allocation
from .model.dataflow import Dataflow
from .model.errors import InvalidResources, WeirError
from .model.placement import Placement
from .model.profile import Profile, Profiles
from .model.resources import Supply
from .model.task_types import TaskTypes
from .performance.prediction import Prediction, latency_s, predict
from .performance.rates import input_rates_per_s, selectivities
from .performance.routing import Routing

AllocationName = Literal["LSA", "MBA"]
MappingName = Literal["DSM", "RSM", "SAM", "exact"]
Pair = tuple[AllocationName, MappingName]
# Those of the paper, and ours. LSA knows nothing of bundles, so SAM has nothing to do for it that RSM has not.
PAIRS: tuple[Pair, ...] = (
    ("LSA", "DSM"), ("LSA", "RSM"), ("MBA", "DSM"), ("MBA", "RSM"), ("MBA", "SAM"), ("MBA", "exact"))


@dataclass(frozen=True)
class Job:
    """What is to be scheduled: a dataflow's tasks with their rates, streams and profiles."""

    dataflow: Dataflow
    rate_per_s: float  # of all sources together (Ω at each, where it was given)
    rates_per_s: Mapping[str, float]  # each task's input rate, upstream first
    streams: Streams
    profiles: Mapping[str, Profile]
    whole: frozenset[str] = frozenset()  # tasks that may not be divided


@dataclass(frozen=True)
class Settings:
    """What schedules of one comparison have in common: routing, times for the latency estimate, the solver's effort."""

    routing: Routing = "slot_aware"
    trigger_s: float = 0.5
    hop_s: float = 0.05
    effort: float = 2.0


DEFAULTS = Settings()


@dataclass(frozen=True)
class Schedule:
    """One way to run a dataflow at a rate, with what it needs, costs and promises."""

    pair: Pair
    rate_per_s: float
    allocation: Allocation
    placement: Placement
    acquisition: Acquisition
    prediction: Prediction
    between_nodes_per_s: float  # events/s that cross from one node to another
    latency_s: float  # an estimate

    @property
    def slots(self) -> int:
        """All slots that it takes."""
        return len(self.placement.slots)

    @property
    def sustained_per_s(self) -> float:
        """The rate at the sources that it is predicted to sustain, in the terms of ``rate_per_s``."""
        return self.rate_per_s * self.prediction.factor


@dataclass(frozen=True)
class Comparison:
    """All pairs side by side; a pair that has no schedule has its error instead."""

    schedules: tuple[Schedule, ...]
    errors: Mapping[Pair, WeirError] = field(default_factory=dict)


def prepare(
    dataflow: Dataflow,
    *,
    task_types: TaskTypes,
    profiles: Profiles,
    rate_per_s: float | None = None,
    measured: Mapping[tuple[str, str], float] | None = None,
) -> Job:
    """Rates, streams and profiles of a dataflow that is to be scheduled.

    Parameters
    ----------
    dataflow : Dataflow
        Valid.
    task_types : TaskTypes
        Declarations of all its types: selectivities, and which have state without a key and so run undivided.
    profiles : Profiles
        What was measured.
    rate_per_s : float, optional
        Ω, the rate of every source; without it each has its own.
    measured : mapping, optional
        Selectivities as measured, by (source, target), in place of declared ones.

    Raises
    ------
    MissingProfile
        A task has none; all such tasks are named.
    InvalidResources
        The rate is none.
    """
    if rate_per_s is not None and not 0 < rate_per_s < float("inf"):
        raise InvalidResources(
            f"The dataflow is to run at {rate_per_s:g} events/s", remedy="Give a rate above 0.", rate_per_s=rate_per_s)
    rates = input_rates_per_s(dataflow, task_types=task_types, source_rate=rate_per_s, measured=measured)
    of_stream = selectivities(dataflow, task_types=task_types, measured=measured)
    types = {task.id: task_types[task.type] for task in dataflow.tasks}
    sources = [rates[task_id] for task_id, task_type in types.items() if task_type.kind == "source"]
    return Job(
        dataflow, sum(sources) if rate_per_s is None else rate_per_s, rates,
        {(source, target): rates[source] * part for (source, target), part in of_stream.items()},
        profiles.of(dataflow.tasks),
        frozenset(task_id for task_id, task_type in types.items() if task_type.stateful and task_type.key is None),
    )


def schedule(job: Job, pair: Pair, *, supply: Supply, settings: Settings = DEFAULTS) -> Schedule:
    """Allocate, map, acquire, predict and price.

    Raises
    ------
    RateNotHeld, MissingProfile, InsufficientSlots
        As the parts do: nothing comes of the pair then.
    """
    allocation = _allocate(job, pair[0])
    return _complete(job, pair, allocation, supply=supply, settings=settings)


def compare(
    job: Job, *, supply: Supply, pairs: Iterable[Pair] = PAIRS, settings: Settings = DEFAULTS
) -> Comparison:
    """A schedule for each pair of allocation and mapping; what has none says why."""
    allocations: dict[str, Allocation | WeirError] = {}
    schedules, errors = [], {}
    for pair in pairs:
        try:
            if pair[0] not in allocations:
                allocations[pair[0]] = _or_error(job, pair[0])
            allocation = allocations[pair[0]]
            if isinstance(allocation, WeirError):
                raise allocation
            schedules.append(_complete(job, pair, allocation, supply=supply, settings=settings))
        except WeirError as error:
            errors[pair] = error
    return Comparison(tuple(schedules), errors)


def highest_rate(
    dataflow: Dataflow, pair: Pair, *, slots: int, step_per_s: float, supply: Supply, task_types: TaskTypes,
    profiles: Profiles, settings: Settings = DEFAULTS,
) -> Schedule | None:
    """The schedule for the highest rate, in whole steps, up to which a number of slots is enough (paper [2], 8.5).

    None where they are not enough for the first step.
    """
    if slots < 1 or not step_per_s > 0:
        raise InvalidResources(
            f"{slots} slots and steps of {step_per_s:g} events/s hold no rate",
            remedy="Give at least one slot, and steps above 0.", slots=slots, step_per_s=step_per_s,
        )
    best, number = None, 1
    while True:
        job = prepare(dataflow, task_types=task_types, profiles=profiles, rate_per_s=number * step_per_s)
        allocation = _allocate(job, pair[0])
        if allocation.slots > slots:
            return best
        found = _complete(job, pair, allocation, supply=supply, settings=settings)
        if found.slots > slots:
            return best
        best, number = found, number + 1


def _allocate(job: Job, name: AllocationName) -> Allocation:
    allocate = {"LSA": allocate_lsa, "MBA": allocate_mba}[name]
    return allocate(job.rates_per_s, job.profiles, whole=job.whole)


def _or_error(job: Job, name: AllocationName) -> Allocation | WeirError:
    try:
        return _allocate(job, name)
    except WeirError as error:
        return error


def _map(job: Job, name: MappingName, allocation: Allocation, *, supply: Supply, effort: float) -> Placement:
    if name == "exact":
        # Here, not above: the solver takes a second to import, and only this pair needs it.
        from .mapping.exact import map_exact

        return map_exact(allocation, supply=supply, streams=job.streams, effort=effort)
    return {"DSM": map_dsm, "RSM": map_rsm, "SAM": map_sam}[name](allocation, supply=supply)


def _complete(job: Job, pair: Pair, allocation: Allocation, *, supply: Supply, settings: Settings) -> Schedule:
    placement = _map(job, pair[1], allocation, supply=supply, effort=settings.effort)
    prediction = predict(
        placement, job.profiles, rates_per_s=job.rates_per_s, routing=settings.routing, allocation=allocation)
    return Schedule(
        pair, job.rate_per_s, allocation, placement, acquire(len(placement.slots), supply=supply), prediction,
        between_nodes_per_s(placement, job.streams),
        latency_s(job.dataflow, prediction, trigger_s=settings.trigger_s, hop_s=settings.hop_s),
    )
