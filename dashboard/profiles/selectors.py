"""Reading profiles, sweeps and trials.

For planning:

- ``profiles_for(tasks, team)``: the profiles to look tasks up in; ``staleness(profile)``: why one says nothing sure;
  all that may be wrong with some: ``warnings.warnings_about``

For pages, API and live connections:

- ``profiles(viewer, …)``: active profiles by type, points fetched; ``profile``, ``history_of(record)``,
  ``set_aside(viewer)``: what was in use last of each kind of which nothing is
- ``sweeps(viewer)``, ``suggested(viewer)``, ``sweep``, ``trial``; how far a sweep is: ``sweep_progress.live_sweep``
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from dashboard import jobs
from dashboard.operations.live_view.nodes import current_machine
from dashboard.profiles import permissions
from dashboard.profiles.estimates import estimated_profiles, is_estimate
from dashboard.profiles.lifecycle import SUGGESTED
from dashboard.profiles.models import ProfileRecord, SweepRecord, TrialRecord
from dashboard.profiles.stored_profiles import profile_of
from dashboard.teams.permissions import Viewer
from scheduler.model.alternates import done_at_first
from scheduler.model.dataflow import Task
from scheduler.model.profile import Profile, Profiles


def profiles_for(
    tasks: Iterable[Task] | None = None, *, team: str = "", machine: str | None = None,
    or_since: datetime | None = None,
) -> Profiles:
    """The profiles in which a dataflow's tasks are looked up, by their very config first, then by their type.

    Parameters
    ----------
    tasks : iterable of Task, optional
        Only profiles of their types are read; all where none are given.
    team : str
        Short name of a private dataflow's team: profiles of its private dataflows come before shared ones.
        Empty for a shared dataflow, whose plan others read.
    machine : str, optional
        Class of machine whose profiles come first; otherwise the one that measures and runs now.

    Returns
    -------
    Profiles
        Where a type has no other profile, its stale one (`staleness` tells); where it has none at all, an estimate
        (`estimates.is_estimate`).
    """
    types = None if tasks is None else {
        step.type for task in tasks for step, _ in done_at_first(task, jobs.task_types())}
    records = records_for(types, team=team, or_since=or_since)
    return Profiles(
        # Estimates first: what was measured or imported for any config takes their place.
        [*estimated_profiles(types), *map(profile_of, records)], task_types=jobs.task_types(),
        machine=current_machine() if machine is None else machine)


def records_for(
    types: Collection[str] | None = None, *, team: str = "", or_since: datetime | None = None
) -> list[ProfileRecord]:
    """The active profiles of these types that count for everybody or, with its short name, for one team, too.

    Of two for one config a later one counts: a team's own after what is shared, what came into use last as the last.
    With ``or_since`` those that were set aside later than that are among them.
    """
    whose = Q(team=None) | Q(team__slug=team) if team else Q(team=None)
    counts = Q(active=True) | Q(changed__gt=or_since) if or_since else Q(active=True)
    records = ProfileRecord.objects.filter(whose, counts)
    if types is not None:
        records = records.filter(task_type__in=types)
    return sorted(records.prefetch_related("points"), key=lambda record: (record.team_id is not None, record.changed))


def staleness(profile: Profile, *, machine: str | None = None) -> str:
    """The reason why a profile is not sure for its type as it is now on the machines that are; empty where it does."""
    declared = jobs.task_types().get(profile.task_type)
    if declared is None:
        return f"the task type {profile.task_type} is not installed"
    if is_estimate(profile):
        return ""
    here = current_machine() if machine is None else machine
    # Before a node has reported nobody knows what the machines are.
    reason = profile.stale(version=declared.version, machine=here or profile.machine, code=jobs.code_of(declared))
    if not reason and here and not profile.machine:
        return f"nobody noted on which machine it was measured; here is {here}"
    return reason


def profiles(viewer: Viewer, *, search: str = "") -> QuerySet[ProfileRecord]:
    """Active profiles that the viewer may know of, by type; see `matching` for ``search``."""
    records = ProfileRecord.objects.filter(permissions.known_to(viewer), active=True)
    return matching(records, search).select_related("team", "author", "sweep").prefetch_related("points")


def matching(records: QuerySet[ProfileRecord], search: str) -> QuerySet[ProfileRecord]:
    """The profiles that have all words, in type, config or origin."""
    for word in search.replace("\0", "").split()[:8]:
        records = records.filter(Q(task_type__icontains=word) | Q(config__icontains=word) | Q(origin__icontains=word))
    return records


def profile(viewer: Viewer, profile_id: UUID | str) -> ProfileRecord:
    """One profile; ``NotFound`` where it is absent or another team's."""
    return permissions.profile_for(viewer, profile_id)


def history_of(record: ProfileRecord) -> QuerySet[ProfileRecord]:
    """All profiles of the same type, config, machine and team, the newest first."""
    return ProfileRecord.objects.filter(key=record.key).order_by("-created").select_related("author")


def set_aside(viewer: Viewer) -> QuerySet[ProfileRecord]:
    """The last used profile of each kind that the viewer may know of and of which none is in use; by type."""
    instead = Q(active=True) | Q(changed__gt=OuterRef("changed"))
    records = ProfileRecord.objects.filter(permissions.known_to(viewer), active=False)
    records = records.exclude(Exists(ProfileRecord.objects.filter(instead, key=OuterRef("key"))))
    return records.select_related("team").prefetch_related("points")


def suggested(viewer: Viewer) -> QuerySet[SweepRecord]:
    """Sweeps that Weir suggests, and that the viewer may start or cancel."""
    team_ids = [team_id for team_id in viewer.roles if permissions.may_measure(viewer, team_id=team_id)]
    whose = Q() if viewer.superuser else Q(team__in=team_ids) | (
        Q(team=None) if permissions.may_measure(viewer) else Q(pk__in=[]))
    return SweepRecord.objects.filter(whose, status=SUGGESTED)


def sweeps(viewer: Viewer) -> QuerySet[SweepRecord]:
    """Sweeps that the viewer may know of, the newest first."""
    return SweepRecord.objects.filter(permissions.known_to(viewer)).select_related("team", "author", "profile")


def sweep(viewer: Viewer, sweep_id: UUID | str) -> SweepRecord:
    """One sweep; ``NotFound`` where it is absent or another team's."""
    return permissions.sweep_for(viewer, sweep_id)


def trial(viewer: Viewer, trial_id: UUID | str) -> TrialRecord:
    """One trial with its series; ``NotFound`` where it is absent or of another team's sweep."""
    return permissions.trial_for(viewer, trial_id)
