"""Measuring: the form that asks for a sweep, its progress, and its pause, resumption and end."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard import jobs
from dashboard.catalog import selectors as catalog
from dashboard.catalog.models import DataflowRecord
from dashboard.core.http_errors import BadInput, http_status
from dashboard.pages import flash
from dashboard.pages.profile_figures import sweep_figure
from dashboard.profiles import approval, selectors, targets
from dashboard.profiles.lifecycle import CANCELLED, LIFECYCLE, PAUSED, QUEUED
from dashboard.profiles.measurable import most_threads, slot_choices, typical_sweep_s
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.profiles.permissions import may_measure, may_steer
from dashboard.profiles.services import sweeps as services
from dashboard.profiles.sweep_progress import disturbed_by, progress_of, speeds_of
from dashboard.profiles.trial_orders import counting
from dashboard.teams.permissions import Viewer
from scheduler.model.canonical import canonical_config
from scheduler.model.errors import InvalidDataflow, WeirError
from scheduler.model.task_types import TaskType
from scheduler.performance.modelling import Sweep

AMOUNTS = {  # of the form: which of the bounds each is, and in what it counts
    "budget_minutes": ("budget_s", 60.0), "largest_threads": ("largest_threads", 1.0),
    "smallest_rate_per_s": ("smallest_rate_per_s", 1.0), "largest_rate_per_s": ("largest_rate_per_s", 1.0),
}
STEERING = {
    "pause": (services.pause_sweep, "Measuring paused. Its trials are kept and its slot is free."),
    "resume": (services.resume_sweep, lambda sweep: f"Measuring {_goes_on(sweep)} as soon as the slot is free."),
    "cancel": (services.cancel_sweep, "Measuring cancelled. You can still read its trials."),
}


@require_http_methods(["GET", "HEAD", "POST"])
def measure(request: HttpRequest) -> HttpResponse:
    """Ask for a sweep: of a task of a dataflow (``dataflow``, ``task``), of a type (``type``) with a config, or of what
    a profile was measured of (``again``)."""
    if request.method != "POST":
        return _form(request, request.GET)
    try:
        manner = _manner(request, request.POST)
        sweep = services.start_sweep(
            actor=request.user, target=_target(request, request.POST), slot=request.POST.get("slot", ""),
            bounds=bounds_given(request.POST, manner.bounds), any_config=request.POST.get("any_config") == "1",
            warm_up_s=_amount(request.POST, "warm_up_s", manner.warm_up_s),
            seconds=_amount(request.POST, "seconds", manner.seconds))
    except InvalidDataflow as error:
        return _form(request, request.POST, failure=error, problems=error.problems)
    except WeirError as error:
        return _form(request, request.POST, failure=error)
    flash.success(request, f"{sweep.task_type} will be measured on {sweep.slot}.", code="measuring")
    return _to_sweep(sweep.pk, wanted_for=request.POST.get("dataflow", ""))


@require_safe
def sweep(request: HttpRequest, sweep_id: UUID) -> HttpResponse:
    """The progress of a sweep, trial by trial."""
    record = selectors.sweep(request.viewer, sweep_id)
    may = may_steer(request.viewer, record)
    return render(request, "profiles/sweep.html", {
        "sweep": record, "progress": progress_of(record), "disturbed": disturbed_by(record),
        "speeds": speeds_of(record),
        "config": json.loads(record.config),
        "trials": record.trials.exclude(ended=None).without_raw().order_by("-number"),
        "may": {way: may and LIFECYCLE.allows(record.status, becomes)
                for way, becomes in (("pause", PAUSED), ("resume", QUEUED), ("cancel", CANCELLED))},
        "wanted_for": catalog.dataflow(request.viewer, request.GET["for"]) if request.GET.get("for") else None,
        "live_topic": f"sweep:{record.pk}",
    })


@require_safe
def sweep_plots(request: HttpRequest, sweep_id: UUID) -> JsonResponse:
    """Its trials as a figure."""
    return JsonResponse(sweep_figure(selectors.sweep(request.viewer, sweep_id).trials.without_raw()))


@require_POST
def sweep_act(request: HttpRequest, sweep_id: UUID, way: str) -> HttpResponse:
    """Pause, resume or cancel."""
    selectors.sweep(request.viewer, sweep_id)  # whoever may not know of it gets a 404, not a message
    flash.attempt_named(request, STEERING, way, sweep_id=sweep_id)
    return _to_sweep(sweep_id, wanted_for=request.GET.get("for", ""))


def _goes_on(sweep: SweepRecord) -> str:
    """The effect of resuming: where nothing was stable, its trials are set aside."""
    return "continues from its trials" if counting(sweep.trials).exists() else "starts again"


def _to_sweep(sweep_id: UUID, *, wanted_for: str) -> HttpResponse:
    """The sweep's page, with a way back to the dataflow whose schedule waits for it, if any."""
    return redirect(reverse("sweep", args=[sweep_id], query={"for": wanted_for} if wanted_for else None))


