"""Inputs of a simulation of a dataflow: its tasks as measured, the rates of its sources, machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.conf import settings

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import NodeRow
from dashboard.plans.dataflow_figures import prices_of
from scheduler.adaptation.course_forecasts import forecast_course, without_gaps
from scheduler.adaptation.side_by_side import AHEAD, MOST_HOURS, SEASON, STEP_S
from scheduler.history.series import MINUTE, NODE, TASK, Series
from scheduler.model.errors import NothingToChange
from scheduler.performance.elastic_tasks import elastic_dataflow
from scheduler.simulation.elastic import Alternate, ElasticDataflow, VmClass

LOOKED_BACK_S = 9 * 24 * 3600  # two days of load, and a week before it to forecast from
BYTES_PER_S = 125e6  # a gigabit: the catalogue says nothing of networks
SPEED = 1.0  # a slot is a standard core
NO_SPEEDS = "No speed of any node's cores was recorded in the last two days."
MOST_NODES = 50  # whose speeds are taken: more differ no more than these do


@dataclass(frozen=True)
class SourceForecast:
    """The expected course of a source by what is kept of it, in steps of five minutes, and the error of each method
    there.

    ``error`` is by step ahead the mean absolute error of the method that is used, as a part of what came; None where
    too little is kept. ``errors`` is by method the mean over the steps. ``why_averages`` says why averages are used.
    """

    source: str
    method: str
    rates_per_s: list[float]
    error: list[float] | None
    errors: dict[str, float]
    why_averages: str


@dataclass(frozen=True)
class SimulationInputs:
    """The dataflow, and in steps of `STEP_S`, the newest last, what was recorded: by source the rates, and by node how
    quick its cores were, where that is asked for."""

    dataflow: ElasticDataflow
    recorded_per_s: Mapping[str, list[float]]
    speeds: Mapping[str, list[float]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The stored form."""
        return {
            "tasks": {task: [asdict(alternate) for alternate in alternates.values()]
                      for task, alternates in self.dataflow.tasks.items()},
            "streams": [list(stream) for stream in self.dataflow.streams], "recorded_per_s": dict(self.recorded_per_s),
            "speeds": dict(self.speeds)}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> SimulationInputs:
        """The inputs from their stored form."""
        return cls(ElasticDataflow(
            {task: {alternate["name"]: Alternate(**alternate) for alternate in alternates}
             for task, alternates in stored["tasks"].items()},
            tuple((source, target) for source, target in stored["streams"])), stored["recorded_per_s"],
            stored.get("speeds", {}))


def forecasts_of(inputs: SimulationInputs) -> list[SourceForecast]:
    """The forecast of each source by what is kept of it."""
    forecasts = []
    for source, rates_per_s in inputs.recorded_per_s.items():
        forecast = forecast_course(rates_per_s, AHEAD, season=SEASON)
        forecasts.append(SourceForecast(
            source, forecast.method, forecast.values.tolist(),
            None if forecast.errors is None else list(forecast.errors.by_step),
            {name: errors.total for name, errors in (forecast.others or {}).items()}, forecast.why_averages))
    return forecasts


def machine_classes() -> tuple[VmClass, ...]:
    """The machines of the catalogue that schedules are priced with."""
    return tuple(VmClass(size.name, size.slots, SPEED, BYTES_PER_S, size.hour) for size in settings.VM_SIZES.values())


def recorded_speeds(*, at: datetime) -> dict[str, list[float]]:
    """The speed of each node's cores, as a part of what was calibrated, in steps of `STEP_S`, the newest last; of the
    longest time that can be simulated, and without nodes of which nothing is kept."""
    nodes = NodeRow.objects.order_by("pk").values_list("pk", flat=True)[:MOST_NODES]
    lines = {node: Series(NODE, node, "core_speed") for node in nodes}
    points = DatabaseHistory().read(
        list(lines.values()), MINUTE, begin_s=int((at - timedelta(hours=MOST_HOURS)).timestamp()),
        end_s=int(at.timestamp())) if lines else {}
    steps = {node: without_gaps(_in_steps(np.asarray(points[line].values, dtype=float)))
             for node, line in lines.items() if line in points}
    return {node: np.round(speeds, 4).tolist() for node, speeds in steps.items() if len(speeds)}


def inputs_of(record: DataflowRecord, *, at: datetime, with_speeds: bool = False) -> SimulationInputs:
    """The known facts of a dataflow, and of nodes' speeds, at a moment. `NothingToChange` where it does not run, or
    what is asked for is not known."""
    estate = load_estate()
    submitted = estate.submitted.get(str(record.pk))
    if submitted is None:
        raise NothingToChange(f"{record.name} does not run.", remedy="Submit it first.")
    end_s = int(at.timestamp())
    lines = {task: Series(TASK, running, "rate_per_s") for task, running in submitted.running.items()}
    points = DatabaseHistory().read(list(lines.values()), MINUTE, begin_s=end_s - LOOKED_BACK_S, end_s=end_s)
    minutes = {task: np.asarray(points[line].values, dtype=float) for task, line in lines.items() if line in points}
    means = {running: float(np.nanmean(minutes[task])) for task, running in submitted.running.items()
             if task in minutes and np.isfinite(minutes[task]).any()}
    selectivity = {
        running: means[running] / into for running in means
        if (into := sum(means.get(parent, 0.0) for parent in estate.tasks[running].parents))}
    dataflow = elastic_dataflow(
        estate, submitted, task_types=jobs.task_types(), prices=prices_of(record, submitted), selectivity=selectivity)
    recorded: dict[str, list[float]] = {}
    for source in dataflow.sources:
        steps = without_gaps(_in_steps(minutes.get(source, np.empty(0))))
        planned = estate.tasks[submitted.running[source]].rate_per_s
        if not len(steps) and planned is None:
            raise NothingToChange(
                f"No rate of {source} is known.", remedy="Wait until it has run for some minutes.")
        recorded[source] = steps.tolist() if len(steps) else [planned or 0.0]
    speeds = recorded_speeds(at=at) if with_speeds else {}
    if with_speeds and not speeds:
        raise NothingToChange(NO_SPEEDS, remedy="Let machines vary by made-up speeds.")
    return SimulationInputs(dataflow, recorded, speeds)


def _in_steps(minutes: np.ndarray) -> np.ndarray:
    """Means of the steps that are whole, the newest last; NaN where nothing was measured, none from before that."""
    a_step = round(STEP_S / MINUTE.step_s)
    measured_at = np.flatnonzero(np.isfinite(minutes))
    if not len(measured_at):
        return np.empty(0)
    measured = minutes[measured_at[0]:]
    if len(measured) < a_step:
        return np.array([np.nanmean(measured)])
    steps = measured[len(measured) % a_step:].reshape(-1, a_step)
    counted = np.isfinite(steps)
    return np.where(counted.any(axis=1), np.where(counted, steps, 0.0).sum(axis=1) / np.maximum(
        1, counted.sum(axis=1)), np.nan)
