"""Scheduling (paper [2]): rate → allocation → mapping → machines → prediction → price, for one pair or all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from .allocation.acquisition import NANO, Acquisition, acquisition_of, cheapest_machines
from .allocation.allocation_registry import ALLOCATIONS
from .key_division import divisible_by_key, one_thread_a_slot
from .mapping.mapping_registry import MAPPINGS
from .mapping.traffic import Streams, between_nodes_per_s, on_other_slots
from .model.allocated import Allocation
from .model.checks import FiniteFigures
from .model.columns import ColumnsOf
from .model.costs import DECLARED as DECLARED_COSTS
from .model.costs import Costs
from .model.dataflow import Dataflow
from .model.errors import InvalidResources, RateNotHeld, WeirError
from .model.key_loads import DividedKeys
from .model.placement import Placement
from .model.profile import Profile, Profiles
from .model.resources import Supply
from .model.task_types import TaskType, TaskTypes
from .pairs import PAIRS, Pair, keeps_together
from .performance.declared import declared_profile
from .performance.prediction import Prediction, latency_s, predict
from .performance.rates import input_rates_per_s, selectivities
from .performance.routing import Routing

Arrange = Callable[[Placement, Streams], Placement]  # to other slots than those that it was mapped on


@dataclass(frozen=True)
class Job(FiniteFigures):
    """A job to schedule: a dataflow's tasks with their rates, streams and profiles.

    Each ``one_slot`` task has all its threads on one slot. A ``one_thread`` task is one of these, with one thread. A
    ``by_key`` task has one thread on each of its slots, and each has some of its keys; ``keys`` says of those that run
    how they are divided now.
    """

    dataflow: Dataflow
    rate_per_s: float  # Ω, of each source, where it was given; else of all sources together
    rates_per_s: Mapping[str, float]  # input rate of each task that is to be scheduled, upstream first
    streams: Streams  # between them
    profiles: Mapping[str, Profile]
    one_slot: frozenset[str] = frozenset()
    one_thread: frozenset[str] = frozenset()
    by_key: frozenset[str] = frozenset()
    sources: int = 1  # as many as ``rate_per_s`` is of each
    keys: Mapping[str, DividedKeys] = field(default_factory=dict)


@dataclass(frozen=True)
class SchedulingOptions(FiniteFigures):
    """The options that all schedules of a comparison share: routing, times for the latency estimate, the solver's
    effort.

    More than ``most_threads`` are not mapped: who asks for a rate that takes millions is answered at once. As many as
    the default are mapped within seconds. New ``machines`` are bought by the paper's rule (``published``), or the
    cheapest that have the slots, where these cost less.
    """

    routing: Routing = "slot_aware"
    trigger_s: float = 0.5
    hop_s: float = 0.05
    effort: float = 0.5
    most_threads: int = 100_000
    machines: Literal["cheapest", "published"] = "cheapest"


DEFAULTS = SchedulingOptions()


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
    options: SchedulingOptions = DEFAULTS
    published_acquisition: Acquisition | None = None  # by the paper's rule, where that is dearer

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
    dataflow: Dataflow, *, task_types: TaskTypes, profiles: Profiles, rate_per_s: float | None = None,
    measured: Mapping[tuple[str, str], float] | None = None, among: Collection[str] | None = None,
    trigger_s: float = 0.5, costs: Costs = DECLARED_COSTS, keys: Mapping[str, DividedKeys] = MappingProxyType({}),
    columns_of: ColumnsOf | None = None,
) -> Job:
    """Rates, streams and profiles of a dataflow that is to be scheduled.

    Events keep their order within a bundle, not between bundles. So only tasks without state that no task with state is
    downstream of are divided over slots, and neither sources nor named outputs and files. Of tasks with state, whose
    state is one query's, those are divided whose results follow by key (`divisible_by_key`); others have one thread.

    Parameters
    ----------
    profiles : Profiles
        The measured profiles. A source or sink that was not gets one thread with the share that its type declares.
    rate_per_s : float, optional
        Ω, the rate of every source; without it each has its own.
    measured : mapping, optional
        Selectivities as measured, by (source, target), in place of declared ones.
    among : collection of str, optional
        Only these tasks are to be scheduled: the others run already, or are another's.
    costs : Costs, optional
        The costs that were learned of sources and sinks on this class of machine, for those without a profile.
    keys : mapping of str to DividedKeys, optional
        The ranges of tasks that run divided by key, and the distribution of their events over keys. Without it, ranges
        are of one size for bundles that sustain as much.
    columns_of : callable, optional
        The columns that a task gives. Without it no task is divided that brings several streams together.

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
    by_key = divisible_by_key(dataflow, types, columns_of)
    one_slot, one_thread = _undivided(dataflow, types, by_key)
    return Job(
        dataflow, sum(sources) if rate_per_s is None else rate_per_s,
        {task_id: rate for task_id, rate in rates.items() if task_id in ours},
        {(source, target): rates[source] * part for (source, target), part in of_stream.items()
         if source in ours and target in ours},
        {task_id: profile.of_one_thread if task_id in by_key else profile for task_id, profile in _profiles(
            dataflow, profiles, types, rates, ours, trigger_s=trigger_s, costs=costs).items()},
        one_slot=one_slot & ours, one_thread=one_thread & ours, by_key=by_key & ours,
        sources=1 if rate_per_s is None else len(sources), keys=keys,
    )