def _form(request: HttpRequest, form: Any, *, failure: WeirError | None = None, problems: Any = ()) -> HttpResponse:
    declared = jobs.task_types().get(form.get("type", ""))
    again = selectors.profile(request.viewer, form["again"]) if form.get("again") else None
    dataflow = catalog.dataflow(request.viewer, form["dataflow"]) if form.get("dataflow") else None
    slots = slot_choices()
    slot = form.get("slot") or (slots[0].name if slots else "")
    manner = services.manner_of(again)
    bounds = services.bounds_for(slot, manner.bounds)
    owner = again.team if again else dataflow.team if dataflow and dataflow.private else None
    return render(request, "profiles/measure.html", {
        "may_measure": may_measure(request.viewer), "failure": failure, "problems": problems, "given": form,
        "owner": owner, "may_measure_it": may_measure(request.viewer, team_id=owner.pk if owner else None),
        "again": again, "any_config": form.get("any_config") == "1" or (failure is None and manner.any_config),
        "hindrance": _hindrance(request.viewer, declared, again, dataflow),
        "not_approved": _not_approved(request, dataflow),
        "declared": declared, "feeds": targets.feeds_for(declared) if declared else (),
        "config": form.get("config") or (json.dumps(canonical_config(declared, {}), indent=2) if declared else ""),
        "dataflow": dataflow, "tasks": catalog.graph_of(dataflow)["tasks"] if dataflow else (),
        "types": sorted(jobs.task_types().values(), key=lambda task_type: (task_type.kind, task_type.name)),
        "dataflows": catalog.dataflows(request.viewer)[:200],
        "places": slots, "slot": slot,
        "any_free": any(choice.free for choice in slots), "typical_s": typical_sweep_s(),
        "can_start": any(choice.free or choice.reserved_for for choice in slots),
        "amounts": {name: form.get(name) or f"{getattr(bounds, field) / factor:.12g}"
                    for name, (field, factor) in AMOUNTS.items()},
        "most_threads": most_threads(), "warm_up_s": form.get("warm_up_s") or f"{manner.warm_up_s:g}",
        "seconds": form.get("seconds") or f"{manner.seconds:g}",
    }, status=http_status(failure) if failure else 200)


def _hindrance(
    viewer: Viewer, declared: TaskType | None, again: ProfileRecord | None, dataflow: DataflowRecord | None
) -> WeirError | None:
    """The reason why the target of the form may not be measured; of a dataflow each task says so itself."""
    if again is not None:
        return approval.hindrance_of(approval.target_of(again.sweep), viewer) if hasattr(again, "sweep") else None
    return approval.needs_a_dataflow(declared, viewer) if declared is not None and dataflow is None else None


def _not_approved(request: HttpRequest, dataflow: DataflowRecord | None) -> set[str]:
    """The tasks of a dataflow that the viewer cannot measure before reviewers have approved them."""
    if dataflow is None:
        return set()
    tasks = [task["id"] for task in catalog.graph_of(dataflow)["tasks"] if task["kind"]]
    try:
        targets_found = targets.targets_of_tasks(request.viewer, dataflow.pk, tasks)
    except WeirError:  # a type of it is not installed: what is asked for says so
        return set()
    return {task_id for task_id, target in targets_found.items() if approval.hindrance_of(target, request.viewer)}


def _target(request: HttpRequest, form: Any) -> targets.SweepTarget:
    if form.get("again"):
        return targets.target_again(selectors.profile(request.viewer, form["again"]))
    if form.get("dataflow"):
        return targets.target_of_task(request.viewer, form["dataflow"], form.get("task", ""))
    try:
        config = json.loads(form.get("config") or "{}")
    except ValueError as error:
        raise BadInput(f"The config is not valid JSON: {error}.", remedy="Correct it at that place.") from error
    except RecursionError as error:
        raise BadInput("The config is nested too deeply.", remedy="Give fewer levels.") from error
    if not isinstance(config, dict):
        raise BadInput("The config is not a JSON object.", remedy='Write it as {"parameter": value}.')
    return targets.target_of_type(form.get("type", ""), config, feed_key=form.get("feed", ""))


def bounds_given(form: Any, usual: Sweep = services.USUAL) -> Sweep:
    """A sweep's bounds from a form; what it does not say is as usual."""
    amounts = {field: _amount(form, name, None) for name, (field, _) in AMOUNTS.items()}
    values = {field: amounts[field] * factor for field, factor in AMOUNTS.values() if amounts[field] is not None}
    if "largest_threads" in values:
        values["largest_threads"] = int(values["largest_threads"])
    return services.bounds_for(form.get("slot", ""), usual, **values)


def _manner(request: HttpRequest, form: Any) -> services.Manner:
    """The manner of measurement where the form does not say: as what is measured again was."""
    again = form.get("again")
    return services.manner_of(selectors.profile(request.viewer, again) if again else None)


def _amount(form: Any, name: str, default: float | None) -> Any:
    """A number of a form; ``default`` where nothing was given."""
    text = form.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
        int(value)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{name.replace('_', ' ')} is {text!r}.", remedy="Give a number.") from error
    return value
