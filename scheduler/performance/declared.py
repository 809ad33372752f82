"""Declared profiles: sources and sinks of which nobody has measured a profile, with what their types declare, or what
such tasks were seen to take where they ran."""

from __future__ import annotations

from scheduler.model.costs import DECLARED as AS_DECLARED
from scheduler.model.costs import Costs
from scheduler.model.errors import RateNotHeld
from scheduler.model.profile import Point, Profile
from scheduler.model.resources import TOLERANCE
from scheduler.model.task_types import TaskType

from .rates import MICROSECONDS_PER_S

DECLARED, LEARNED = "declared", "learned"  # the origin of such a profile
WITHOUT_TRIALS = frozenset({DECLARED, LEARNED})  # origins of profiles that no trial was made for
DECLARED_MEMORY = 0.05  # of a slot: what a query keeps besides its events, a guess


def declared_profile(
    task_type: TaskType, *, rate_per_s: float, trigger_s: float, costs: Costs = AS_DECLARED
) -> Profile:
    """One thread with a fixed share, as paper [2] (8.3) has it for sources and sinks.

    Its CPU is that of the rate at the cost of an event, and that of the batches of a query of its own.

    Parameters
    ----------
    rate_per_s : float
        Events per second that it makes or takes.
    costs : Costs, optional
        The costs that were learned on this class of machine; what is declared without it, and for types that did not
        run.

    Raises
    ------
    RateNotHeld
        By these costs a slot does not hold that rate.
    """
    event_us = costs.task_event_us(task_type)
    batch_s = costs.query_batch_s + costs.task_batch_s(task_type)
    cpu = rate_per_s * event_us / MICROSECONDS_PER_S + batch_s / trigger_s
    learned = task_type.name in costs.batch_s
    if cpu > 1 + TOLERANCE:
        free_share = max(0.0, 1 - batch_s / trigger_s)  # nothing where batches alone take more: events may cost nothing
        most_per_s = free_share / event_us * MICROSECONDS_PER_S if free_share else 0.0
        raise RateNotHeld(
            f"No slot holds {rate_per_s:g} events/s of {task_type.name}: at the {event_us:g} µs for an event "
            f"that it {'was seen to take' if learned else 'declares'}, and a batch every {trigger_s:g} s, one sustains "
            f"{most_per_s:.0f}",
            remedy="Lower the rate, or measure the type.",
            task_type=task_type.name, rate_per_s=rate_per_s, peak_per_s=most_per_s, threads=1,
        )
    point = Point(1, max(rate_per_s, 1.0), min(cpu, 1.0), DECLARED_MEMORY)
    return Profile(
        task_type.name, (point,), version=task_type.version, static=True,
        origin=LEARNED if learned else DECLARED)
