"""Progress of a sweep: for pages, the API and live connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any
from uuid import UUID

from dashboard import jobs
from dashboard.profiles.lifecycle import RUNNING
from dashboard.profiles.models import SweepRecord, TrialRecord
from dashboard.profiles.permissions import sweep_for
from dashboard.profiles.trial_orders import order_id, trial_of
from dashboard.teams.permissions import Viewer
from scheduler.performance.core_speed import mean_speed
from scheduler.performance.sweep import MOST_STOLEN

STATES = {  # of a trial under way, in words
    "": "about to be ordered", "ordered": "waits for the node's agent", "taken": "waits until the slot is ready",
    "driver": "warming the driver up", "base": "measuring the slot without it",
    "feed": "making the events", "starting": "starting the query", "idle": "measuring the query without events",
    "warming": "warming up", "measuring": "measuring",
}


def live_sweep(viewer: Viewer, sweep_id: UUID | str) -> dict[str, Any]:
    """A sweep's live document, a `dashboard.api.answers.profiles.SweepProgress`; ``NotFound`` where the viewer may not
    know of it."""
    return progress_of(sweep_for(viewer, sweep_id))


def progress_of(sweep: SweepRecord) -> dict[str, Any]:
    """The same of a record."""
    trials = list(sweep.trials.without_raw())
    done = [trial for trial in trials if trial.stable is not None and not trial.set_aside]
    under_way = next((trial for trial in trials if trial.ended is None), None)
    return {
        "id": str(sweep.pk), "status": sweep.status, "reason": sweep.reason, "slot": sweep.slot,
        "spent_s": round(sum(trial.took_s for trial in done), 1), "budget_s": sweep.bounds["budget_s"],
        "trials": len(done), "peaks": _peaks(done),
        "under_way": _under_way(under_way) if under_way and sweep.status == RUNNING else None,
        "profile": str(sweep.profile_id) if sweep.profile_id else None,
    }


def disturbed_by(sweep: SweepRecord) -> dict[str, float] | None:
    """The load of the machine, its cores and the part of the CPU asked for that its host gave to others (``stolen``)
    while a sweep was measured, where other work must have taken part of them.

    A trial alone makes a load of two or three. Only a virtual machine has a host that takes.
    """
    return disturbance(trial.machine for trial in sweep.trials.filter(set_aside=False).without_raw())


def disturbance(machines: Iterable[Mapping[str, Any]]) -> dict[str, float] | None:
    """The same of what each trial told of its machine."""
    with_cores = [machine for machine in machines if machine.get("cores")]
    loads = [machine["load"] for machine in with_cores if machine.get("load") is not None]
    if not loads:
        return None
    load, cores = median(loads), with_cores[-1]["cores"]
    stolen = median(machine.get("stolen", 0.0) for machine in with_cores)
    is_disturbed = stolen > MOST_STOLEN or load > cores + max(2, cores)
    return {"load": load, "cores": cores, "stolen": stolen} if is_disturbed else None


def speeds_of(sweep: SweepRecord) -> tuple[float, float] | None:
    """The slowest and the fastest that the core ran in a stable trial, as parts of the mean that the profile is of."""
    trials = [trial_of(trial) for trial in sweep.trials.filter(set_aside=False, stable=True).without_raw()]
    mean = mean_speed(trials)
    if mean is None:
        return None
    speeds = [trial.speed for trial in trials]
    return min(speeds) / mean, max(speeds) / mean


def _peaks(done: list[TrialRecord]) -> dict[str, dict[str, Any]]:
    peaks: dict[str, dict[str, Any]] = {}
    for trial in sorted(done, key=lambda row: row.threads):
        peak = peaks.setdefault(str(trial.threads), {"stable_per_s": 0.0, "unstable_per_s": 0.0, "trials": 0})
        peak["trials"] += 1
        if trial.stable or trial.starved:
            peak["stable_per_s"] = max(peak["stable_per_s"], trial.rate_per_s if trial.stable else trial.offered_per_s)
        elif not peak["unstable_per_s"] or trial.rate_per_s < peak["unstable_per_s"]:
            peak["unstable_per_s"] = trial.rate_per_s
    return peaks


def _under_way(trial: TrialRecord) -> dict[str, Any]:
    return {
        "number": trial.number, "threads": trial.threads, "rate_per_s": trial.rate_per_s, "why": trial.why,
        "attempts": trial.attempts, "state": _state(trial), "error": trial.error or None}


def _state(trial: TrialRecord) -> str:
    if trial.sent is None:
        return STATES[""]
    try:
        heard = jobs.trial_progress(order_id(trial))
    except jobs.BrokerAway:
        return "the broker is away"
    return "about to be stored" if heard is None else STATES.get(heard.state, heard.state)
