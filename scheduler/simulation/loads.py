"""Message rates over time: constant, wandering, in waves, or as recorded; events a second, one figure a step. And how
quick machines are over time, against what their class says.

Whatever is drawn comes from a generator that is passed in: the same seed gives the same rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Rates = NDArray[np.float64]


class Chance(Protocol):
    """A source of random numbers; a generator of numpy's is one."""

    def uniform(self, low: float, high: float, size: int) -> Rates:
        """Numbers drawn evenly between two."""

    def integers(self, high: int) -> int:
        """A whole number from 0 up that is below another."""


def constant(rate_per_s: float, steps: int) -> Rates:
    """The same rate at each step."""
    return np.full(steps, float(rate_per_s))


def wandering(rate_per_s: float, steps: int, rng: Chance) -> Rates:
    """A random walk around a mean, by at most 5% of it a step, turned back at its bounds (Kumbhare 2016, 4.6: ±50%).

    Parameters
    ----------
    rate_per_s : float
        The mean, where it begins.
    """
    within, position, places = 0.5, 0.0, np.empty(steps)
    for at, change in enumerate(rng.uniform(-0.05, 0.05, steps)):
        places[at] = position
        position += change
        if abs(position) > within:
            position = float(np.sign(position)) * max(0.0, 2 * within - abs(position))
    return rate_per_s * (1 + places)


def waves(
    least_per_s: float, most_per_s: float, steps: int, rng: Chance, *, period: int, noise: float = 0.2
) -> Rates:
    """A sinusoid from the most down to the least and up again, with noise (Kumbhare 2016, 5.5: ±20%).

    Parameters
    ----------
    period : int
        Steps from one crest to the next.
    noise : float, optional
        Of the rate: by so much each step is off at most.
    """
    middle, half = (most_per_s + least_per_s) / 2, (most_per_s - least_per_s) / 2
    clean = middle + half * np.cos(2 * np.pi * np.arange(steps) / period)
    return clean * (1 + rng.uniform(-noise, noise, steps))


def speed_traces(machines: int, samples: int, rng: Chance) -> list[Rates]:
    """Made-up speeds of machines relative to their class: each has a level of its own, from 0.7 to 1, and strays from
    it by 0.3 at most, in a walk that is drawn back to it.

    Parameters
    ----------
    machines, samples : int
        The number of traces, and the length of each.
    """
    traces = []
    for _ in range(machines):
        level, deviation = float(rng.uniform(0.7, 1.0, 1)[0]), 0.0
        trace = np.empty(samples)
        for at, change in enumerate(rng.uniform(-0.3, 0.3, samples)):
            deviation = 0.8 * deviation + 0.2 * change
            trace[at] = level * (1 + deviation)
        traces.append(trace)
    return traces


def recorded(samples: Sequence[float], steps: int, *, samples_a_step: float = 1.0) -> Rates:
    """The recorded values, repeated where they are shorter; between samples the one before holds.

    Parameters
    ----------
    samples : sequence of float
        At equal intervals, at least one. `ValueError` if it is empty, or a value is no number from 0 up.
    """
    figures = np.asarray(samples, dtype=float)
    if not len(figures) or not np.isfinite(figures).all() or (figures < 0).any():
        raise ValueError("what was recorded is some numbers from 0 up")
    return figures[(np.arange(steps) * samples_a_step).astype(int) % len(figures)]
