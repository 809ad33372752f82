"""Fixed load: what a query takes as soon as it has events, however few, from its trials at several rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Protocol

from scheduler.model.profile import Point
from scheduler.model.slope import slope

FAR_ENOUGH = 0.75  # of the peak rate: a trial nearer to it says nothing of where the line begins


class Loaded(Protocol):
    """What a trial says of load at a rate."""

    rate_per_s: float
    cpu: float
    memory: float


def with_fixed_load(points: Sequence[Point], stable: Mapping[int, Sequence[Loaded]]) -> tuple[Point, ...]:
    """Points whose load without events is at least what their trials have in common at any rate.

    A query with events runs its batches and keeps its Python workers, however few the events are; one without does
    neither. Over the rate its CPU and memory are a line that does not begin at 0: where it begins is the fixed load,
    from which predictions go on in proportion.

    Parameters
    ----------
    points : sequence of Point
        The peaks that were found.
    stable : mapping
        The stable trials of each thread count. A count that was tried near its peak alone takes the same part of its
        load for fixed as the others have in the middle.
    """
    found = {}
    for point in points:
        trials = [one for one in stable.get(point.threads, ()) if one.rate_per_s <= point.rate_per_s]
        if any(one.rate_per_s < FAR_ENOUGH * point.rate_per_s for one in trials):
            rates = [one.rate_per_s for one in trials]
            found[point.threads] = (
                _fixed_part(rates, [one.cpu for one in trials], point.cpu),
                _fixed_part(rates, [one.memory for one in trials], point.memory))
    if not found:
        return tuple(points)
    usual = median(cpu for cpu, _ in found.values()), median(memory for _, memory in found.values())
    return tuple(
        replace(point, idle_cpu=max(point.idle_cpu, cpu * point.cpu),
                idle_memory=max(point.idle_memory, memory * point.memory))
        for point in points for cpu, memory in [found.get(point.threads, usual)]
    )


def _fixed_part(rates: Sequence[float], loads: Sequence[float], at_peak: float) -> float:
    """Where the line through loads begins, as a part of the load at the peak; 0 to 1."""
    growth = slope(rates, loads)
    begins = median(load - growth * rate for rate, load in zip(rates, loads, strict=True))
    return min(1.0, max(0.0, begins / at_peak)) if at_peak > 0 else 0.0
