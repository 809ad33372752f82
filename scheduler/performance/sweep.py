"""Trials of a task on one slot, how far and how finely to measure, and the result of a sweep of trials."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from scheduler.model.errors import InvalidResources
from scheduler.model.profile import Point

from .rates import KEEPS_UP

MOST_STOLEN = 0.1  # of the CPU asked for, by the host of a virtual machine: what is measured then says little


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial of threads on one pinned slot at a rate: what they took, and whether latency grew.

    ``latency_slope`` (λ_L) is in seconds of latency for each second that passed (`scheduler.model.slope`).
    ``offered_per_s`` is the rate that was fed and ``achieved_per_s`` what got through of it, where they were measured;
    ``took_s`` what the trial took, with starting and warming up. ``often`` is the part of the triggers that ran a batch
    (None: nobody counted them), ``speed`` how fast the core ran, in any unit (None: nobody looked).
    """

    threads: int
    rate_per_s: float
    cpu: float
    memory: float
    latency_slope: float
    took_s: float
    achieved_per_s: float | None = None
    idle_cpu: float = 0.0
    idle_memory: float = 0.0
    offered_per_s: float | None = None
    often: float | None = None
    speed: float | None = None


def often(batches_per_s: float | None, *, trigger_ms: float | None) -> float | None:
    """The part of the triggers that ran a batch; None where nobody counted."""
    return None if batches_per_s is None or not trigger_ms else min(1.0, batches_per_s * trigger_ms / 1000)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The extent and the precision of a measurement.

    ``latency_slope`` (λ_L max) parts stable from unstable: beyond the peak rate latency grows by ω/ω̂ - 1 seconds a
    second, so a slope of 0.03 is a rate 3% too high, which is as much as ``rate_precision`` asks to be told. The sweep
    stops when the peak rate grows by no more than ``rate_slope`` (λ_ω) of the best with every doubling of the threads,
    over the last ``window`` thread counts. Rates are found to within ``rate_precision``, the best thread count to
    within ``thread_precision``, both relative. ``trial_s`` is what the next trial is expected to take of ``budget_s``.
    """

    smallest_rate_per_s: float = 1.0
    largest_rate_per_s: float = 100_000.0
    largest_threads: int = 64
    latency_slope: float = 0.03
    rate_slope: float = 0.05
    window: int = 3
    rate_precision: float = 0.05
    thread_precision: float = 0.25
    keeps_up: float = KEEPS_UP  # of the rate has to be fed, and to come out
    again_after_s: tuple[float, ...] = (0.0, 15.0, 45.0)  # what may pass is tried so many times more, so much later
    trial_s: float = 8.0
    budget_s: float = 900.0

    def __post_init__(self) -> None:
        fits = 0 < self.smallest_rate_per_s <= self.largest_rate_per_s < inf and self.largest_threads >= 1
        if not (fits and self.window >= 2 and self.rate_precision > 0 and self.thread_precision > 0):
            raise InvalidResources(
                f"A sweep over {self.smallest_rate_per_s:g} to {self.largest_rate_per_s:g} events/s and up to "
                f"{self.largest_threads} threads measures nothing",
                remedy="Give rates above 0, the highest no lower than the lowest, at least one thread, a window from 2 "
                       "and precisions above 0.",
            )

    def stable(self, trial: Trial) -> bool:
        """True if the threads kept up with the rate."""
        return self._keeps_up(trial, trial.rate_per_s)

    def starved(self, trial: Trial) -> bool:
        """True if less was fed than was asked for, and the threads kept up with that: it says nothing of the rate."""
        fed = trial.offered_per_s
        return fed is not None and 0 < fed < self.keeps_up * trial.rate_per_s and self._keeps_up(trial, fed)

    def _keeps_up(self, trial: Trial, rate_per_s: float) -> bool:
        came_out = trial.rate_per_s if trial.achieved_per_s is None else trial.achieved_per_s
        return trial.latency_slope <= self.latency_slope and came_out >= self.keeps_up * rate_per_s


@dataclass(frozen=True, slots=True)
class Try:
    """Run this trial next, no sooner than ``after_s`` after the last one has ended."""

    threads: int
    rate_per_s: float
    why: str
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of a sweep. ``rough`` are thread counts whose peak is not as precise as was asked for, or that failed
    below it; ``at_least`` those that sustain all that could be fed, and may sustain more. The points are those of a
    core at ``speed``, the mean of the trials (None: not every one tells it)."""

    points: tuple[Point, ...]
    why: str
    rough: tuple[int, ...] = ()
    at_least: tuple[int, ...] = ()
    speed: float | None = None
