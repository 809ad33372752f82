"""Scheduling (paper [2]): rate → allocation → mapping → machines → prediction → price, for one pair or all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import inf
from typing import Literal, get_args

from .allocation.acquisition import Acquisition, acquisition_of
from .allocation.lsa import allocate_lsa
from .allocation.mba import allocate_mba
from .mapping.dsm import map_dsm
from .mapping.rsm import map_rsm
from .mapping.sam import map_sam
from .mapping.traffic import Streams, between_nodes_per_s
from .model.allocation import Allocation
from .model.dataflow import Dataflow
from .model.errors import InvalidResources, RateNotHeld, WeirError
from .model.placement import Placement
from .model.profile import Profile, Profiles
from .model.resources import Supply
from .model.task_types import TaskType, TaskTypes
from .performance.declared import declared_profile
from .performance.prediction import Prediction, latency_s, predict
from .performance.rates import input_rates_per_s, selectivities
from .performance.routing import Routing

AllocationName = Literal["LSA", "MBA"]
MappingName = Literal["DSM", "RSM", "SAM", "exact"]
Pair = tuple[AllocationName, MappingName]
PAIRS: tuple[Pair, ...] = tuple(product(get_args(AllocationName), get_args(MappingName)))
# The paper has these; SAM of LSA's single threads, and the exact mapping, are ours.
PAPER_PAIRS: tuple[Pair, ...] = tuple(pair for pair in PAIRS if pair[1] != "exact" and pair != ("LSA", "SAM"))
Arrange = Callable[[Placement, Streams], Placement]  # to other slots than those that it was mapped on
# Of the solver's effort, for LSA's threads: they are many and alike, and more of it was seen to prove no more.
OF_SINGLE_THREADS = 0.2


@dataclass(frozen=True)
class Job:
    """What is to be scheduled: a dataflow's tasks with their rates, streams and profiles.

    Of the ``whole`` tasks all threads are on one slot, and the ``serial`` ones among them have one thread.
    """

    dataflow: Dataflow
    rate_per_s: float  # Ω, of each source, where it was given; else of all sources together
    rates_per_s: Mapping[str, float]  # input rate of each task that is to be scheduled, upstream first
    streams: Streams  # between them
    profiles: Mapping[str, Profile]
    whole: frozenset[str] = frozenset()
    serial: frozenset[str] = frozenset()
    sources: int = 1  # as many as ``rate_per_s`` is of each


@dataclass(frozen=True)
class Settings:
    """What schedules of one comparison have in common: routing, times for the latency estimate, the solver's effort.

    More than ``most_threads`` are not mapped: who asks for a rate that takes millions is answered at once.
    """

    routing: Routing = "slot_aware"
    trigger_s: float = 0.5
    hop_s: float = 0.05
    effort: float = 0.5
    most_threads: float = inf


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
    between_nodes_per_s: float  # events/s that cross from one node to another, as routed, at the rate that is kept
    latency_s: float  # an estimate
    job: Job = field(repr=False)  # what it is a schedule of
    settings: Settings = DEFAULTS

    @property
    def slots(self) -> int:
        """All slots that it takes: those that hold something."""
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
    among: Collection[str] | None = None,
    trigger_s: float = 0.5,
) -> Job:
    """Rates, streams and profiles of a dataflow that is to be scheduled.

    Events keep their order within a bundle, not between bundles. So only tasks without state that no task with state is
    downstream of are divided over slots, and neither sources nor named outputs and files. Tasks with state have one
    thread: their state is one query's.

    Parameters
    ----------
    dataflow : Dataflow
        Valid.
    task_types : TaskTypes
        Declarations of all its types.
    profiles : Profiles
        What was measured. A source or sink that was not gets one thread with the share that its type declares.
    rate_per_s : float, optional
        Ω, the rate of every source; without it each has its own.
    measured : mapping, optional
        Selectivities as measured, by (source, target), in place of declared ones.
    among : collection of str, optional
        Only these tasks are to be scheduled: the others run already, or are another's.
    trigger_s : float
        Time between two batches, for declared shares.

    Raises
    ------
    MissingProfile
        A task has none and is neither source nor sink; all such tasks are named.
    InvalidResources
        The rate is none.
    RateNotHeld
        A source or sink has more events than a slot holds by what its type declares.
    """
    if rate_per_s is not None and not 0 < rate_per_s < float("inf"):
        raise InvalidResources(
            f"The dataflow is to run at {rate_per_s:g} events/s", remedy="Give a rate above 0.", rate_per_s=rate_per_s)
    rates = input_rates_per_s(dataflow, task_types=task_types, source_rate=rate_per_s, measured=measured)
    of_stream = selectivities(dataflow, task_types=task_types, measured=measured)
    types = {task.id: task_types[task.type] for task in dataflow.tasks}
    sources = [rates[task_id] for task_id, task_type in types.items() if task_type.kind == "source"]
    ours = frozenset(types if among is None else among)
    whole, alone = _undivided(dataflow, types)
    return Job(
        dataflow, sum(sources) if rate_per_s is None else rate_per_s,
        {task_id: rate for task_id, rate in rates.items() if task_id in ours},
        {(source, target): rates[source] * part for (source, target), part in of_stream.items()
         if source in ours and target in ours},
        _profiles(dataflow, profiles, types, rates, ours, trigger_s=trigger_s),
        whole=whole & ours, serial=alone & ours,
        sources=1 if rate_per_s is None else len(sources),
    )


def _undivided(dataflow: Dataflow, types: Mapping[str, TaskType]) -> tuple[frozenset[str], frozenset[str]]:
    """The tasks whose threads are on one slot, and those of them that have one thread."""
    serial = frozenset(
        task_id for task_id, its in types.items() if its.stateful or its.kind == "source" or its.terminal is not None)
    parents = dataflow.parents()
    whole, waiting = set(serial), [task_id for task_id, its in types.items() if its.stateful]
    seen = set(waiting)
    while waiting:
        for parent in parents[waiting.pop()]:
            whole.add(parent)
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return frozenset(whole), serial


def _profiles(
    dataflow: Dataflow, profiles: Profiles, types: Mapping[str, TaskType], rates: Mapping[str, float],
    ours: Collection[str], *, trigger_s: float,
) -> Mapping[str, Profile]:
    """The profile of each task: measured, or of sources and sinks what their types declare."""
    tasks = [task for task in dataflow.tasks if task.id in ours]
    ends = [task for task in tasks if types[task.id].kind in ("source", "sink") and profiles.find(task) is None]
    declared = {
        task.id: declared_profile(types[task.id], rate_per_s=rates[task.id], trigger_s=trigger_s) for task in ends}
    return profiles.of(task for task in tasks if task.id not in declared) | declared


def schedule(
    job: Job, pair: Pair, *, supply: Supply, settings: Settings = DEFAULTS, arrange: Arrange | None = None
) -> Schedule:
    """Allocate, map, acquire, predict and price.

    Parameters
    ----------
    job : Job
        From `prepare`.
    pair : Pair
        Of allocation and mapping.
    supply : Supply
        Where slots come from.
    settings : Settings
        What schedules of one comparison have in common.
    arrange : callable, optional
        Puts the mapping's places on other slots of the supply, as a `settling.Settler` does.

    Raises
    ------
    RateNotHeld, MissingProfile, InsufficientSlots
        As the parts do: nothing comes of the pair then.
    """
    return _complete(job, pair, _allocate(job, pair), supply=supply, settings=settings, arrange=arrange)


def compare(
    job: Job, *, supply: Supply, pairs: Iterable[Pair] = PAIRS, settings: Settings = DEFAULTS,
    arrange: Arrange | None = None,
) -> Comparison:
    """A schedule for each pair of allocation and mapping; what has none says why."""
    allocations: dict[tuple[AllocationName, bool], Allocation | WeirError] = {}  # each is computed once
    schedules, errors = [], {}
    for pair in pairs:
        alike = pair[0], _keeps_together(pair)
        try:
            if alike not in allocations:
                allocations[alike] = _or_error(job, pair)
            allocation = allocations[alike]
            if isinstance(allocation, WeirError):
                raise allocation
            schedules.append(_complete(job, pair, allocation, supply=supply, settings=settings, arrange=arrange))
        except WeirError as error:
            errors[pair] = error
    return Comparison(tuple(schedules), errors)


def _keeps_together(pair: Pair) -> bool:
    """Only MBA's bundles are kept together, and only by SAM and our own: elsewhere what is whole has one thread."""
    return pair[0] == "MBA" and pair[1] in ("SAM", "exact")


