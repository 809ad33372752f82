"""Drift: whether running bundles still do what their profile says, or it has to be measured again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from scheduler.model.checks import FiniteFigures
from scheduler.model.profile import Profile

BOUND = 0.25  # relative difference from which a profile is to be measured again
LEAST_LOAD = 0.05  # of a slot: below it a difference says nothing
COMPARED_S = 6 * 3600.0  # older observations say what was, not what is
MOST_COMPARED = 1_000


@dataclass(frozen=True, slots=True)
class Observation(FiniteFigures):
    """An observation of a running bundle over some time: it is shown beside the measured curve.

    ``memory`` is None where nobody can tell it, ``stable`` whether it kept up with its rate. Of a ``shared`` slot CPU
    and memory are told apart by the time that each query was busy, which takes one that waits for one that works.
    """

    threads: int
    rate_per_s: float
    cpu: float
    memory: float | None
    stable: bool = True
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Drift:
    """The deviation of observations from the profile, for one number of threads."""

    what: Literal["rate", "cpu", "memory"]
    threads: int
    expected: float
    observed: float
    beyond: bool  # more than the bound: measure again


def drifts(
    profile: Profile, observations: Iterable[Observation], *, bound: float = BOUND, at_least: int = 5
) -> tuple[Drift, ...]:
    """Compare what running bundles do with their profile.

    Parameters
    ----------
    observations : iterable of Observation
        Of bundles of that task type and config, on that class of machine.
    bound : float
        Relative difference beyond which the profile has to be measured again.
    at_least : int
        Fewer observations of a number of threads say nothing.
    """
    by_threads: dict[int, list[Observation]] = {}
    for observation in observations:
        by_threads.setdefault(observation.threads, []).append(observation)
    drifts: list[Drift] = []
    for threads, thread_observations in sorted(by_threads.items()):
        if len(thread_observations) < at_least:
            continue
        estimate = profile.estimate(threads)
        for resource, expect in (("cpu", estimate.cpu_at), ("memory", estimate.memory_at)):
            pairs = [
                (expected, observed)
                for observation in thread_observations
                if observation.stable
                and not observation.shared
                and (observed := getattr(observation, resource)) is not None
                and (expected := expect(observation.rate_per_s)) >= LEAST_LOAD
            ]
            if len(pairs) >= at_least:
                ratio = median(observed / expected for expected, observed in pairs)
                typical = median(expected for expected, _ in pairs)
                drifts.append(_drift(resource, threads, typical, typical * ratio, bound))
        drifts += _of_rate(threads, estimate.point.rate_per_s, thread_observations, bound, at_least)
    return tuple(drifts)


def _of_rate(
    threads: int, peak: float, thread_observations: Sequence[Observation], bound: float, at_least: int
) -> Iterator[Drift]:
    """The rate that most did instead of the peak: those that failed below it, unless as many kept up with as much."""
    failed = [
        observation.rate_per_s
        for observation in thread_observations
        if not (observation.stable or observation.shared) and observation.rate_per_s < peak
    ]
    did = [
        observation.rate_per_s for observation in thread_observations
        if observation.stable and observation.rate_per_s > peak]
    if len(failed) >= at_least:
        enough = median(failed) * (1 - bound)
        comparable = [
            observation
            for observation in thread_observations
            if observation.stable and not observation.shared and observation.rate_per_s >= enough
        ]
        if len(failed) > len(comparable):
            yield _drift("rate", threads, peak, median(failed), bound)
            return
    if len(did) >= at_least and 2 * len(did) > len(thread_observations):
        yield _drift("rate", threads, peak, median(did), bound)


def _drift(quantity: str, threads: int, expected: float, observed: float, bound: float) -> Drift:
    return Drift(quantity, threads, expected, observed, abs(observed - expected) > bound * expected)
