"""A sink that writes to another system: how far behind it is, what was refused, and writing again what is kept."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.catalog import selectors as catalog
from dashboard.operations import selectors as operations
from dashboard.operations.live_view import sink_statuses
from dashboard.pages import flash
from dashboard.pages.views.dataflows import LETTERS_SHOWN, found_or_problem, moment_of
from dashboard.teams.models import Role


@require_safe
def sink(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """One sink, with the events that its other system refused, newest first."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    letters, problem = found_or_problem(
        lambda: operations.refused_events(request.viewer, dataflow_id, task, count=LETTERS_SHOWN))
    live = operations.live_dataflow(request.viewer, dataflow_id)
    standing = live["sinks"].get(task, {})
    return render(request, "sink.html", {
        "record": record, "live": live, "task": task, "letters": letters, "problem": problem, "sink": standing,
        "waiting_since": moment_of(standing.get("waiting_since_ms")),
        "kept_since": moment_of(standing.get("kept_since_ms")),
        "wrote": moment_of(standing.get("at_ms")), "tried_next": moment_of(standing.get("retry_at_ms")),
        "may": request.viewer.has_role(record.team_id, Role.ENGINEER)})


@require_POST
def write_again(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """Let a sink write again what is kept."""
    catalog.dataflow(request.viewer, dataflow_id)
    flash.attempt(
        request, lambda: sink_statuses.write_again(
            actor=request.user, dataflow_id=dataflow_id, task_id=task, extent=request.POST.get("what", ""),
            since=request.POST.get("since", "").strip(), understood=request.POST.get("understood") == "yes"),
        text="The sink writes them again after the current batch. This page shows the result.",
        code="write-again")
    return redirect("sink", dataflow_id, task)