def _allocate(job: Job, pair: Pair) -> Allocation:
    if pair[0] == "LSA":
        return allocate_lsa(job.rates_per_s, job.profiles, whole=job.whole)
    if _keeps_together(pair):
        return allocate_mba(job.rates_per_s, job.profiles, whole=job.serial, together=job.whole)
    return allocate_mba(job.rates_per_s, job.profiles, whole=job.whole)


def _or_error(job: Job, pair: Pair) -> Allocation | WeirError:
    try:
        return _allocate(job, pair)
    except WeirError as error:
        return error


def _map(job: Job, pair: Pair, allocation: Allocation, *, supply: Supply, effort: float) -> Placement:
    if pair[1] == "exact":
        # Here, not above: the solver takes a second to import, and only these pairs need it.
        from .mapping.exact import map_exact

        part = OF_SINGLE_THREADS if pair[0] == "LSA" else 1.0
        return map_exact(allocation, supply=supply, streams=job.streams, effort=part * effort)
    return {"DSM": map_dsm, "RSM": map_rsm, "SAM": map_sam}[pair[1]](allocation, supply=supply)


def _complete(
    job: Job, pair: Pair, allocation: Allocation, *, supply: Supply, settings: Settings, arrange: Arrange | None = None
) -> Schedule:
    if allocation.threads > settings.most_threads:
        raise RateNotHeld(
            f"{job.rate_per_s:g} events/s take {allocation.threads:,} threads by {pair[0]}, and at most "
            f"{settings.most_threads:,} are scheduled here",
            remedy="Lower the rate.", rate_per_s=job.rate_per_s, threads=allocation.threads,
            most_threads=settings.most_threads)
    placement = _map(job, pair, allocation, supply=supply, effort=settings.effort)
    if arrange is not None:  # before it is predicted: drivers of other nodes may have other threads
        placement = arrange(placement, job.streams)
    return predicted(job, pair, allocation, placement, supply=supply, settings=settings)


def predicted(
    job: Job, pair: Pair, allocation: Allocation, placement: Placement, *, supply: Supply, settings: Settings
) -> Schedule:
    """What a placement will do, and what those of its slots cost that hold something; all are of the supply."""
    placement = placement.in_use()
    prediction = predict(
        placement, job.profiles, rates_per_s=job.rates_per_s, routing=settings.routing, allocation=allocation,
        threads=supply.threads)
    crossing_per_s = between_nodes_per_s(placement, job.streams, prediction.routed.shares)
    return Schedule(
        pair, job.rate_per_s, allocation, placement,
        acquisition_of(placement.slots, supply=supply, empty=placement.empty), prediction,
        crossing_per_s * min(1.0, prediction.factor),
        latency_s(job.dataflow, prediction, trigger_s=settings.trigger_s, hop_s=settings.hop_s), job, settings,
    )
