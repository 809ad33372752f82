"""Common parts of both allocations: checks, a rate divided into peaks and a rest, and tasks that have one thread."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from scheduler.model.allocated import Bundle, TaskAllocation
from scheduler.model.errors import InvalidResources, MissingProfile, RateNotHeld
from scheduler.model.profile import Profile
from scheduler.model.resources import TOLERANCE


def check(rates_per_s: Mapping[str, float], profiles: Mapping[str, Profile]) -> None:
    """Raise unless every rate is one and every task has a profile."""
    missing = sorted(set(rates_per_s) - set(profiles))
    if missing:
        raise MissingProfile(
            f"{len(missing)} of {len(rates_per_s)} tasks have no profile: {', '.join(missing[:10])}",
            remedy="Measure their types, or import profiles.", tasks=missing,
        )
    for task, rate in rates_per_s.items():
        if not 0 <= rate < math.inf:
            raise InvalidResources(
                f"Task {task} is to work at {rate:g} events/s", remedy="Give rates from 0.", task=task, rate_per_s=rate)


def divided(rate_per_s: float, peak_per_s: float) -> tuple[int, float]:
    """The number of whole peaks in a rate, and the remainder; what only rounding leaves is nothing."""
    times = math.floor(rate_per_s / peak_per_s * (1 + TOLERANCE))
    rest_per_s = rate_per_s - times * peak_per_s
    return times, rest_per_s if rest_per_s > rate_per_s * TOLERANCE else 0.0


def scaled_thread(task: str, profile: Profile, rate_per_s: float, *, reserved: bool) -> Bundle:
    """A bundle of one thread at no more than its peak rate, with the CPU and memory of that rate.

    Parameters
    ----------
    rate_per_s : float
        Events per second that it is to carry; the peak of one thread at most.
    reserved : bool
        True if the bundle has the CPU to reserve for it beside others (`Estimate.reserve_at`), not its usage.
    """
    estimate = profile.estimate(1)
    cpu = estimate.reserve_at(rate_per_s) if reserved else estimate.cpu_at(rate_per_s)
    return Bundle(task, 1, rate_per_s, cpu, estimate.memory_at(rate_per_s))


def undivided(
    task: str, profile: Profile, rate_per_s: float, *, one_thread: Collection[str], reserved: bool
) -> TaskAllocation | None:
    """The allocation of a task that has one thread; None where its threads follow from its rate.

    A static task takes its fixed share at any rate. A task without events keeps one thread, which takes nothing. The
    thread of a ``one_thread`` task has to sustain the whole rate.

    Parameters
    ----------
    reserved : bool
        True if to count the CPU that has to be there beside others (`Estimate.reserve_at`) instead of the mean load.
    """
    if profile.static:
        point = profile.one_thread
        return TaskAllocation(task, rate_per_s, (Bundle(task, 1, rate_per_s, point.cpu, point.memory),))
    if rate_per_s == 0:
        return TaskAllocation(task, 0.0, (Bundle(task, 1, 0.0, 0.0, 0.0),))
    if task not in one_thread:
        return None
    peak_per_s = profile.one_thread.rate_per_s
    if rate_per_s > peak_per_s * (1 + TOLERANCE):
        raise RateNotHeld(
            f"{rate_per_s:g} events/s are too many for task {task}: it cannot be divided, and one thread sustains "
            f"{peak_per_s:g}",
            remedy="Lower the rate, or thin the stream before this task.",
            task=task, rate_per_s=rate_per_s, peak_per_s=peak_per_s, threads=1,
        )
    return TaskAllocation(task, rate_per_s, (scaled_thread(task, profile, rate_per_s, reserved=reserved),))
