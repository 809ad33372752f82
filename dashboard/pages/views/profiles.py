"""Profiles: the list, one of them with its curves, trials, import and export."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.utils.text import get_valid_filename
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard import jobs
from dashboard.core.http_errors import BadInput, http_status
from dashboard.operations.live_view.nodes import current_machine
from dashboard.pages import flash
from dashboard.pages.profile_figures import profile_figures, trial_figures
from dashboard.profiles import selectors
from dashboard.profiles.estimates import estimated_profiles, scale, why_estimated
from dashboard.profiles.lifecycle import OPEN, PAUSED, SUGGESTED
from dashboard.profiles.measurable import unmeasured
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.permissions import may_measure
from dashboard.profiles.services.choosing import set_aside_profile, use_profile
from dashboard.profiles.services.importing import import_profiles
from dashboard.profiles.stored_profiles import entry_of, profile_of
from dashboard.profiles.sweep_progress import disturbed_by
from dashboard.profiles.trial_orders import bounds_of
from scheduler.model.errors import InvalidProfile, WeirError
from scheduler.model.profile import Point, Profile
from scheduler.model.profile_csv import OPTIONAL, REQUIRED, ProfileEntry, write_entries
from scheduler.performance.drift import BOUND
from scheduler.performance.shipped import BY_TRIALS

PER_PAGE = 50
MOST_OBSERVATIONS = 300
CHOOSING = {
    "use": (use_profile, "Weir plans with this profile now."),
    "set_aside": (set_aside_profile, "Profile set aside. Weir does not plan with it, and you can use it again later."),
}


@require_safe
def profiles(request: HttpRequest) -> HttpResponse:
    """Every active profile that the viewer may know of, what is being measured, and what nobody has measured."""
    search = request.GET.get("q", "").strip()
    page = Paginator(selectors.profiles(request.viewer, search=search), PER_PAGE).get_page(request.GET.get("page"))
    sweeps, machine = selectors.sweeps(request.viewer), current_machine()
    return render(request, "profiles/profiles.html", {
        "page": page, "rows": [row_of(record, machine) for record in page.object_list], "search": search,
        "sweeps": sweeps.filter(status__in=[SUGGESTED, *OPEN, PAUSED]),
        "past": sweeps.exclude(status__in=[SUGGESTED, *OPEN, PAUSED]).order_by("-ended")[:5],
        "set_aside": selectors.set_aside(request.viewer)[:PER_PAGE],
        "estimates": _estimates(search), "scale": scale(),
        "unmeasured": unmeasured(request.viewer), "may_measure": may_measure(request.viewer),
        "machine": machine,
    })


@require_safe
def profile(request: HttpRequest, profile_id: UUID) -> HttpResponse:
    """One profile: curves, points, trials, whether it still holds."""
    record = selectors.profile(request.viewer, profile_id)
    sweep = getattr(record, "sweep", None)
    return render(request, "profiles/profile.html", {
        "record": record, "row": row_of(record, current_machine()), "points": list(record.points.all()),
        "sweep": sweep, "disturbed": disturbed_by(sweep) if sweep else None,
        "bounded": _bounded(record),
        "trials": sweep.trials.without_raw() if sweep else [],
        "history": selectors.history_of(record)[:10],
        "used": selectors.history_of(record).filter(active=True).first(),
        "observed": record.observations.aggregate(times=Count("pk"), shared=Count("pk", filter=Q(shared=True))),
        "may_measure": may_measure(request.viewer, team_id=record.team_id),
    })


@require_POST
def profile_act(request: HttpRequest, profile_id: UUID, way: str) -> HttpResponse:
    """Use it, or set it aside."""
    selectors.profile(request.viewer, profile_id)  # whoever may not know of it gets a 404, not a message
    flash.attempt_named(request, CHOOSING, way, profile_id=profile_id)
    return redirect("profile", profile_id)


@require_safe
def profile_plots(request: HttpRequest, profile_id: UUID) -> JsonResponse:
    """Its figures."""
    record = selectors.profile(request.viewer, profile_id)
    observed = record.observations.order_by("-at")[:MOST_OBSERVATIONS]
    return JsonResponse(profile_figures(profile_of(record), observed))


@require_safe
def profile_export(request: HttpRequest, profile_id: UUID) -> HttpResponse:
    """One profile as a CSV file that imports."""
    record = selectors.profile(request.viewer, profile_id)
    return _file([record], f"profile-{record.task_type}")


@require_safe
def profiles_export(request: HttpRequest) -> HttpResponse:
    """All active profiles of the list as a CSV file that imports."""
    return _file(selectors.profiles(request.viewer, search=request.GET.get("q", "").strip()), "profiles")


@require_safe
def profiles_template(request: HttpRequest) -> HttpResponse:
    """A CSV file to fill in: every column, and an example of two points, of the class of machine that is here."""
    example = Profile(
        "senml_parse", (Point(1, 100.0, 0.25, 0.02), Point(2, 180.0, 0.45, 0.03)), machine=selectors.current_machine(),
        origin="example: replace these rows by your own")
    return _csv(write_entries([ProfileEntry(example)]), "profiles-template")


@require_http_methods(["GET", "HEAD", "POST"])
def profiles_import(request: HttpRequest) -> HttpResponse:
    """Import a CSV file: all of it, or every mistake with its place."""
    if request.method != "POST":
        return _import_page(request)
    file = request.FILES.get("file")
    text = request.POST.get("text", "")
    try:
        if file is not None:
            text = _decoded(file.read())
        machine = selectors.current_machine() if request.POST.get("machine_here") == "1" else ""
        records = import_profiles(actor=request.user, text=text, machine=machine)
    except InvalidProfile as error:
        return _import_page(request, text=text, failure=error, problems=error.facts.get("problems", []), status=422)
    except WeirError as error:
        return _import_page(request, text=text, failure=error, status=http_status(error))
    types = ", ".join(sorted({record.task_type for record in records}))
    flash.success(
        request, f"Imported {len(records)} profile{'s' if len(records) > 1 else ''}: {types}.", code="imported")
    return redirect("profiles")


@require_safe
def trial(request: HttpRequest, trial_id: UUID) -> HttpResponse:
    """One trial: what was asked for, what came of it, on which machine, and its raw series."""
    trial = selectors.trial(request.viewer, trial_id)
    beside = trial.sweep.trials.without_raw()
    return render(request, "profiles/trial.html", {
        "trial": trial, "sweep": trial.sweep, "machine": sorted(trial.machine.items()),
        "versions": sorted(trial.versions.items()), "quantiles": sorted(trial.quantiles.items()),
        "earlier": beside.filter(number__lt=trial.number).last(),
        "later": beside.filter(number__gt=trial.number).first(),
        "again": beside.filter(
            number__gt=trial.number, threads=trial.threads, rate_per_s=trial.rate_per_s).first(),
    })


@require_safe
def trial_plots(request: HttpRequest, trial_id: UUID) -> JsonResponse:
    """Its raw series as figures."""
    return JsonResponse(trial_figures(selectors.trial(request.viewer, trial_id)))


def _estimates(search: str) -> list[dict[str, Any]]:
    """The estimates that Weir plans with for types that nobody has measured here, by name."""
    measured = set(ProfileRecord.objects.filter(active=True, config="", team=None).values_list("task_type", flat=True))
    words = search.casefold().split()
    return [
        {"type": profile.task_type, "peak": profile.peak, "why": why_estimated(profile),
         "by_trials": profile.origin == BY_TRIALS}
        for profile in sorted(estimated_profiles(), key=lambda profile: profile.task_type)
        if profile.task_type not in measured and all(word in profile.task_type for word in words)]


def row_of(record: ProfileRecord, machine: str) -> dict[str, Any]:
    """A profile with its peak and whether it still holds."""
    profile = profile_of(record)
    return {
        "record": record, "peak": profile.peak, "stale": selectors.staleness(profile, machine=machine),
        "drifts": [drift for drift in record.drifts if drift["beyond"]], "drift_bound": BOUND,
        "imported": not hasattr(record, "sweep"), "installed": record.task_type in jobs.task_types(),
    }


def _bounded(record: ProfileRecord) -> list[int]:
    """Thread counts that sustain the highest rate that was asked for, and may sustain more."""
    sweep = getattr(record, "sweep", None)
    most = bounds_of(sweep).largest_rate_per_s if sweep else math.inf
    return [point.threads for point in record.points.all() if point.rate_per_s >= most]


def _import_page(request: HttpRequest, *, status: int = 200, **context: Any) -> HttpResponse:
    return render(request, "profiles/import.html", {
        "required": REQUIRED, "optional": OPTIONAL, "machine": selectors.current_machine(),
        "machine_here": request.method != "POST" or request.POST.get("machine_here") == "1",
        "may_measure": may_measure(request.viewer), **context,
    }, status=status)


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"The file is not UTF-8: byte {error.start + 1} cannot stand there.",
            remedy="Save it as UTF-8 and import again.") from error


def _file(records: Any, name: str) -> HttpResponse:
    return _csv(write_entries(map(entry_of, records)), name)


def _csv(text: str, name: str) -> HttpResponse:
    response = HttpResponse(text, content_type="text/csv; charset=utf-8")
    # A type may be called anything: what no header or file holds is left out of the file's name.
    response["Content-Disposition"] = content_disposition_header(True, get_valid_filename(f"{name}.csv"))
    return response
