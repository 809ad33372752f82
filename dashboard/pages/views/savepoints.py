"""Named savepoints of a dataflow: the list, taking one, deleting one; the editor begins from one."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.approvals import services
from dashboard.approvals.savepoints_told import savepoints_told
from dashboard.catalog import selectors as catalog
from dashboard.catalog.lifecycle import RUNNING
from dashboard.pages import flash
from dashboard.teams.models import Role


@require_safe
def savepoints(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """The savepoints of a dataflow, and the actions on them."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    return render(request, "savepoints.html", {
        "record": record, "told": savepoints_told(request.viewer, dataflow_id),
        "may": request.viewer.has_role(record.team_id, Role.ENGINEER), "is_running": record.status == RUNNING})


@require_POST
def savepoint_take(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Take one."""
    catalog.dataflow(request.viewer, dataflow_id)
    flash.attempt(
        request, lambda: services.take_savepoint(
            actor=request.user, dataflow_id=dataflow_id, name=request.POST.get("name", ""),
            note=request.POST.get("note", "")),
        text=lambda row: f"Savepoint {row.name} is being taken.", code="savepoint-taken")
    return redirect("savepoints", dataflow_id)


@require_POST
def savepoint_delete(request: HttpRequest, dataflow_id: UUID, savepoint_id: str) -> HttpResponse:
    """Delete one."""
    catalog.dataflow(request.viewer, dataflow_id)
    flash.attempt(
        request, lambda: services.delete_savepoint(
            actor=request.user, dataflow_id=dataflow_id, savepoint_id=savepoint_id),
        text="The savepoint is deleted.", code="savepoint-deleted")
    return redirect("savepoints", dataflow_id)
