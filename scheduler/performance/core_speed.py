"""Trials on a core whose speed changes, as they would be at one speed.

On a virtual machine a core gives more or fewer steps for a second of CPU, by what its host runs beside it; so two
trials of a sweep are not of the same core. What a trial takes of CPU is told for the mean speed of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

from .sweep import Trial


def mean_speed(trials: Iterable[Trial]) -> float | None:
    """The mean speed of trials; None without trials, or if one of them has no speed."""
    speeds = [trial.speed for trial in trials]
    return fmean(speeds) if speeds and all(speeds) else None


def at_speed(trial: Trial, speed: float) -> Trial:
    """A stable trial, had its core run at a speed: at the same rate, with as much more or less CPU."""
    factor = trial.speed / speed
    return replace(trial, cpu=trial.cpu * factor, idle_cpu=trial.idle_cpu * factor, speed=speed)
