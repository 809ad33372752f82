"""Replays: cost, latency and misses of the estate, as it is and as a proposal would make it, at recorded rates.

Controllers act as teams let them; what they would ask for is not approved. It takes a second or more for each hour, so
it is for a command or a job, and not for a page that somebody waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers.stored_rounds import policies_of_all
from dashboard.controllers.used_profiles import played_profiles
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.latency_control.open_batches import able_types
from dashboard.operations.live_view.deployment_reader import thresholds
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.plans.defragment_evidence import rule
from dashboard.plans.price_settings import prices_in_force
from dashboard.plans.selectors import plan_of
from scheduler.applying import apply_plan
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.history.series import MINUTE, TASK, Series
from scheduler.latency.pacing_problem import IntervalBounds
from scheduler.model.errors import NothingToChange, StalePlan
from scheduler.model.estate import Estate
from scheduler.replay.playing import replay
from scheduler.replay.setup import Replayed, ReplaySetup
from scheduler.simulation.loads import recorded

LONGEST_H = 24.0 * 7
STEP_S = 30.0


@dataclass(frozen=True, slots=True)
class ReplayOfProposal:
    """The estate over the recorded time as it is, and as a proposal would make it; None where there is none."""

    now: Replayed
    then: Replayed | None
    names: dict[str, str]  # dataflows by id


def replayed(*, hours: float, at: datetime, proposal: Proposal | None = None) -> ReplayOfProposal:
    """Play the last hours again.

    Parameters
    ----------
    hours : float
        The hours back from now; a week at most, and an hour at least.

    Raises
    ------
    NothingToChange
        Nothing runs, or the proposal has no plan.
    StalePlan
        The plan was made for another generation of the estate.
    """
    estate, span = load_estate(), timedelta(hours=min(max(hours, 1.0), LONGEST_H))
    if not estate.fragments:
        raise NothingToChange("Nothing runs.", remedy="Submit a dataflow first.")
    recorded_rates = _RecordedRates(estate, at - span, at)
    changed = None if proposal is None else _applied(estate, proposal)
    ids = {*estate.submitted, *(changed.submitted if changed else ())}
    records = {str(record.pk): record for record in DataflowRecord.objects.filter(pk__in=ids).select_related("team")}
    now = replay(_setup(estate, recorded_rates, records))
    then = None if changed is None else replay(_setup(changed, recorded_rates, records))
    return ReplayOfProposal(now, then, {key: record.name for key, record in records.items()})


def replayed_part(
    *, begin: datetime, end: datetime, step_s: float, generation: int, proposal: Proposal | None = None,
    on_step: Callable[[int], None] = lambda step: None,
) -> Replayed:
    """A part of the time that was recorded, by itself: queues are empty when it begins, and controllers have done
    nothing yet.

    Parameters
    ----------
    step_s : float
        The length of a step: 10 s, 20 s, 30 s, or whole minutes.
    generation : int
        Of the estate that the parts before were played with.
    proposal : Proposal, optional
        With its plan done; without it the estate as it is.
    on_step : callable, optional
        Told the number of each step before it; what it raises ends the replay.
    """
    estate = load_estate()
    if not estate.fragments:
        raise NothingToChange("Nothing runs.", remedy="Submit a dataflow first.")
    if estate.generation != generation:
        raise StalePlan("The estate has changed while it was played.", remedy="Start the replay again.")
    recorded_rates = _RecordedRates(estate, begin, end)
    looked_at = estate if proposal is None else _applied(estate, proposal)
    records = {str(record.pk): record for record in DataflowRecord.objects.filter(
        pk__in=looked_at.submitted).select_related("team")}
    return replay(_setup(looked_at, recorded_rates, records, step_s=step_s), on_step=on_step)


def _applied(estate: Estate, proposal: Proposal) -> Estate:
    """The estate as the proposal's plan would make it."""
    plan = plan_of(proposal.plan)
    if plan is None:
        raise NothingToChange("The proposal has no plan.", remedy="Wait until it is planned.")
    if proposal.plan.generation != estate.generation:
        raise StalePlan(
            f"The plan is for generation {proposal.plan.generation}, and the estate is at {estate.generation}.",
            remedy="Wait until it is carried over, or recompute it.")
    return apply_plan(replace(estate, generation=plan.generation), plan)


