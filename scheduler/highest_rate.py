"""The reverse question: the highest rate that a number of slots is enough for (paper [2], 8.5)."""

from __future__ import annotations

from collections.abc import Callable

from .model.errors import InsufficientSlots, InvalidResources, RateNotHeld
from .scheduling import Schedule

MOST_PER_S = 1e9  # what nothing limits up to here, nothing limits


def highest_rate(scheduled: Callable[[float], Schedule], *, slots: int, step_per_s: float) -> Schedule | None:
    """The schedule for the highest rate, in whole steps, for which a number of slots is enough (paper [2], 8.5).

    Enough is what its mapping asks for, though some of it may hold nothing in the end: with fewer there is no schedule.

    The paper goes up step by step until it does not fit; here the steps double, and then the range is halved.

    Parameters
    ----------
    scheduled : callable
        The schedule at a rate; raises ``InsufficientSlots`` or ``RateNotHeld`` where there is none.
    slots : int
        At least one.
    step_per_s : float
        Above 0, in events/s.

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

    def at(steps: int) -> Schedule | None:
        try:
            found = scheduled(steps * step_per_s)
        except (InsufficientSlots, RateNotHeld):
            return None
        return found if found.placement.needed <= slots else None

    best, held, high = None, 0, 1
    while (found := at(high)) is not None:
        if high * step_per_s > MOST_PER_S:
            raise InvalidResources("No rate is too high for the schedule", remedy="Give its tasks profiles.")
        best, held, high = found, high, 2 * high
    while high - held > 1:
        middle = (held + high) // 2
        if (found := at(middle)) is None:
            high = middle
        else:
            best, held = found, middle
    return best
