"""Trials between their rows, the orders that nodes take, what comes of them, and the scheduler's values."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

from dashboard import jobs
from dashboard.jobs import TrialOrder, TrialResult
from dashboard.profiles.models import SweepRecord, TrialRecord, Trials
from scheduler.model.canonical import canonical_json
from scheduler.model.secrets import without_teams
from scheduler.performance.modelling import Sweep, Trial
from scheduler.performance.sweep import often

FIGURES = (
    "offered_per_s", "achieved_per_s", "selectivity", "cpu", "memory", "idle_cpu", "idle_memory", "base_cpu",
    "base_memory", "batches_per_s", "latency_slope", "took_s", "measured_s")


def order_id(trial: TrialRecord) -> str:
    """The id under which a trial is ordered: another for every attempt, so that a late word is of that attempt."""
    return f"{trial.pk.hex}-{trial.attempts}"


def order_of(sweep: SweepRecord, trial: TrialRecord, *, approved: bool) -> TrialOrder:
    """The order to the node; ``approved``: all of it is in the estate as it would run."""
    node, _, index = sweep.slot.rpartition("/")
    return TrialOrder(
        order_id(trial), node, index, sweep.task_type, json.loads(sweep.config), trial.threads, trial.rate_per_s,
        warm_up_s=sweep.warm_up_s, seconds=sweep.seconds, feed=tuple(sweep.feed), approved=approved)


def take_result(trial: TrialRecord, result: TrialResult, *, bounds: Sweep) -> None:
    """Put what came of a trial into its row, and judge it."""
    for name in FIGURES:
        setattr(trial, name, getattr(result, name))
    trial.error, trial.remedy = "", ""
    trial.quantiles = dict(result.latency_s)
    trial.series = [
        [sample.at_s, sample.latency_s, sample.events_per_s, sample.cpu, sample.memory] for sample in result.series]
    trial.batches = [list(row) for row in result.batches]
    trial.machine, trial.versions = dict(result.machine), dict(result.versions)
    trial.starved = not result.held_back and bounds.starved(
        replace(trial_of(trial), offered_per_s=result.offered_per_s)
    )
    trial.stable = bounds.stable(trial_of(trial))


def counting(trials: Trials) -> Trials:
    """The trials from which something follows, without their series: with figures, and not set aside."""
    return trials.exclude(stable=None).filter(set_aside=False).without_raw()


def bounds_asked(sweep: SweepRecord) -> Sweep:
    """The bounds that were asked for; what an earlier version of Weir bounded besides is left out."""
    names = {field.name for field in fields(Sweep)}
    return Sweep(**{name: value for name, value in sweep.bounds.items() if name in names})


def bounds_of(sweep: SweepRecord) -> Sweep:
    """The bounds of a sweep, with no more threads than its slot's driver has."""
    bounds = bounds_asked(sweep)
    return replace(bounds, largest_threads=min(bounds.largest_threads, sweep.slot_threads or bounds.largest_threads))


def trial_of(trial: TrialRecord) -> Trial:
    """The trial of the science for a trial that has figures."""
    return Trial(
        trial.threads, trial.rate_per_s, trial.cpu, trial.memory,
        math.inf if trial.latency_slope is None else trial.latency_slope, trial.took_s,
        achieved_per_s=trial.achieved_per_s, idle_cpu=trial.idle_cpu, idle_memory=trial.idle_memory,
        offered_per_s=trial.offered_per_s if trial.starved else None,
        often=often(trial.batches_per_s, trigger_ms=trial.machine.get("trigger_ms")),
        speed=trial.machine.get("speed"))


def unscoped(config: str, task_type: str) -> str:
    """A config for looking up other tasks: the secrets and models in it belong to no team."""
    declared = jobs.task_types().get(task_type)
    return config if declared is None else canonical_json(without_teams(json.loads(config), declared))