def _undivided(
    dataflow: Dataflow, types: Mapping[str, TaskType], by_key: Collection[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """The tasks that keep all threads on one slot, and those of them with a single thread."""
    one_thread = frozenset(
        task_id for task_id, task_type in types.items() if task_id not in by_key
        and (task_type.stateful or task_type.kind == "source" or task_type.terminal is not None))
    parents = dataflow.parents()
    # Upstream from the tasks with state, each task once.
    one_slot, waiting = set(one_thread), [task_id for task_id, task_type in types.items() if task_type.stateful]
    visited = set(waiting)
    while waiting:
        for parent in parents[waiting.pop()]:
            if parent not in by_key:  # what is has all that is ordered downstream of it keep to its key
                one_slot.add(parent)
            if parent not in visited:
                visited.add(parent)
                waiting.append(parent)
    return frozenset(one_slot), one_thread


def _profiles(
    dataflow: Dataflow, profiles: Profiles, types: Mapping[str, TaskType], rates: Mapping[str, float],
    ours: Collection[str], *, trigger_s: float, costs: Costs,
) -> Mapping[str, Profile]:
    """The profile of each task: measured, or of sources and sinks what was learned of them, or their types declare."""
    tasks = [task for task in dataflow.tasks if task.id in ours]
    ends = [task for task in tasks if types[task.id].kind in ("source", "sink") and profiles.find(task) is None]
    declared = {
        task.id: declared_profile(types[task.id], rate_per_s=rates[task.id], trigger_s=trigger_s, costs=costs)
        for task in ends}
    return profiles.of(task for task in tasks if task.id not in declared) | declared


def schedule(
    job: Job, pair: Pair, *, supply: Supply, options: SchedulingOptions = DEFAULTS, arrange: Arrange | None = None
) -> Schedule:
    """Allocate, map, acquire, predict and price.

    Parameters
    ----------
    arrange : callable, optional
        Puts the mapping's places on other slots of the supply, as a `assignment.SlotAssigner` does.
    """
    return _complete(job, pair, allocate(job, pair), supply=supply, options=options, arrange=arrange)


def compare(
    job: Job, *, supply: Supply, pairs: Iterable[Pair] = PAIRS, options: SchedulingOptions = DEFAULTS,
    arrange: Arrange | None = None,
) -> Comparison:
    """A schedule for each pair of allocation and mapping; what has none says why.

    Parameters
    ----------
    job : Job
        Dataflow, rates and profiles: what is to be scheduled.
    supply : Supply
        Free slots, what others leave of used ones, and machines to buy.
    arrange : Arrange, optional
        Assigns a schedule's slots to physical ones; without it they stay as they were mapped.
    """
    allocations: dict[tuple[str, bool], Allocation | WeirError] = {}  # each is computed once
    schedules, errors = [], {}
    for pair in pairs:
        key = pair[0], keeps_together(pair)
        try:
            if key not in allocations:
                allocations[key] = _or_error(job, pair)
            allocation = allocations[key]
            if isinstance(allocation, WeirError):
                raise allocation
            schedules.append(_complete(job, pair, allocation, supply=supply, options=options, arrange=arrange))
        except WeirError as error:
            errors[pair] = error
    return Comparison(tuple(schedules), errors)


def allocate(job: Job, pair: Pair) -> Allocation:
    """The allocation of a pair: with bundles of several threads only where the mapping keeps them together."""
    kind = ALLOCATIONS[pair[0]]
    if keeps_together(pair):
        return kind.allocate(job.rates_per_s, job.profiles, one_thread=job.one_thread, one_slot=job.one_slot)
    # Threads are placed one by one: what has to be on one slot has one.
    return kind.allocate(job.rates_per_s, job.profiles, one_thread=job.one_slot)


def _or_error(job: Job, pair: Pair) -> Allocation | WeirError:
    try:
        return allocate(job, pair)
    except WeirError as error:
        return error


def _map(job: Job, pair: Pair, allocation: Allocation, *, supply: Supply, effort: float) -> Placement:
    return MAPPINGS[pair[1]].map(
        allocation, supply=supply, streams=job.streams, effort=ALLOCATIONS[pair[0]].solver_share * effort)


def _complete(
    job: Job, pair: Pair, allocation: Allocation, *, supply: Supply, options: SchedulingOptions,
    arrange: Arrange | None = None,
) -> Schedule:
    if allocation.threads > options.most_threads:
        raise RateNotHeld(
            f"{job.rate_per_s:g} events/s take {allocation.threads:,} threads by {pair[0]}, and at most "
            f"{options.most_threads:,} are scheduled here",
            remedy="Lower the rate.", rate_per_s=job.rate_per_s, threads=allocation.threads,
            most_threads=options.most_threads)
    placement = _map(job, pair, allocation, supply=supply, effort=options.effort)
    if (threads := one_thread_a_slot(placement.threads, job.by_key)) != placement.threads:
        placement = replace(placement, threads=threads, traffic_bound=None)
    if arrange is not None:  # before it is predicted: drivers of other nodes may have other threads
        placement = arrange(placement, job.streams)
    if options.machines == "cheapest":
        cheaper = _on_cheapest(job, pair, allocation, placement.in_use(), supply=supply, options=options)
        if cheaper is not None:
            return cheaper
    return predicted(job, pair, allocation, placement, supply=supply, options=options)


def _on_cheapest(
    job: Job, pair: Pair, allocation: Allocation, placement: Placement, *, supply: Supply, options: SchedulingOptions
) -> Schedule | None:
    """The schedule with the cheapest new machines; None where the paper's rule buys none or costs no more."""
    published = acquisition_of(placement.slots, supply=supply, empty=placement.empty)
    if supply.catalogue is None or not published.bought:
        return None
    bought = {node.name for node in published.bought}
    ordered_slots = [slot for slot in (*placement.slots, *placement.empty) if slot.node in bought]
    machines = cheapest_machines(len(ordered_slots), supply.catalogue.sizes)
    if sum(size.hour for size in machines) > sum(node.size.hour for node in published.bought if node.size) - 1 / NANO:
        return None
    supply = replace(supply, machines=machines)
    # Slots are alike, on whatever machine, unless those of a node lend each other.
    new = dict(zip(ordered_slots, supply.bought(), strict=False))
    new_placement = on_other_slots(placement, [new.get(slot, slot) for slot in placement.slots], job.streams)
    new_placement = replace(new_placement, empty=tuple(new.get(slot, slot) for slot in placement.empty))
    nodes_hold = MAPPINGS[pair[1]].nodes_hold
    if nodes_hold is not None and not nodes_hold(new_placement, allocation):
        return None
    cheaper = predicted(job, pair, allocation, new_placement, supply=supply, options=options)
    if cheaper.acquisition.per_hour > published.per_hour - 1 / NANO:
        return None
    return replace(cheaper, published_acquisition=published)


def predicted(
    job: Job, pair: Pair, allocation: Allocation, placement: Placement, *, supply: Supply, options: SchedulingOptions
) -> Schedule:
    """Prediction for a placement, and the price of those of its slots that hold something; all are of the supply."""
    placement = placement.in_use()
    prediction = predict(
        placement, job.profiles, rates_per_s=job.rates_per_s, routing=options.routing, allocation=allocation,
        threads=supply.threads)
    crossing_per_s = between_nodes_per_s(placement, job.streams, prediction.routed.shares)
    return Schedule(
        pair, job.rate_per_s, allocation, placement,
        acquisition_of(placement.slots, supply=supply, empty=placement.empty), prediction,
        crossing_per_s * min(1.0, prediction.factor),
        latency_s(job.dataflow, prediction, trigger_s=options.trigger_s, hop_s=options.hop_s), job, options,
    )
