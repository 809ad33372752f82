"""Performance modelling of a task: which trial to run next, until its profile is measured (paper [2], Algorithm 1).

A value in, the next step out: the trials so far say everything, so that a sweep can pause, resume and be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf, log2, sqrt

import numpy as np

from scheduler.model.errors import RateNotHeld
from scheduler.model.profile import Point, Profile, counted_threads

from .core_speed import at_speed, mean_speed
from .fixed_load import FAR_ENOUGH, with_fixed_load
from .sweep import Sweep, SweepResult, Trial, Try

NEARBY = 1.25  # a first guess is wrong by no more than this, as a rule


@dataclass(frozen=True, slots=True)
class _Peak:
    """The highest stable rate of a thread count: its trial (None: not even the smallest rate), how sure it is, whether
    no more could be fed, and whether no more was to be tried."""

    trial: Trial | None
    precise: bool = True
    at_least: bool = False
    bounded: bool = False

    @property
    def rate_per_s(self) -> float:
        return self.trial.rate_per_s if self.trial else 0.0

    @property
    def spare(self) -> bool:
        """True if it may sustain more: so it is not at all times at work, or waiting."""
        return self.at_least or self.bounded


Tried = dict[float, list[Trial]]  # of one thread count, by rate


def next_step(trials: Iterable[Trial], *, sweep: Sweep) -> Try | SweepResult:
    """Decide what to measure next, from what was measured so far.

    Thread counts double until the peak rate is flat or falls, then the ranges beside the best one are halved. For each
    thread count the rate begins where fewer threads and the CPU that they left suggest, grows until a trial is unstable
    (or falls until one is stable), and then the range between is halved; for the first thread count, of which nothing
    is known, it grows fourfold. The lowest rate that was not stable is tried once more before it is believed: a machine
    that was busy for a second makes any rate look so. Where less was fed than was asked for, and that got through,
    it is tried again; where that does not pass, the feeder is the bottleneck, and more threads would show no more.
    In the end each thread count that was tried near its peak alone is tried at half of it: what its batches take is
    told from what events take by trials that are far apart. A peak stays the highest rate that was stable: where half
    of it fails, that is tried again, each time later, and if it never is stable the peak is rough.

    Parameters
    ----------
    trials : iterable of Trial
        In any order. A rate is stable where one of its trials was.

    Returns
    -------
    Try or SweepResult
        The next trial; or the measured points and why there is no next.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, Algorithm 1.
    """
    by_threads: dict[int, Tried] = {}
    spent_s = 0.0
    for trial in trials:
        by_threads.setdefault(trial.threads, {}).setdefault(trial.rate_per_s, []).append(trial)
        spent_s += trial.took_s
    peaks: dict[int, _Peak] = {}
    while (threads := _next_threads(peaks, sweep)) is not None:
        step = _next_rate(by_threads.get(threads, {}), threads, _guess(peaks, threads, sweep), sweep)
        if isinstance(step, Try):
            if spent_s + sweep.trial_s > sweep.budget_s:
                return _out_of_time(by_threads, peaks, spent_s, sweep)
            return step
        peaks[threads] = step
        if step.at_least:
            break
    if not any(peak.trial for peak in peaks.values()):
        return SweepResult((), _nothing_stable(by_threads[min(peaks)], sweep))
    lower = _halves(peaks, by_threads, sweep)
    if lower and spent_s + sweep.trial_s <= sweep.budget_s:
        return lower[0]
    if threads is not None:
        reason = _fed_no_more(by_threads[threads], sweep)
    elif max(peaks) < sweep.largest_threads:
        reason = "The peak rate is flat or falls with more threads."
    else:
        reason = f"{sweep.largest_threads} threads are the most that were to be measured."
    if lower:
        reason += (
            f" The budget of {sweep.budget_s:g} s did not allow for half of the rate with "
            f"{counted_threads([point.threads for point in reversed(lower)])}: what batches take there is less sure."
        )
    return _result(peaks, by_threads, sweep, reason)


def measured_profile(
    done: SweepResult, *, task_type: str, version: int, machine: str, config: str = "", code: str = "",
    origin: str = "measured",
) -> Profile:
    """The profile that a finished sweep found.

    Parameters
    ----------
    config : str, optional
        The config that it counts for; empty where it counts for any.

    Raises
    ------
    RateNotHeld
        No trial was stable.
    """
    if not done.points:
        raise RateNotHeld(
            f"No rate that was tried is stable for {task_type}: {done.why}",
            remedy="If the machine was busy with something else, try again when it is not; else begin with a lower "
                   "rate, or give the sweep more time.", task_type=task_type,
        )
    return Profile(
        task_type, done.points, config=config, version=version, machine=machine, code=code,
        origin=origin)


def _next_threads(peaks: Mapping[int, _Peak], sweep: Sweep) -> int | None:
    """The next thread count to find the peak of: double, then halve beside the best; None where all is known."""
    if not peaks:
        return 1
    counts = sorted(peaks)
    doubled = [count for count in counts if count == sweep.largest_threads or count & (count - 1) == 0]
    if not _flat(peaks, doubled, sweep) and counts[-1] < sweep.largest_threads:
        return min(2 * counts[-1], sweep.largest_threads)
    best = max(counts, key=lambda count: (peaks[count].rate_per_s, -count))
    at = counts.index(best)
    for low, high in zip(counts[max(0, at - 1):at + 1], counts[max(1, at):at + 2], strict=False):
        middle = (low + high) // 2
        if middle > low and high - low > sweep.thread_precision * high:
            return middle
    return None


def _flat(peaks: Mapping[int, _Peak], counts: Sequence[int], sweep: Sweep) -> bool:
    """λ_ω: whether the peak grew by next to nothing, or fell, over the last few thread counts."""
    last = counts[-sweep.window:]
    best = max(peak.rate_per_s for peak in peaks.values())
    if len(last) < sweep.window or not best:
        return not best
    doublings = np.array([log2(count) for count in last])
    rates = np.array([peaks[count].rate_per_s / best for count in last])
    spread = doublings - doublings.mean()
    return float(spread @ rates) / float(spread @ spread) <= sweep.rate_slope


def _guess(peaks: Mapping[int, _Peak], threads: int, sweep: Sweep) -> float:
    """The first rate to try: with what the nearest fewer threads sustain, multiplied as long as there is CPU for it."""
    fewer = [count for count in peaks if count < threads and peaks[count].rate_per_s]
    if not fewer:
        return sweep.smallest_rate_per_s
    nearest = peaks[max(fewer)].trial
    more = min(threads / nearest.threads, 1 / max(nearest.cpu, 0.01))
    return min(nearest.rate_per_s * max(1.0, more), sweep.largest_rate_per_s)


def _next_rate(tried: Tried, threads: int, guess: float, sweep: Sweep) -> Try | _Peak:
    """The next rate to try with a number of threads, or their peak where it is found."""
    if not tried:
        return Try(threads, guess, "as fewer threads suggest" if threads > 1 else "the smallest rate")
    typical_trials = {rate: trial for rate, trials in tried.items() if (trial := _typical(trials, sweep))}
    stable = max(typical_trials, default=0.0)
    above = [rate for rate in tried if rate > stable]
    unstable = min((rate for rate in above if _failed(tried[rate], sweep)), default=inf)
    if (unfed := min(above, default=inf)) < unstable:
        return _unfed(tried[unfed], typical_trials.get(stable), sweep)
    if unstable == inf:
        if stable >= sweep.largest_rate_per_s:
            return _Peak(typical_trials[stable], bounded=True)
        factor = 4 if threads == 1 else NEARBY if stable <= guess else 2
        return Try(threads, min(factor * stable, sweep.largest_rate_per_s), f"{factor:g} times what was stable")
    if stable and unstable > stable * (1 + sweep.rate_precision):
        # Far apart, their ratio is halved; close together that is the middle.
        return Try(threads, sqrt(stable * unstable), "between stable and unstable")
    if not stable and unstable > sweep.smallest_rate_per_s:
        factor = NEARBY if unstable >= guess else 2
        return Try(threads, max(unstable / factor, sweep.smallest_rate_per_s), "less than what was not stable")
    tries = len(tried[unstable])
    if tries < 2:
        return Try(threads, unstable, "once more what was not stable, for that may have been a hiccup")
    if not stable and tries <= len(sweep.again_after_s):
        return Try(threads, unstable, "the smallest rate once more, for the machine may have been busy",
                   after_s=sweep.again_after_s[tries - 1])
    return _Peak(typical_trials.get(stable))


def _halves(peaks: Mapping[int, _Peak], by_threads: Mapping[int, Tried], sweep: Sweep) -> list[Try]:
    """Trials of the thread counts of which nothing is known but what is near their peak; the most threads first, for
    which there is most between the two. One that failed is tried again, each time later: more than that was stable."""
    points_found = []
    for threads in sorted(peaks, reverse=True):
        peak, tried = peaks[threads].rate_per_s, by_threads[threads]
        far = [rate for rate in tried if rate <= FAR_ENOUGH * peak]
        if FAR_ENOUGH * peak < sweep.smallest_rate_per_s or not all(_failed(tried[rate], sweep) for rate in far):
            continue
        if not far:
            points_found.append(Try(threads, max(peak / 2, sweep.smallest_rate_per_s),
                             "half of what it sustains, for what its batches take"))
        elif (tries := len(tried[max(far)])) <= len(sweep.again_after_s):
            points_found.append(Try(threads, max(far), "once more, for a higher rate was stable",
                             after_s=sweep.again_after_s[tries - 1]))
    return points_found


def _unfed(trials: Sequence[Trial], stable_trial: Trial | None, sweep: Sweep) -> Try | _Peak:
    """The next step for a rate that the feeder did not reach: try it again, and then take what it did reach."""
    if len(trials) < len(sweep.again_after_s):
        return Try(trials[0].threads, trials[0].rate_per_s, "once more, for less was fed than was asked for",
                   after_s=sweep.again_after_s[len(trials) - 1])
    best = max((replace(trial, rate_per_s=trial.offered_per_s) for trial in trials), key=lambda trial: trial.rate_per_s)
    is_more = stable_trial is not None and stable_trial.rate_per_s > best.rate_per_s
    return _Peak(stable_trial if is_more else best, at_least=True)


def _failed(trials: Sequence[Trial], sweep: Sweep) -> bool:
    """True if a rate was fed and none of its trials is stable."""
    return not any(map(sweep.stable, trials)) and not all(map(sweep.starved, trials))


def _typical(trials: Sequence[Trial], sweep: Sweep) -> Trial | None:
    """The trial that stands for its repetitions: the calmest stable one; None where none was stable."""
    stable = [trial for trial in trials if sweep.stable(trial)]
    return min(stable, key=lambda trial: (trial.latency_slope, trial.cpu, trial.memory), default=None)


def _nothing_stable(tried: Tried, sweep: Sweep) -> str:
    """The observation at the smallest rate, where not even that was stable."""
    rate, trials = min(tried.items())
    [threads] = {trial.threads for trial in trials}
    slopes = [trial.latency_slope for trial in trials]
    through = [trial.rate_per_s if trial.achieved_per_s is None else trial.achieved_per_s for trial in trials]
    return (
        f"of {rate:g} events/s, with {threads} thread{'s' * (threads > 1)} and {len(trials)} times, "
        f"{min(through):.3g} to {max(through):.3g} came through, and latency grew by {min(slopes):.2g} to "
        f"{max(slopes):.2g} s a second (stable are {sweep.keeps_up:.0%} and {sweep.latency_slope:g}).")


def _fed_no_more(tried: Tried, sweep: Sweep) -> str:
    """The rate that was fed at most where the wanted one could not be reached."""
    most = max((trial for trials in tried.values() for trial in trials if sweep.starved(trial)),
               key=lambda trial: trial.offered_per_s)
    return (f"No more than {most.offered_per_s:.4g} events/s could be fed, where {most.rate_per_s:.4g} were asked for: "
            "the slot may sustain more.")


def _out_of_time(
    by_threads: Mapping[int, Tried], peaks: Mapping[int, _Peak], spent_s: float, sweep: Sweep
) -> SweepResult:
    """The result when the budget is spent: of a thread count under way its best stable trial."""
    best = dict(peaks)
    for threads, tried in by_threads.items():
        stable = [trial for trials in tried.values() if (trial := _typical(trials, sweep))]
        if threads not in best and stable:
            best[threads] = _Peak(max(stable, key=lambda trial: trial.rate_per_s), precise=False)
    reason = f"The next trial would exceed the budget of {sweep.budget_s:g} s; {spent_s:.0f} s are spent."
    return _result(best, by_threads, sweep, reason)


def _at_speed(point: Point, peak: _Peak, speed: float) -> Point:
    """A peak on a core at a speed; one that may sustain more stays at its rate, and promises no more."""
    if not peak.spare:
        return point.at_speed(speed / peak.trial.speed)
    trial = at_speed(peak.trial, speed)
    return replace(point, cpu=min(1.0, trial.cpu), idle_cpu=min(trial.idle_cpu, trial.cpu, 1.0))


def _result(peaks: Mapping[int, _Peak], by_threads: Mapping[int, Tried], sweep: Sweep, reason: str) -> SweepResult:
    points = tuple(
        Point(threads, peak.trial.rate_per_s, min(1.0, peak.trial.cpu), min(1.0, peak.trial.memory),
              min(peak.trial.idle_cpu, peak.trial.cpu, 1.0), min(peak.trial.idle_memory, peak.trial.memory, 1.0))
        for threads, peak in sorted(peaks.items()) if peak.trial is not None
    )
    stable = {
        threads: [trial for trials in tried.values() for trial in trials if sweep.stable(trial)]
        for threads, tried in by_threads.items()}
    speed = mean_speed(chain.from_iterable(stable.values()))
    # A peak may rest on a trial that is not among those: one that was not fed enough.
    if speed is not None and not all(peak.trial.speed for peak in peaks.values() if peak.trial):
        speed = None
    if speed is not None:
        points = tuple(_at_speed(point, peaks[point.threads], speed) for point in points)
        stable = {threads: [at_speed(trial, speed) for trial in trials] for threads, trials in stable.items()}
    doubted = [
        threads
        for threads, peak in sorted(peaks.items())
        if any(rate < peak.rate_per_s and _failed(trials, sweep) for rate, trials in by_threads[threads].items())
    ]
    if doubted:
        reason += (f" Less than the peak of {counted_threads(doubted)} was tried, too, and never stable: that peak is "
                "less sure.")
    if lost := [threads for threads, peak in sorted(peaks.items()) if peak.trial is None]:
        reason += (f" Nothing was stable with {counted_threads(lost)}, not even {sweep.smallest_rate_per_s:g} "
                   "events/s: there is no point for that.")
    rough = tuple(sorted(threads for threads, peak in peaks.items() if not peak.precise or threads in doubted))
    at_least = tuple(sorted(threads for threads, peak in peaks.items() if peak.at_least))
    eased = (_at_ease(point) if peaks[point.threads].spare else point for point in with_fixed_load(points, stable))
    return SweepResult(tuple(eased), reason, rough, at_least, speed)


def _at_ease(point: Point) -> Point:
    """A point that may sustain more, so it runs a batch at every trigger: what there seems to be less is noise."""
    if point.event_cpu is None or point.often >= 1:
        return point
    return replace(point, idle_cpu=max(0.0, point.cpu - point.event_cpu))
