"""Linear Scaling Allocation (LSA): threads by what one of them sustains alone (paper [2], Algorithm 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scheduler.model.allocated import Allocation, Bundle, TaskAllocation
from scheduler.model.profile import Profile

from .allocation_parts import check, divided, scaled_thread, undivided


def allocate_lsa(
    rates_per_s: Mapping[str, float], profiles: Mapping[str, Profile], *, one_thread: Collection[str] = ()
) -> Allocation:
    """Linear Scaling Allocation (LSA): rate, CPU and memory are taken to grow in proportion to the threads.

    Every thread is a bundle of its own, since in this view it makes no difference which slot it shares with which.

    Parameters
    ----------
    rates_per_s : mapping of str to float
        Each task's input rate, upstream tasks first, as `input_rates_per_s` has them.
    one_thread : collection of str
        Tasks that may not be divided over threads (they have state, or the order of their events counts).

    Returns
    -------
    Allocation
        Threads, CPU and memory of each task; a last thread below its peak takes its part of both.

    Raises
    ------
    MissingProfile
        A task has no profile, or its one thread was not measured.
    RateNotHeld
        A task that may not be divided has more events than a thread sustains.
    InvalidResources
        A rate is no rate.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, Algorithm 2.
    """
    check(rates_per_s, profiles)
    tasks = {}
    for task, rate_per_s in rates_per_s.items():
        profile = profiles[task]
        tasks[task] = (
            undivided(task, profile, rate_per_s, one_thread=one_thread, reserved=False)
            or _linear(task, profile, rate_per_s))
    return Allocation("LSA", tasks)


def _linear(task: str, profile: Profile, rate_per_s: float) -> TaskAllocation:
    point = profile.one_thread
    times, rest_per_s = divided(rate_per_s, point.rate_per_s)
    bundles = []
    if times:
        bundles.append(Bundle(task, 1, point.rate_per_s, point.cpu, point.memory, count=times))
    if rest_per_s:
        bundles.append(scaled_thread(task, profile, rest_per_s, reserved=False))
    return TaskAllocation(task, rate_per_s, tuple(bundles))
