"""Reading the estate.

For pages, API and live connections:

- ``live_estate(viewer)``, ``live_dataflow(viewer, dataflow_id)``: live documents, described where they are built
- ``outputs(viewer, dataflow_id)``: named outputs of a dataflow: ``task``, ``name``, ``channel``
- ``output_tail(viewer, dataflow_id, task_id, count)``: newest events of one
- ``dead_letters(viewer, dataflow_id, task_id, count)``: what a live source of it could not read
- ``refused_events(viewer, dataflow_id, task_id, count)``: what the other system of a sink of it refused
- ``notable_events(viewer, dataflow_id, count)``: what happened to its queries
- ``estate_history(viewer, minutes)``, ``dataflow_history(viewer, dataflow_id, minutes)``: columns for plots
- ``nodes()``: nodes with their slots and when they were last seen
- ``slots_around(fragments)``: the slots of all that write for some fragments, and of all that read them
- ``slots_gone(slots)``: those that no node offers; ``fragments_where(…)``: fragments by what their rows say
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from dashboard import jobs
from dashboard.catalog.lifecycle import PAUSED, PAUSING, REMOVING, RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate import current_estate, fragments_where, load_estate, load_part_of
from dashboard.operations.estate_reader import slots_around, slots_gone
from dashboard.operations.live import live_dataflow, live_estate
from dashboard.operations.live_sources import dead_letters
from dashboard.operations.models import HistoryPoint, NodeRow
from dashboard.operations.notable import notable_events
from dashboard.operations.sinks import refused_events
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from scheduler.model.errors import NotFound

__all__ = [
    "current_estate", "dataflow_history", "dead_letters", "estate_history", "fragments_where", "live_dataflow",
    "live_estate", "load_estate", "load_part_of", "nodes",
    "notable_events", "output_tail", "outputs", "refused_events", "slots_around", "slots_gone",
]

MOST_EVENTS = 200
_SUMMED = ("events_in_per_s", "events_out_per_s", "running_tasks", "tasks_without_reuse")


def outputs(viewer: Viewer, dataflow_id: UUID | str) -> list[dict[str, str]]:
    """Named outputs of a running dataflow, in the order of its document."""
    record = dataflow_for(viewer, dataflow_id)
    estate = current_estate()
    states = []
    for task, channel in _output_channels(viewer, record).items():
        config = estate.tasks[estate.submitted[str(record.pk)].running[task]].config
        states.append({"task": task, "name": str(config.get("name") or task), "channel": channel})
    return states


def output_tail(viewer: Viewer, dataflow_id: UUID | str, task_id: str, *, count: int = 20) -> list[dict[str, Any]]:
    """The newest events of a named output, newest first.

    Parameters
    ----------
    viewer : Viewer
        Who looks: nothing is given that they may not know of.
    dataflow_id : UUID | str
        The dataflow's id.
    task_id : str
        The task of the output.
    count : int, optional
        How many events at most.
    """
    record = dataflow_for(viewer, dataflow_id)
    channel = _output_channels(viewer, record).get(task_id)
    if channel is None:
        raise NotFound("This dataflow has no such named output.", remedy="See its outputs while it runs.")
    return jobs.output_tail(channel, max(1, min(count, MOST_EVENTS)))[::-1]


def estate_history(viewer: Viewer, *, minutes: int = 60) -> dict[str, list]:
    """Columns over time (``at`` in ISO 8601): events in and out per second, running tasks, tasks without reuse.

    Summed over the shared tasks and the private ones that the viewer may know of.
    """
    points = HistoryPoint.objects.filter(dataflow=None, at__gte=timezone.now() - timedelta(minutes=minutes))
    if not viewer.superuser:
        own = Team.objects.filter(pk__in=viewer.team_ids).values_list("slug", flat=True)
        points = points.filter(scope__in=["", *own])
    rows: dict[Any, dict[str, float]] = {}
    for point in points.order_by("at").values("at", *_SUMMED):
        row = rows.setdefault(point["at"], dict.fromkeys(_SUMMED, 0.0))
        for name in _SUMMED:
            row[name] += point[name]
    return {"at": [at.isoformat() for at in rows]} | {
        name: [round(row[name], 1) for row in rows.values()] for name in _SUMMED}


def dataflow_history(viewer: Viewer, dataflow_id: UUID | str, *, minutes: int = 60) -> dict[str, list]:
    """Columns over time of one dataflow: events in and out per second, latency p50 and p99 in ms."""
    record = dataflow_for(viewer, dataflow_id)
    names = ("events_in_per_s", "events_out_per_s", "latency_p50_ms", "latency_p99_ms")
    points = list(record.history.filter(
        at__gte=timezone.now() - timedelta(minutes=minutes)).order_by("at").values("at", *names))
    return {"at": [point["at"].isoformat() for point in points]} | {
        name: [point[name] for point in points] for name in names}


def nodes() -> QuerySet[NodeRow]:
    """Nodes by name."""
    return NodeRow.objects.all()


def _output_channels(viewer: Viewer, record: DataflowRecord) -> dict[str, str]:
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
