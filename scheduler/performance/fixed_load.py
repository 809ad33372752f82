"""Fixed load: what a query takes however few its events are, told apart from what events take, by trials at some rates.

Over the rate CPU is no line: a query that waits for a service, or for its core, runs fewer and larger batches near its
peak. Over the events *of a batch* it is: it begins at what a batch takes, and grows by what an event takes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, combinations
from statistics import median
from typing import Protocol

from scheduler.model.profile import Point
from scheduler.model.slope import slope

FAR_ENOUGH = 0.75  # of the peak rate: a trial nearer to it says nothing of where the line begins


class Loaded(Protocol):
    """The result of a trial on load at a rate."""

    rate_per_s: float
    cpu: float
    memory: float
    often: float | None


Stable = Mapping[int, Sequence[Loaded]]  # trials, by threads


def with_fixed_load(points: Sequence[Point], stable: Stable) -> tuple[Point, ...]:
    """Points whose load at any rate is at least what their trials have in common, however many events there were.

    A query with events runs its batches and keeps its Python workers, however few the events are; one without does
    neither. Of CPU, batches are told apart from events where trials counted their batches; else where the line over
    the rate begins is taken as fixed, as it is of memory, and the rest as of events.

    Parameters
    ----------
    stable : mapping
        The stable trials of each thread count. A count that was tried near its peak alone takes the same part of its
        load for fixed as the others have in the middle.
    """
    lines, batches = _lines(points, stable), {threads: _batches(trials) for threads, trials in stable.items()}
    with_lines = tuple(_with_line(point, lines) for point in points)
    an_event = _cpu_of_an_event(batches.values())
    if an_event is None or not all(batches.get(point.threads) for point in points):
        return with_lines
    an_event = min(an_event, *(point.cpu / point.rate_per_s for point in points))
    return tuple(_with_batches(point, batches[point.threads], an_event) for point in with_lines)


def _batches(trials: Iterable[Loaded]) -> list[tuple[float, float]]:
    """Events and CPU (a second) of each trial that counted its batches, had one run at every trigger."""
    return [(trial.rate_per_s / trial.often, trial.cpu / trial.often) for trial in trials if trial.often]


def _cpu_of_an_event(batches: Iterable[Sequence[tuple[float, float]]]) -> float | None:
    """CPU seconds, the same with any number of threads; None where no two trials with one number tell it.

    The median of what any two trials with the same threads tell, which count by how far their batches are apart.
    """
    apart = sorted(
        ((cpu - other_cpu) / (events - other_events), abs(events - other_events))
        for samples in batches for (events, cpu), (other_events, other_cpu) in combinations(samples, 2)
        if events != other_events)
    weights = list(accumulate(weight for _, weight in apart))
    return max(0.0, apart[bisect_left(weights, weights[-1] / 2)][0]) if apart else None


def _with_batches(point: Point, batches: Sequence[tuple[float, float]], an_event: float) -> Point:
    """The point with the cost of batches, one at every trigger, and events at the peak rate."""
    a_batch = median(cpu - an_event * events for events, cpu in batches)
    return replace(point, idle_cpu=min(1.0, max(0.0, a_batch)), event_cpu=an_event * point.rate_per_s)


def _lines(points: Sequence[Point], stable: Stable) -> dict[int, tuple[float, float]]:
    """The part of the CPU and of the memory of each thread count at the peak that does not come with the rate."""
    fixed = {}
    for point in points:
        trials = stable.get(point.threads, ())
        rates = [trial.rate_per_s for trial in trials]
        if len(set(rates)) > 1 and min(rates) < FAR_ENOUGH * max(rates):
            fixed[point.threads] = (
                _fixed_part(rates, [trial.cpu for trial in trials], point.cpu),
                _fixed_part(rates, [trial.memory for trial in trials], point.memory))
    if not fixed:
        return {}
    usual = median(cpu for cpu, _ in fixed.values()), median(memory for _, memory in fixed.values())
    return {point.threads: fixed.get(point.threads, usual) for point in points}


def _with_line(point: Point, lines: Mapping[int, tuple[float, float]]) -> Point:
    cpu, memory = lines.get(point.threads, (0.0, 0.0))
    return replace(point, idle_cpu=max(point.idle_cpu, cpu * point.cpu),
                   idle_memory=max(point.idle_memory, memory * point.memory))


def _fixed_part(rates: Sequence[float], loads: Sequence[float], at_peak: float) -> float:
    """The beginning of the line through loads, as a part of the load at the peak; 0 to 1."""
    growth = slope(rates, loads)
    begins = median(load - growth * rate for rate, load in zip(rates, loads, strict=True))
    return min(1.0, max(0.0, begins / at_peak)) if at_peak > 0 else 0.0
