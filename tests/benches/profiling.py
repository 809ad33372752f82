"""Profiles for an experiment: Algorithm 1 of paper [2] over the node agent's trials, kept one by one in a file.

What was measured once is not measured again, unless its code has changed: the steps follow from the trials in the file.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import redis

from scheduler.contracts.trials import TRIAL_RESULTS, TrialOrder, TrialResult
from scheduler.model.profile import Profile
from scheduler.model.profile_csv import ProfileEntry
from scheduler.performance.modelling import Sweep, SweepResult, measured_profile, next_step
from scheduler.performance.sweep import MOST_STOLEN
from workers.engine.measuring.machine_class import machine_class
from workers.library.code import code_digest
from workers.library.registry import task_types

from .estate import NODE
from .experiment_dataflows import Kind, feed
from .profiles import ordered, trial_of

FEED_RATE_PER_S = 500.0
TRIES = 3  # of a trial, until one is measured with less; else the one with least counts


def measured(
    broker: redis.Redis, kind: Kind, sweep: Sweep, *, trials: list[dict[str, Any]], aside: list[dict[str, Any]],
    save: Callable[[], None], warm_up_s: float, seconds: float, slot: str, slots: int, origin: str,
) -> tuple[ProfileEntry, float | None]:
    """Measure a task until its profile is done or its budget is spent, with what that left open; and the speed of the
    core that it is of.

    Parameters
    ----------
    broker : redis.Redis
        Where the agent takes its orders.
    kind : Kind
        The task; it gets the events of the recording.
    sweep : Sweep
        How far and how finely.
    trials : list of dict
        The trials so far, as JSON; new ones are appended.
    aside : list of dict
        Likewise those that do not count, for a trial of the same was disturbed less, or the task's code is another.
    save : callable
        Called after each trial.
    warm_up_s, seconds : float
        Of each trial.
    slot, slots : str, int
        Where, of how many.
    origin : str
        What the profile says of where it is from.
    """
    code = code_digest(task_types()[kind.type])
    aside += [entry for entry in trials if entry["versions"].get("code") != code]
    trials[:] = [entry for entry in trials if entry["versions"].get("code") == code]
    while not isinstance(step := next_step(map(trial_of, map(TRIAL_RESULTS.read, trials)), sweep=sweep), SweepResult):
        print(f"  {kind.name}: {step.threads} threads at {step.rate_per_s:.4g} events/s ({step.why})", end=" … ",
              flush=True)
        time.sleep(step.after_s)
        tries: list[TrialResult] = []
        while not tries or (len(tries) < TRIES and min(map(_stolen, tries)) > MOST_STOLEN):
            tries.append(ordered(broker, TrialOrder(
                uuid.uuid4().hex, NODE, slot, kind.type, kind.config, step.threads, step.rate_per_s,
                warm_up_s=warm_up_s, seconds=seconds, feed=feed(FEED_RATE_PER_S),
                approved=True)))  # the agent and what the tasks reach are the measurement's own
            if _stolen(tries[-1]) > MOST_STOLEN:
                print(f"{_stolen(tries[-1]):.0%} of the CPU asked for went elsewhere", end=" … ", flush=True)
        quietest = min(tries, key=_stolen)
        trials.append(asdict(quietest))
        aside += [asdict(attempt) for attempt in tries if attempt is not quietest]
        save()
        print(
            f"{'stable' if sweep.stable(trial_of(quietest)) else 'not stable'}: "
            f"{quietest.achieved_per_s:.4g} events/s, latency grows {quietest.latency_slope:.3g} s/s, "
            f"CPU {quietest.cpu:.0%}, memory {quietest.memory:.1%}, "
            f"{quietest.took_s:.0f} s",
            flush=True,
        )
    profile = measured_profile(
        step, task_type=kind.type, version=task_types()[kind.type].version, machine=machine_class(slots),
        origin=origin, code=code)
    return ProfileEntry(profile, rough=step.rough, at_least=step.at_least), step.speed


def _stolen(result: TrialResult) -> float:
    return result.machine.get("stolen", 0.0)


def rows(profiles: Iterable[Profile]) -> list[dict[str, Any]]:
    """Profiles as a table."""
    return [
        {"task": profile.task_type, "threads": point.threads, "peak/s": point.rate_per_s, "CPU %": 100 * point.cpu,
         "memory %": 100 * point.memory, "CPU % at any rate": 100 * point.idle_cpu}
        for profile in profiles for point in profile.points
    ]
