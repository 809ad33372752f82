"""Profiles of the source and the sink of experiments: run alone, each on a slot of its own.

Trials measure tasks that read events at a rate; a recording is replayed by its own times. So both are measured as the
schedules are, on stairs, which also lets the drivers of two slots warm up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from scheduler.allocation.lsa import allocate_lsa
from scheduler.model.placement import Placement
from scheduler.model.profile import Point, Profile
from scheduler.model.resources import Supply
from scheduler.performance.fixed_load import with_fixed_load
from scheduler.performance.modelling import Trial
from scheduler.scheduling import Job, Schedule, SchedulingOptions, predicted
from workers.library.registry import task_types

from .experiments import Stair
from .published_pairs import BASELINE

RATES_PER_S = (40.0, 120.0, 360.0, 1080.0)  # the last beyond what plans reach: a plan would end at it
TYPES = {"source": "replay", "sink": "output"}


def apart(job: Job, *, supply: Supply, options: SchedulingOptions) -> Schedule:
    """A schedule of a source and a sink on two slots."""
    allocation = allocate_lsa(job.rates_per_s, job.profiles)
    placement = Placement("apart", 2, supply.slots(2), {"source": (0,), "sink": (1,)})
    return predicted(job, BASELINE, allocation, placement, supply=supply, options=options)


def climb(*, first_s: float, stair_s: float) -> tuple[Stair, ...]:
    """Warming up, then each rate."""
    return (Stair(RATES_PER_S[0], first_s, counts=False), *(Stair(rate, stair_s) for rate in RATES_PER_S))


def reached(stairs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the highest rate that was to be tried was tried, and kept up with."""
    return any(stair["stable"] and stair["rate_per_s"] >= max(RATES_PER_S) for stair in stairs)


def speeds(stairs: Sequence[Mapping[str, Any]], *, slot_of: Mapping[str, str]) -> dict[str, float]:
    """By type, how fast the core ran that it was measured on; of one for which nobody looked there is none."""
    seen = {task_type: [stair["speeds"][slot_of[end]] for stair in stairs
                        if stair["stable"] and slot_of[end] in stair.get("speeds", {})]
            for end, task_type in TYPES.items()}
    return {task_type: fmean(rates) for task_type, rates in seen.items() if rates}


def profiles(
    stairs: Sequence[Mapping[str, Any]], *, slot_of: Mapping[str, str], machine: str, origin: str
) -> list[Profile]:
    """What was measured on the stairs (as JSON), as profiles of one thread: loads grow with the rate from a fixed part.

    The peak is the highest rate that was kept up with: plans and predictions end there, so it has to be beyond theirs.

    Parameters
    ----------
    stairs : Sequence[Mapping[str, Any]]
        The measured stairs.
    slot_of : mapping of str to str
        The slot that each task was on.
    machine : str
        The machine class that it was measured on.
    origin : str
        Where the figures come from.
    """
    entries = []
    for end, task_type in TYPES.items():
        loads = [(stair["carried_per_s"], stair["loads"][slot_of[end]]) for stair in stairs if stair["stable"]]
        if not loads:
            raise ValueError(f"The {end} did not keep up with {RATES_PER_S[0]:g} events/s; nothing can be measured so.")
        trials = [Trial(1, rate, load["cpu"], load["memory"], 0.0, 0.0) for rate, load in loads]
        peak = max(trials, key=lambda trial: trial.rate_per_s)
        point = Point(1, peak.rate_per_s, min(1.0, peak.cpu), min(1.0, peak.memory))
        entries.append(Profile(
            task_type, with_fixed_load([point], {1: trials}), version=task_types()[task_type].version,
            machine=machine, origin=origin))
    return entries
