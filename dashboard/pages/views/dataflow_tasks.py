"""The tasks of a dataflow: all of them as a table, and one of them in the panel beside the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard.catalog import selectors as catalog
from dashboard.catalog.document_checks import columns_in
from dashboard.catalog.models import DataflowRecord
from dashboard.operations import selectors as operations
from dashboard.operations.elements import QueryDetail, queries_with, query_of
from dashboard.operations.key_rings import is_ring
from dashboard.pages.graphs import stream_id
from scheduler.model.alternates import is_dynamic
from scheduler.model.errors import NotFound

SHARED_SHOWN = 12


@require_safe
@operations.one_look()
def dataflow_tasks(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Tasks and streams as tables, which the page asks for when they open: of many tasks they are large."""
    graph = catalog.graph_of(catalog.dataflow(request.viewer, dataflow_id))
    live = operations.live_dataflow(request.viewer, dataflow_id)
    named = [(stream_id(stream["source"], stream["target"]), stream) for stream in graph["streams"]]
    return render(request, "parts/task_table.html", {
        "tasks": [{**task, "live": live["tasks"].get(task["id"], {})} for task in graph["tasks"]],
        "streams": [
            {**stream, "id": name, "live": live["streams"].get(name, {}),
             "running": _running_ends(live["tasks"], stream)} for name, stream in named]})


@require_safe
@operations.one_look()
def dataflow_task(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """One task of a dataflow: its streams with their newest events, its query with log and errors, its config."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    graph, live = catalog.graph_of(record), operations.live_dataflow(request.viewer, dataflow_id)
    described = next((entry for entry in graph["tasks"] if entry["id"] == task), None)
    if described is None:
        raise NotFound("There is no such task in this dataflow.", remedy="See its graph for those that there are.")
    running = live["tasks"].get(task)
    version = catalog.current_version(record)
    columns = columns_in(version.text, format=version.format).get(task)
    return render(request, "parts/task_panel.html", {
        "record": record, "task": described, "live": running, "columns": columns.outputs.types if columns else {},
        "queries": _queries(request, running), "source": live["sources"].get(task), "sink": live["sinks"].get(task),
        "ring": running is not None and is_ring(request.viewer, running["running"]),
        "shared_shown": SHARED_SHOWN, "is_dynamic": is_dynamic(described["type"]),
        "incoming": [
            {**stream, "id": stream_id(stream["source"], task), "live": live["streams"].get(
                stream_id(stream["source"], task), {}), "events": _events(live["tasks"].get(stream["source"]))}
            for stream in graph["streams"] if stream["target"] == task],
        "outgoing": _output(request, record, task) or _events(running),
        **_log(request, record, task),
    })


def _running_ends(tasks: Mapping[str, Any], stream: Mapping[str, str]) -> tuple[str, str] | None:
    """The running tasks at both ends of a stream, where it is in the estate."""
    source, target = tasks.get(stream["source"]), tasks.get(stream["target"])
    return (source["running"], target["running"]) if source and target else None


def _queries(request: HttpRequest, running: Any) -> list[QueryDetail]:
    if running is None:
        return []
    return [query_of(request.viewer, query.id) for query in queries_with(request.viewer, running["running"])]


def _output(request: HttpRequest, record: DataflowRecord, task: str) -> str:
    """The address of the events that an output keeps; empty for other tasks."""
    outputs = {output["task"] for output in operations.outputs(request.viewer, record.pk)}
    return reverse("output_events", args=[record.pk, task]) if task in outputs else ""


def _log(request: HttpRequest, record: DataflowRecord, task: str) -> dict[str, str]:
    """The address of the task's log; nowhere for others than its team, for lines may show values of events."""
    if not request.viewer.sees_private_of(record.team_id):
        return {}
    return {f"log_{part}": f"{reverse(name, args=[record.pk])}?{urlencode({'task': task})}"
            for part, name in (("page", "dataflow_log"), ("lines", "dataflow_log_lines"))}


def _events(running: Any) -> str:
    """The address of the newest events of a running task's stream."""
    return reverse("running_task_events", args=[running["running"]]) if running else ""
