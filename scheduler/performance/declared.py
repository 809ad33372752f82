"""Declared profiles: sources and sinks that nobody has measured, with what their types declare."""

from __future__ import annotations

from scheduler.model.costs import QUERY_BATCH_S, declared_batch_s
from scheduler.model.errors import RateNotHeld
from scheduler.model.profile import Point, Profile
from scheduler.model.resources import TOLERANCE
from scheduler.model.task_types import TaskType

from .rates import MICROSECONDS_PER_S

DECLARED = "declared"  # the origin of such a profile
DECLARED_MEMORY = 0.05  # of a slot: what a query keeps besides its events, a guess


def declared_profile(task_type: TaskType, *, rate_per_s: float, trigger_s: float) -> Profile:
    """One thread with a fixed share, as paper [2] (8.3) has it for sources and sinks.

    Its CPU is that of the rate at the declared cost of an event, and that of the batches of a query of its own.

    Raises
    ------
    RateNotHeld
        By what is declared a slot does not hold that rate.
    """
    batch_s = QUERY_BATCH_S + declared_batch_s(task_type)
    cpu = rate_per_s * task_type.cost_us / MICROSECONDS_PER_S + batch_s / trigger_s
    if cpu > 1 + TOLERANCE:
        left = max(0.0, 1 - batch_s / trigger_s)  # nothing where batches alone take more: events may cost nothing
        most_per_s = left / task_type.cost_us * MICROSECONDS_PER_S if left else 0.0
        raise RateNotHeld(
            f"No slot holds {rate_per_s:g} events/s of {task_type.name}: at the {task_type.cost_us:g} µs for an event "
            f"that it declares, and a batch every {trigger_s:g} s, one sustains {most_per_s:.0f}",
            remedy="Lower the rate, or measure the type.",
            task_type=task_type.name, rate_per_s=rate_per_s, peak_per_s=most_per_s, threads=1,
        )
    point = Point(1, max(rate_per_s, 1.0), min(cpu, 1.0), DECLARED_MEMORY)
    return Profile(task_type.name, (point,), version=task_type.version, static=True, origin=DECLARED)
