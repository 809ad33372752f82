"""The routes of profiles and sweeps. ``docs/api.md`` describes them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status

from dashboard.api.answers.common import Page, row_of
from dashboard.api.answers.profiles import (
    ProfileAnswer,
    ProfileDetail,
    SweepAnswer,
    SweepDetail,
    TrialAnswer,
    TrialDetail,
)
from dashboard.api.query_parameters import Above, Count, NotNegative
from dashboard.api.request_schema import RequestSchema
from dashboard.api.schemas import page_of
from dashboard.operations.live_view.nodes import current_machine
from dashboard.profiles import selectors
from dashboard.profiles.models import ProfileRecord, SweepRecord, TrialRecord
from dashboard.profiles.services.choosing import set_aside_profile, use_profile
from dashboard.profiles.services.importing import import_profiles
from dashboard.profiles.services.sweeps import (
    bounds_for,
    cancel_sweep,
    manner_of,
    pause_sweep,
    resume_sweep,
    start_sweep,
)
from dashboard.profiles.stored_profiles import entry_of, profile_of
from dashboard.profiles.sweep_progress import disturbed_by, progress_of
from dashboard.profiles.targets import SweepTarget, target_again, target_of_task, target_of_type
from scheduler.model.errors import NotFound
from scheduler.model.profile_csv import write_entries

router = Router()
MANNER = ("any_config", "warm_up_s", "seconds")
BOUNDS = ("budget_s", "largest_threads", "smallest_rate_per_s", "largest_rate_per_s")
STEERING = {"pause": pause_sweep, "resume": resume_sweep, "cancel": cancel_sweep}


class ProfilesIn(RequestSchema):
    """Profiles as the text of a CSV file; ``machine`` is the class of machine of rows that name none."""

    text: str
    machine: str = ""


class SweepIn(RequestSchema):
    """The target of a measurement: a ``type`` with a ``config``, a ``task`` of a ``dataflow``, or a ``profile`` again.

    How far and how long is as usual where it is not said, or as that profile was measured.
    """

    type: str = ""
    config: dict[str, Any] = {}
    feed: str = ""
    dataflow: str = ""
    task: str = ""
    profile: str = ""
    slot: str
    budget_s: Above = None
    largest_threads: Count = None
    smallest_rate_per_s: Above = None
    largest_rate_per_s: Above = None
    any_config: bool | None = None
    warm_up_s: NotNegative = None
    seconds: Above = None


@router.get("/profiles", response=Page[ProfileAnswer])
def profiles(
    request: HttpRequest, search: str = "", set_aside: bool = False, page: int = Query(1, ge=1, le=10**6)
) -> dict[str, Any]:
    """Active profiles that the caller may know of, by type; or those that were set aside."""
    row = partial(profile_row, machine=current_machine())
    records = selectors.set_aside(request.viewer) if set_aside else selectors.profiles(request.viewer)
    return page_of(selectors.matching(records, search), page, row)


@router.get("/profiles.csv")
def profiles_csv(request: HttpRequest, search: str = "") -> HttpResponse:
    """The same as a CSV file that imports."""
    records = selectors.profiles(request.viewer, search=search)
    return HttpResponse(write_entries(map(entry_of, records)), content_type="text/csv; charset=utf-8")


@router.post("/profiles", response={201: list[ProfileAnswer]})
def import_csv(request: HttpRequest, body: ProfilesIn) -> Status:
    """Import all profiles of a CSV file: 201; or 422 with the place of every mistake, and nothing is imported."""
    records = import_profiles(actor=request.user, text=body.text, machine=body.machine)
    prefetch_related_objects(records, "points")
    machine = current_machine()
    return Status(201, [profile_row(record, machine=machine) for record in records])


@router.get("/profiles/{uuid:profile_id}", response=ProfileDetail)
def profile(request: HttpRequest, profile_id: UUID) -> dict[str, Any]:
    """One profile with its points, how running bundles differ from it, and what load its trials were disturbed by."""
    record = selectors.profile(request.viewer, profile_id)
    sweep = getattr(record, "sweep", None)
    return profile_row(record) | {"busy": disturbed_by(sweep) if sweep else None}


@router.post("/profiles/{uuid:profile_id}/use", response=ProfileAnswer)
def use(request: HttpRequest, profile_id: UUID) -> dict[str, Any]:
    """Put a profile in the place of the one of its kind that is in use."""
    return profile_row(use_profile(actor=request.user, profile_id=profile_id))


@router.post("/profiles/{uuid:profile_id}/set_aside", response=ProfileAnswer)
def leave(request: HttpRequest, profile_id: UUID) -> dict[str, Any]:
    """Take a profile out of use; it is kept."""
    return profile_row(set_aside_profile(actor=request.user, profile_id=profile_id))


@router.get("/sweeps", response=Page[SweepAnswer])
def sweeps(request: HttpRequest, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """Sweeps that the caller may know of, the newest first."""
    return page_of(selectors.sweeps(request.viewer), page, sweep_row)


@router.post("/sweeps", response={201: SweepAnswer})
def start(request: HttpRequest, body: SweepIn) -> Status:
    """Ask for a measurement: 201 with the sweep, which begins as soon as its slot is free."""
    again = selectors.profile(request.viewer, body.profile) if body.profile else None
    fields = body.dict(exclude_none=True)
    manner = replace(manner_of(again), **{name: fields[name] for name in MANNER if name in fields})
    bounds = bounds_for(body.slot, manner.bounds, **{name: fields[name] for name in BOUNDS if name in fields})
    return Status(201, sweep_row(start_sweep(
        actor=request.user, target=_target(request, body), slot=body.slot, bounds=bounds,
        any_config=manner.any_config, warm_up_s=manner.warm_up_s, seconds=manner.seconds)))


@router.get("/sweeps/{uuid:sweep_id}", response=SweepDetail)
def sweep(request: HttpRequest, sweep_id: UUID) -> dict[str, Any]:
    """One sweep: how far it is, and its trials without their series."""
    record = selectors.sweep(request.viewer, sweep_id)
    return sweep_row(record) | {
        "progress": progress_of(record), "trials": [trial_row(trial) for trial in record.trials.without_raw()]}


@router.get("/sweeps/{uuid:sweep_id}/trials/{int:number}", response=TrialDetail)
def trial(request: HttpRequest, sweep_id: UUID, number: int) -> dict[str, Any]:
    """One trial with its raw series and the batches by which it was judged.

    The series has seconds, latency, events/s, CPU and memory of each moment; a batch when it was planned and had ended,
    events in and out, and when these were born on the mean, in seconds of the ``measured_s`` that counted.
    """
    trial_record = selectors.sweep(request.viewer, sweep_id).trials.filter(number=number).first()
    if trial_record is None:
        raise NotFound("This sweep has no such trial.", remedy="See its trials.")
    return trial_row(trial_record) | {
        "series": trial_record.series, "batches": trial_record.batches, "measured_s": trial_record.measured_s}


@router.post("/sweeps/{uuid:sweep_id}/{slug:way}", response=SweepAnswer)
def steer(request: HttpRequest, sweep_id: UUID, way: str) -> dict[str, Any]:
    """Pause, resume or cancel."""
    if way not in STEERING:
        raise NotFound("There is no such action.", remedy=f"It is one of {', '.join(STEERING)}.")
    return sweep_row(STEERING[way](actor=request.user, sweep_id=sweep_id))


def profile_row(record: ProfileRecord, *, machine: str | None = None) -> dict[str, Any]:
    """A profile as the API gives it."""
    profile = profile_of(record)
    return row_of(
        ProfileAnswer, record, config=json.loads(profile.config) if profile.config else None,
        team=record.team.slug if record.team else None,
        stale=selectors.staleness(profile, machine=machine) or None, points=[asdict(point) for point in profile.points])


def sweep_row(record: SweepRecord) -> dict[str, Any]:
    """A sweep as the API gives it."""
    return row_of(
        SweepAnswer, record, config=json.loads(record.config), team=record.team.slug if record.team else None,
        author=record.author_name, profile=str(record.profile_id) if record.profile_id else None)


def trial_row(trial: TrialRecord) -> dict[str, Any]:
    """A trial as the API gives it, without its series."""
    return row_of(TrialAnswer, trial)


def _target(request: HttpRequest, body: SweepIn) -> SweepTarget:
    if body.profile:
        return target_again(selectors.profile(request.viewer, body.profile))
    if body.dataflow:
        return target_of_task(request.viewer, body.dataflow, body.task)
    return target_of_type(body.type, body.config, feed_key=body.feed)
