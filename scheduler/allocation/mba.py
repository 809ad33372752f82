"""Model-Based Allocation (MBA): threads in the bundles that a slot does best with (paper [2], Algorithm 3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scheduler.model.allocated import Allocation, Bundle, TaskAllocation
from scheduler.model.profile import Profile

from .allocation_parts import check, divided, scaled_thread, undivided


def allocate_mba(
    rates_per_s: Mapping[str, float], profiles: Mapping[str, Profile], *, one_thread: Collection[str] = (),
    one_slot: Collection[str] = (),
) -> Allocation:
    """Model-Based Allocation (MBA): threads and slots from measured profiles.

    Parameters
    ----------
    one_thread : collection of str
        Tasks that may not be divided over threads (they have state).
    one_slot : collection of str
        Tasks whose threads share one slot (the order of their events counts).

    Returns
    -------
    Allocation
        For each task full bundles, each of the threads that reach the highest peak rate and each counted as a whole
        slot; then, for what is left of the rate, the fewest measured threads that sustain it, with the CPU and memory
        measured for them, or, where that is one thread, its part of them. Beyond the paper: of a bundle that is known
        to wait the CPU that has to be there for it beside others, which is more (`Estimate.reserve_at`).

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, Algorithm 3.
    """
    check(rates_per_s, profiles)
    tasks = {}
    for task, rate_per_s in rates_per_s.items():
        profile = profiles[task]
        single = undivided(task, profile, rate_per_s, one_thread=one_thread, reserved=True)
        if single is None and task in one_slot:
            profile.adequate(rate_per_s)  # or it is not held
        tasks[task] = single or _in_bundles(task, profile, rate_per_s)
    return Allocation("MBA", tasks)


def _in_bundles(task: str, profile: Profile, rate_per_s: float) -> TaskAllocation:
    peak = profile.peak
    times, rest_per_s = divided(rate_per_s, peak.rate_per_s)
    bundles = []
    if times:
        bundles.append(Bundle(task, peak.threads, peak.rate_per_s, 1.0, 1.0, full=True, count=times))
    if rest_per_s:
        point = profile.adequate(rest_per_s)
        if point.threads == 1:
            bundles.append(scaled_thread(task, profile, rest_per_s, reserved=True))
        else:
            cpu = max(point.cpu, profile.estimate(point.threads).reserve_at(rest_per_s))
            bundles.append(Bundle(task, point.threads, rest_per_s, cpu, point.memory))
    return TaskAllocation(task, rate_per_s, tuple(bundles))
