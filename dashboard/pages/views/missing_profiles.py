"""Profiles that a schedule is missing: what they are of, how far their measuring is, and measuring all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.catalog import selectors as catalog
from dashboard.pages import flash
from dashboard.pages.views.sweeps import bounds_given
from dashboard.profiles.estimates import estimated_tasks, scale
from dashboard.profiles.measurable import profile_requests, slot_choices, typical_sweep_s
from dashboard.profiles.permissions import may_measure
from dashboard.profiles.services.sweeps import USUAL, start_sweeps
from dashboard.profiles.sweep_progress import progress_of
from dashboard.profiles.targets import SweepTarget
from dashboard.schedules import options
from dashboard.schedules.comparison import missing_of
from scheduler.model.errors import NothingToChange

if TYPE_CHECKING:
    from dashboard.catalog.models import DataflowRecord


@require_POST
def schedule_measure(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """Measure all that is missing for a schedule at the rate of the page, one after the other on one slot."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    rate = request.POST.get("rate", "")
    done = flash.attempt(
        request,
        lambda: start_sweeps(
            actor=request.user, targets=_unasked(request, record, rate), slot=request.POST.get("slot", ""),
            bounds=bounds_given(request.POST)),
        text="Weir measures them one after the other. This page updates itself.", code="measuring")
    again = ("rate",) if done else ("rate", "slot", "budget_minutes")  # what was refused is not typed again
    values = {name: request.POST[name] for name in again if request.POST.get(name)}
    return redirect(reverse("schedule", args=[record.pk], query=values))


def _unasked(request: HttpRequest, record: DataflowRecord, rate: str) -> list[SweepTarget]:
    """The missing parts of a schedule at this rate that nobody has asked for yet; raises where there is nothing."""
    answer = options.ask(record, options.rate_of(rate))
    tasks = unmeasured_tasks(answer)
    if answer.failure is not None and not tasks:
        raise answer.failure
    missing = profile_requests(request.viewer, record.pk, tasks)
    if unasked := [row.target for row in missing if row.unasked]:
        return unasked
    if hindrance := next((row.hindrance for row in missing if row.hindrance), None):
        raise hindrance
    raise NothingToChange("Every missing profile is being measured already.", remedy="This page updates itself.")


def unmeasured_tasks(answer: options.ScheduleOptions) -> tuple[str, ...]:
    """Tasks without a profile; if there are none, tasks with an estimated one."""
    return missing_of(answer.failure) or (estimated_tasks(answer.job.profiles) if answer.job else ())


def missing_part(request: HttpRequest, record: DataflowRecord, answer: options.ScheduleOptions) -> dict[str, Any]:
    """The measurements that a schedule, or a sure one, needs, their progress, and where they could be made."""
    missing = profile_requests(request.viewer, record.pk, unmeasured_tasks(answer))
    if not missing:
        return {"missing": [], "estimated": 0, "waits_for": ""}
    slots = slot_choices()
    unasked, budget_minutes = sum(row.unasked for row in missing), _budget_minutes(request)
    estimated = 0 if missing_of(answer.failure) else len({row.target.task_type for row in missing})
    return {
        "estimated": estimated,
        # The page looks for news of these, and loads anew when it is another.
        "waits_for": f"estimated-{estimated}" if estimated and any(row.under_way for row in missing) else
        "" if estimated else "missing",
        "scale": scale(),
        "missing": [
            {"wanted": row, "progress": progress_of(row.sweep) if row.sweep else None,
             "url": measure_address(record, row.tasks[0])}
            for row in missing],
        "unasked": unasked, "hindered": any(row.hindrance for row in missing),
        "may_measure": may_measure_for(request, record),
        "places": slots, "any_free": any(choice.free for choice in slots),
        "can_start": any(choice.free or choice.reserved_for for choice in slots), "slot": request.GET.get("slot", ""),
        "budget_minutes": budget_minutes, **_duration(unasked),
    }


def _budget_minutes(request: HttpRequest) -> str | float:
    return request.GET.get("budget_minutes") or USUAL.budget_s / 60


def _duration(unasked: int) -> dict[str, float | None]:
    """The expected minutes of measurements of so many types: as what was measured here took; None where nothing was."""
    typical_s = typical_sweep_s()
    return {"expected_minutes": None if typical_s is None else max(1.0, round(unasked * typical_s / 60))}


def measure_address(record: DataflowRecord, task: str) -> str:
    """The address where the type of a task is measured with this dataflow's events."""
    return reverse("measure", query={"dataflow": record.pk, "task": task})


def may_measure_for(request: HttpRequest, record: DataflowRecord) -> bool:
    """True if the viewer may measure the tasks of a dataflow."""
    return may_measure(request.viewer, team_id=record.team_id if record.private else None)
