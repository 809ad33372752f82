"""Schedules: slots with what they hold."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.approvals import selectors as approvals
from dashboard.plans.selectors import plan_of
from dashboard.schedules.slots import slots_grid
from scheduler.model.errors import NotFound

OPEN_UP_TO = 24  # slots whose bundles are listed at once; with more, each is opened by itself


@require_safe
@login_required
def slots(request: HttpRequest) -> HttpResponse:
    """Nodes and slots with their bundles; with ``proposal``, before and after its plan."""
    proposal, plan = _looked_at(request)
    grid = slots_grid(request.viewer, plan=plan)
    changed = [slot for slot in grid.slots if slot.changes]
    only = request.GET.get("only") == "changed" and plan is not None
    return render(request, "slots/slots.html", {
        "grid": grid, "proposal": proposal, "changed": len(changed), "only": only,
        "opened": len(changed if only else grid.slots) <= OPEN_UP_TO,
        "bundles": sum(len(slot.bundles) for slot in grid.slots),
        "empty": sum(1 for slot in grid.slots if not slot.bundles and not slot.reserved_for),
        "live": {"available": grid.reading.available, "reason": grid.reading.reason}, "live_topic": "estate",
    })


def _looked_at(request: HttpRequest) -> tuple[Any, Any]:
    """The proposal that the address names, with its plan."""
    named = request.GET.get("proposal", "")
    if not named:
        return None, None
    proposal = approvals.proposal(request.viewer, named)
    plan = plan_of(proposal.plan)
    if plan is None:
        raise NotFound("This proposal has no plan yet.", remedy="Wait until it is computed.")
    return proposal, plan
