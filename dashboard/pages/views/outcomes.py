"""Planned against actual: what came of a dataflow's schedules."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from dashboard.catalog import selectors as catalog
from dashboard.pages.figures import outcome_rate_figure
from dashboard.schedules import selectors
from scheduler.performance.outcome import Miss

STILL = timedelta(minutes=1)  # without a reading: it is said that nothing is measured just now


@require_safe
@login_required
def outcome(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Planned, predicted and measured: the dataflow, each task, each slot; what was missed, why, and what helps.

    Of the schedule in force, or of the one of ``proposal``.
    """
    found = _asked(request, dataflow_id)
    types = {task["id"]: task["type"] for task in catalog.graph_of(found.record)["tasks"]}
    ends = found.measured.ends
    return render(request, "schedules/outcome.html", {
        "record": found.record, "outcome": found, "promise": found.kept.promise if found.kept else None,
        "missed": [{"miss": miss, "help": _help(miss, found, types)} for miss in found.missed],
        "enough": selectors.ENOUGH, "runs": selectors.schedules_of(request.viewer, dataflow_id),
        "still": found.standing.what == "running" and ends is not None and timezone.now() - ends > STILL,
    })


@require_safe
@login_required
def outcome_plots(request: HttpRequest, dataflow_id: UUID) -> JsonResponse:
    """The measured rate over time beside what was planned and predicted."""
    found = _asked(request, dataflow_id)
    promise = found.kept.promise if found.kept else None
    return JsonResponse({"rate": outcome_rate_figure(
        found.measured.history, planned_per_s=promise.rate_per_s if promise else None,
        predicted_per_s=promise.sustained_per_s if promise else None)})


def _asked(request: HttpRequest, dataflow_id: UUID) -> selectors.Outcome:
    return selectors.outcome_of(request.viewer, dataflow_id, proposal_id=request.GET.get("proposal", ""))


def _help(miss: Miss, found: selectors.Outcome, types: dict[str, str]) -> dict[str, Any] | None:
    """Where a click helps: what it says and where it goes."""
    compare = reverse("schedule", args=[found.record.pk])
    remedy = miss.reason.remedy
    if remedy == "measure":
        asked = urlencode({"dataflow": found.record.pk, "task": miss.reason.task})
        return {"text": f"Measure {types.get(miss.reason.task, miss.reason.task)} again",
                "url": f"{reverse('measure')}?{asked}"}
    if remedy == "compare":
        return {"text": "Compare schedules for what it gets", "url": compare}
    if remedy == "source":
        lower = f"{compare}?{urlencode({'rate': f'{miss.measured:.4g}'})}"
        return {"text": "Compare schedules for the rate that comes", "url": lower}
    if remedy == "threads":
        return {"text": "How a slot gets more threads", "url": f"{reverse('help_guide', args=['schedules'])}#limits"}
    if remedy == "slots":
        return {"text": "See what else is on the slot", "url": reverse("slots")}
    return {"text": "See the dataflow", "url": reverse("dataflow", args=[found.record.pk])}
