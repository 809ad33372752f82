"""Reading the estate.

For pages, API and live connections:

- ``live_estate(viewer)``, ``live_dataflow(viewer, dataflow_id)``: live documents (``live_documents``)
- ``outputs(viewer, dataflow_id)``: named outputs of a dataflow: ``task``, ``name``, ``channel``
- ``output_tail(viewer, dataflow_id, task_id, count)``: newest events of one
- ``dead_letters(viewer, dataflow_id, task_id, count)``: what a live source of it could not read
- ``refused_events(viewer, dataflow_id, task_id, count)``: what the other system of a sink of it refused
- ``notable_events(viewer, dataflow_id)``: what happened to its queries
- ``estate_history(viewer, minutes)``, ``dataflow_history(viewer, dataflow_id, minutes)``: columns for plots
- ``running_task_of(viewer, dataflow_id, task)``: what a task of a dataflow runs as
- ``nodes()``: nodes with their slots and when they were last seen
- ``slots_around(fragments)``: the slots of all that write for some fragments, and of all that read them
- ``slots_gone(slots)``: those that no node offers; ``fragments_where(…)``: fragments by what their rows say
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from dashboard import jobs
from dashboard.catalog.lifecycle import PAUSED, PAUSING, REMOVING, RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.estate_loader import (
    current_estate,
    current_stamp,
    elements_in_waves,
    fragments_where,
    load_estate,
)
from dashboard.operations.estate_store.estate_reader import slots_around, slots_gone
from dashboard.operations.estate_store.readable import require_readable
from dashboard.operations.live_reader import live_dataflow, live_estate
from dashboard.operations.live_view.estate_history import Range, history_of
from dashboard.operations.live_view.estate_view import one_look
from dashboard.operations.live_view.live_sources import dead_letters
from dashboard.operations.live_view.notable import notable_events
from dashboard.operations.live_view.sink_statuses import refused_events
from dashboard.operations.models import NodeRow
from dashboard.teams.permissions import Viewer
from scheduler.history.series import DATAFLOW, ESTATE, TEN_SECONDS
from scheduler.model.errors import NotFound

__all__ = [
    "MOST_EVENTS", "current_estate", "current_stamp", "dataflow_history", "dead_letters", "elements_in_waves",
    "estate_history", "fragments_where", "live_dataflow", "live_estate", "load_estate", "nodes",
    "notable_events", "one_look", "output_tail", "outputs", "refused_events", "running_task_of",
    "slots_around", "slots_gone",
]

MOST_EVENTS = 200
_OF_DATAFLOWS = ("events_in_per_s", "events_out_per_s", "latency_p50_ms", "latency_p99_ms")
_SUMMED = ("events_in_per_s", "events_out_per_s", "running_tasks", "tasks_without_reuse")


def outputs(viewer: Viewer, dataflow_id: UUID | str) -> list[dict[str, str]]:
    """Named outputs of a running dataflow, in the order of its document."""
    record = dataflow_for(viewer, dataflow_id)
    estate = current_estate()
    states = []
    for task, channel in _output_channels(record).items():
        config = estate.tasks[estate.submitted[str(record.pk)].running[task]].config
        states.append({"task": task, "name": str(config.get("name") or task), "channel": channel})
    return states


def output_tail(viewer: Viewer, dataflow_id: UUID | str, task_id: str, *, count: int = 20) -> list[dict[str, Any]]:
    """The newest events of a named output, newest first."""
    record = dataflow_for(viewer, dataflow_id)
    channel = _output_channels(record).get(task_id)
    if channel is None:
        raise NotFound("This dataflow has no such named output.", remedy="See its outputs while it runs.")
    require_readable(viewer, current_estate().submitted[str(record.pk)].running[task_id])
    return jobs.output_tail(channel, max(1, min(count, MOST_EVENTS)))[::-1]


def running_task_of(viewer: Viewer, dataflow_id: UUID | str, task: str) -> str:
    """The running task that a task of a dataflow is; ``NotFound`` where it does not run, or they may not know of it."""
    record = dataflow_for(viewer, dataflow_id)
    submitted = current_estate().submitted.get(str(record.pk))
    if submitted is None or task not in submitted.running:
        raise NotFound("This dataflow has no such task that runs.", remedy="See its graph for those that there are.")
    return submitted.running[task]


def estate_history(viewer: Viewer, *, minutes: int = 60) -> dict[str, list]:
    """Columns over time (``at`` in ISO 8601): events in and out per second, running tasks, tasks without reuse.

    Summed over the shared tasks and the private ones that the viewer may know of.
    """
    return {
        name: [value if name == "at" else round(value or 0.0, 1) for value in column]
        for name, column in _columns(viewer, ESTATE, "", _SUMMED, minutes).items()}


def dataflow_history(viewer: Viewer, dataflow_id: UUID | str, *, minutes: int = 60) -> dict[str, list]:
    """Columns over time of one dataflow: events in and out per second, latency p50 and p99 in ms."""
    record = dataflow_for(viewer, dataflow_id)
    return _columns(viewer, DATAFLOW, str(record.pk), _OF_DATAFLOWS, minutes)


def _columns(viewer: Viewer, kind: str, subject: str, metrics: tuple[str, ...], minutes: int) -> dict[str, list]:
    """The moments, ten seconds apart, at which the first metric was measured, and what all of them were then."""
    now_s = int(timezone.now().timestamp())
    span = Range(now_s - 60 * minutes, now_s + 1, TEN_SECONDS)
    kept_history = history_of(viewer, kind, subject, span, metrics=metrics, annotated=False)
    nothing = [None] * len(kept_history.times_s)
    columns = {name: kept_history.values.get(name, nothing) for name in metrics}
    present = [index for index, value in enumerate(columns[metrics[0]]) if value is not None]
    return {"at": [datetime.fromtimestamp(kept_history.times_s[index], UTC).isoformat() for index in present]} | {
        name: [column[index] for index in present] for name, column in columns.items()}


def nodes() -> QuerySet[NodeRow]:
    """Nodes by name."""
    return NodeRow.objects.all()


def _output_channels(record: DataflowRecord) -> dict[str, str]:
    """The channel of each named output of a dataflow that is in the estate, by submitted task id."""
    estate, types = current_estate(), jobs.task_types()
    submitted = estate.submitted.get(str(record.pk))
    if submitted is None or record.status not in {RUNNING, PAUSING, PAUSED, REMOVING}:
        return {}
    channels = {}
    for task in submitted.sinks:
        running = submitted.running[task]
        declared = types.get(estate.tasks[running].type)
        if declared is not None and declared.terminal == "output":
            channels[task] = estate.channel_of(running)
    return channels
