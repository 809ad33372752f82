"""Profiles in the box: estimates for types that nobody has measured here, by which a first schedule can be planned.

Of a type that Weir was given out with, two short trials on another machine, told for a core of ``SPEED`` and then for
the cores here (`Point.at_speed`). Of any other what the type declares of an
event, times what types with trials took of that in the median, and of a batch. Neither is a
measurement: whoever plans with one is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from scheduler.model.costs import QUERY_BATCH_S, declared_batch_s
from scheduler.model.profile import LEAST_OFTEN, Point, Profile
from scheduler.model.task_types import TaskType

from .rates import MICROSECONDS_PER_S

SPEED = 25.0  # steps of a small loop in a microsecond of CPU, as `workers.engine.measuring.speed` looks at a core
MARGIN = 0.8  # of the rate that would fill a core: what follows from a line is taken to hold as far as this
BY_TRIALS, BY_DECLARATION = "estimated by trials elsewhere", "estimated by what the type declares"
ESTIMATES = frozenset({BY_TRIALS, BY_DECLARATION})
DECLARED_MEMORY = 0.05  # of a slot, a guess


def declared_point(task_type: TaskType, *, trigger_s: float, dearer: float = 1.0) -> Point:
    """One thread at its peak, by the declared cost of an event, so many times, and of a batch."""
    batches = _batches(task_type, trigger_s=trigger_s)
    events = MARGIN * (1.0 - LEAST_OFTEN * batches)
    rate_per_s = events * MICROSECONDS_PER_S / max(dearer * task_type.cost_us, 0.1)
    return Point(
        1, max(1.0, rate_per_s), min(1.0, events + LEAST_OFTEN * batches), DECLARED_MEMORY, batches, DECLARED_MEMORY,
        events)


def _batches(task_type: TaskType, *, trigger_s: float) -> float:
    """The share of a core that a query's batches take, as it is declared."""
    return min(0.95, (QUERY_BATCH_S + declared_batch_s(task_type)) / trigger_s)


def _with_batches(point: Point, batches: float) -> Point:
    """A point whose batches take what is declared at least: of some seconds without events little can be told."""
    idle = max(point.idle_cpu, batches)
    events = min(point.of_events, 1.0 - LEAST_OFTEN * idle)
    return replace(
        point, rate_per_s=point.rate_per_s * events / point.of_events if point.of_events else point.rate_per_s,
        cpu=min(1.0, events + LEAST_OFTEN * idle), idle_cpu=idle, event_cpu=events)


def dearer_than_declared(shipped: Iterable[Profile], task_types: Iterable[TaskType]) -> dict[bool, float]:
    """The median ratio of the measured to the declared cost of an event: of types without state, and of types with it.
    At least 1; of no type, 1."""
    by_name = {task_type.name: task_type for task_type in task_types}
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for profile in shipped:
        task_type = by_name.get(profile.task_type)
        if task_type is not None and task_type.cost_us > 0:
            took_us = MICROSECONDS_PER_S * profile.one_thread.of_events / profile.one_thread.rate_per_s
            ratios[task_type.stateful].append(took_us / task_type.cost_us)
    return {stateful: max(1.0, median(of_kind)) if of_kind else 1.0 for stateful, of_kind in ratios.items()}


def estimates(
    shipped: Iterable[Profile], task_types: Iterable[TaskType], *, known_types: Iterable[TaskType],
    speed: float | None, trigger_s: float
) -> list[Profile]:
    """A profile for any config of each of these types that is neither source nor sink.

    Parameters
    ----------
    shipped : iterable of Profile
        Those that come with Weir, for a core of ``SPEED``.
    known_types : iterable of TaskType
        All types, by which it is known how much dearer than declared those with trials were.
    speed : float or None
        Of the cores here; None where that is not known yet: then they are taken to be as fast as ``SPEED``.
    """
    shipped, task_types = tuple(shipped), tuple(task_types)
    by_type = {profile.task_type: profile for profile in shipped}
    dearer = dearer_than_declared(shipped, known_types)
    ratio = (speed or SPEED) / SPEED
    profiles = []
    for task_type in task_types:
        if task_type.kind != "transform":
            continue
        profile = by_type.get(task_type.name)
        if profile is None or profile.version != task_type.version:
            point = declared_point(task_type, trigger_s=trigger_s, dearer=dearer[task_type.stateful])
            points, origin = (point,), BY_DECLARATION
        else:
            points, origin = profile.points, BY_TRIALS
        batches = _batches(task_type, trigger_s=trigger_s)
        profiles.append(Profile(
            task_type.name, tuple(_with_batches(point, batches).at_speed(ratio) for point in points),
            version=task_type.version, origin=origin))
    return profiles