class _RecordedRates:
    """The rates of running tasks over the time, minute by minute; NaN where nothing was measured."""

    def __init__(self, estate: Estate, begin: datetime, end: datetime) -> None:
        lines = {task: Series(TASK, task, "rate_per_s") for task in estate.tasks}
        points = DatabaseHistory().read(
            list(lines.values()), MINUTE, begin_s=int(begin.timestamp()), end_s=int(end.timestamp()))
        self.begin_s = begin.timestamp() // MINUTE.step_s * MINUTE.step_s
        self.minutes = int((end - begin).total_seconds() // MINUTE.step_s)
        self._per_s = {task: points[line].values for task, line in lines.items() if line in points}
        self.selectivity = {
            task: out / into for task, running in estate.tasks.items() if running.parents
            and (out := self._mean(task)) and (into := sum(self._mean(parent) for parent in running.parents))}

    def of_source(self, task: str, planned_per_s: float, step_s: float) -> NDArray[np.float64]:
        """A source's rate at each step: as measured last, and as planned where nothing was measured before."""
        minutes = np.full(self.minutes, np.nan)
        recorded = self._per_s.get(task, minutes)[:self.minutes]
        minutes[:len(recorded)] = recorded
        rate_per_s = planned_per_s
        for at, measured in enumerate(minutes):
            minutes[at] = rate_per_s = rate_per_s if np.isnan(measured) else float(measured)
        return in_steps(minutes, step_s)

    def _mean(self, task: str) -> float:
        values = self._per_s.get(task)
        return 0.0 if values is None or np.isnan(values).all() else float(np.nanmean(values))


def in_steps(minutes: NDArray[np.float64], step_s: float) -> NDArray[np.float64]:
    """Figures of minutes as those of steps: the minute's in each step within it, the mean of the minutes in a longer
    one."""
    a_step = step_s / MINUTE.step_s
    if a_step <= 1:
        return recorded(minutes, int(len(minutes) / a_step), samples_a_step=a_step)
    whole = int(a_step)
    steps: NDArray[np.float64] = minutes[:len(minutes) // whole * whole].reshape(-1, whole).mean(axis=1)
    return steps


def _setup(
    estate: Estate, recorded_rates: _RecordedRates, records: dict[str, DataflowRecord], *, step_s: float = STEP_S
) -> ReplaySetup:
    able = able_types()
    return ReplaySetup(
        estate, {
            task.id: recorded_rates.of_source(task.id, task.rate_per_s or 0.0, step_s)
            for task in estate.tasks.values() if not task.parents},
        jobs.task_types(), prices_in_force(),
        policies=policies_of_all([
            controller for controller in CONTROLLERS.values()
            if settings.ISOLATES or controller.reads != "slow_tasks"]),
        limits={key: record.latency_limits for key, record in records.items() if key in estate.submitted},
        goals={key: record.goals_in_force for key, record in records.items()
               if key in estate.submitted and record.goals_in_force is not None},
        algorithm=settings.ADAPTATION, selectivity=recorded_rates.selectivity,
        refusals={task.type: "it was not seen in open batches" for task in estate.tasks.values()
                  if task.type not in able},
        costs=costs_here(), intervals=IntervalBounds(settings.TRIGGER_MS / 1000, settings.LONGEST_TRIGGER_MS / 1000),
        thresholds=thresholds(), fusing_rule=rule(), profiles=played_profiles(estate), hold_s=settings.HOLD_S,
        begin_s=recorded_rates.begin_s, step_s=step_s)
