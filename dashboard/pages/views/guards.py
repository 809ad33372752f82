"""The guards of a dynamic task: what they look at, and what they would have done over the history that is kept."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.approvals.services.guarded_switches import held_until
from dashboard.catalog import selectors as catalog
from dashboard.operations.dynamic_reader import dynamic_tasks
from dashboard.operations.guard_dry_runs import GuardTrial, TriedSwitch, trial_of
from scheduler.guards.task_figures import TASK_FIGURES
from scheduler.model.errors import NotFound, WeirError

SPANS = {1: "the last hour", 6: "the last 6 hours", 24: "the last day", 168: "the last week"}


@require_GET
@login_required
def guards(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """One dynamic task; with ``hours`` the dry run of the guards in the form."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    dynamic = next((each for each in dynamic_tasks(request.viewer, dataflow_id) if each.task == task), None)
    if dynamic is None:
        raise NotFound(f"{record.name} has no task {task} with alternates that runs.",
                       remedy="Choose a task on the dataflow's page.", task=task)
    hours = int(request.GET["hours"]) if request.GET.get("hours") in {str(span) for span in SPANS} else 0
    tried = {each.name: request.GET.get(f"guard_{each.name}", each.guard) for each in dynamic.alternates}
    trial, refused = None, None
    if hours:
        try:
            trial = trial_of(request.viewer, dataflow_id, task, hours=hours, guards=tried)
        except WeirError as error:
            refused = error
    return render(request, "guards.html", {
        "record": record, "task": dynamic, "spans": SPANS, "hours": hours or 24, "trial": trial, "refused": refused,
        "alternates": [(each, tried[each.name]) for each in dynamic.alternates],
        "held_until": held_until([(str(record.pk), task)], at=timezone.now()),
        "switches": _moments(trial), "shares": _shares(trial),
        "figures": [(name, figure.doc, dynamic.readings.get(name)) for name, figure in TASK_FIGURES.items()],
    }, status=400 if refused else 200)


def _moments(trial: GuardTrial | None) -> list[tuple[datetime, TriedSwitch]]:
    return [(datetime.fromtimestamp(each.at_ms / 1000, UTC), each) for each in trial.switches] if trial else []


def _shares(trial: GuardTrial | None) -> list[tuple[str, float]]:
    whole = sum(trial.on_ms.values()) if trial else 0
    return [(name, 100 * ms / whole) for name, ms in trial.on_ms.items()] if trial and whole else []
