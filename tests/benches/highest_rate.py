"""The reverse question: the highest rate that a number of slots is enough for (paper [2], 8.5)."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.model.errors import InsufficientSlots, InvalidResources, RateNotHeld
from scheduler.model.resources import Supply
from scheduler.pairs import Pair
from scheduler.scheduling import DEFAULTS, Job, Schedule, SchedulingOptions, allocate, schedule

MOST_PER_S = 1e9  # what nothing limits up to here, nothing limits


def highest_rate(
    job_at: Callable[[float], Job], pair: Pair, *, supply: Supply, slots: int, step_per_s: float,
    options: SchedulingOptions = DEFAULTS,
) -> Schedule | None:
    """The schedule for the highest rate, in whole steps, for which a number of slots is enough.

    Enough is what its mapping asks for, though some of it may hold nothing in the end. The slots that a mapping needs
    may fall as the rate grows: a measured number of threads may take less CPU than a smaller one does at its peak. So
    the search begins at a rate beyond which no rate fits, and goes down step by step. Whatever fills a slot alone does
    not shrink as the rate grows, and each task has at most one bundle besides: a rate whose allocation asks for more
    slots than there are by more than the number of its tasks is such a rate.

    Parameters
    ----------
    job_at : callable
        The job at a rate of the sources, in events/s.
    pair : Pair
        Of allocation and mapping.
    supply : Supply
        Where slots come from; others have no part of them.
    slots : int
        At least one.
    step_per_s : float
        Above 0, in events/s.
    options : SchedulingOptions
        What the schedules have in common.

    Returns
    -------
    Schedule or None
        None where the slots are not enough for the first step.

    Raises
    ------
    InvalidResources
        No slots or steps; or no rate is too high, for every task does at any.
    """
    if slots < 1 or not step_per_s > 0:
        raise InvalidResources(
            f"{slots} slots and steps of {step_per_s:g} events/s hold no rate",
            remedy="Give at least one slot, and steps above 0.", slots=slots, step_per_s=step_per_s,
        )

    def slots_beyond(steps: int) -> float:
        """Slots that are allocated at a rate beyond those that the tasks' last bundles may take; many if none hold."""
        try:
            allocation = allocate(job_at(steps * step_per_s), pair)
        except RateNotHeld:
            return slots + 1
        return allocation.slots - len(allocation.tasks)

    low, high = 0, 1
    while slots_beyond(high) <= slots:
        if high * step_per_s > MOST_PER_S:
            raise InvalidResources("No rate is too high for the schedule", remedy="Give its tasks profiles.")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if slots_beyond(middle) <= slots else (low, middle)
    for steps in range(high - 1, 0, -1):
        job = job_at(steps * step_per_s)
        try:
            if allocate(job, pair).slots > slots:  # no mapping does with fewer
                continue
            scheduled = schedule(job, pair, supply=supply, options=options)
        except (InsufficientSlots, RateNotHeld):
            continue
        if scheduled.placement.needed <= slots:
            return scheduled
    return None
