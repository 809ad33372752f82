"""Permissions to read profiles and sweeps, to measure and to import.

What was measured of a shared dataflow, or imported, is everybody's: all teams plan with it. What was measured of a
private dataflow is its team's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q

from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import is_uuid
from dashboard.profiles.models import ProfileRecord, SweepRecord, TrialRecord
from dashboard.teams.models import Role, Team
from dashboard.teams.permissions import NOBODY, Viewer
from scheduler.model.errors import NotFound, PermissionDenied
from scheduler.model.secrets import TEAM, is_reference


def known_to(viewer: Viewer, *, through: str = "") -> Q:
    """A filter for the profiles and sweeps that a viewer may know of."""
    if viewer.superuser:
        return Q()
    if viewer.user_id == NOBODY.user_id:
        return Q(pk__in=[])
    return Q(**{f"{through}team": None}) | Q(**{f"{through}team_id__in": viewer.team_ids})


def may_measure(viewer: Viewer, *, team_id: int | None = None) -> bool:
    """True if a viewer may measure and import: an engineer of the team whose it is, or of any team."""
    if team_id is not None:
        return viewer.has_role(team_id, Role.ENGINEER)
    return viewer.has_role_anywhere(Role.ENGINEER)


def require_measuring(viewer: Viewer, *, team_id: int | None = None) -> None:
    """Raise ``PermissionDenied`` unless the viewer may measure and import."""
    if not may_measure(viewer, team_id=team_id):
        raise PermissionDenied(
            "Measuring and importing profiles needs the role engineer.",
            remedy="Ask an admin of your team for that role.", role=Role.ENGINEER.label)


def may_steer(viewer: Viewer, sweep: SweepRecord) -> bool:
    """True if a viewer may pause, resume and cancel a sweep: who asked for it, an engineer of the team whose dataflow
    it measures a task of, or an administrator of the installation; one that Weir asked for, any engineer."""
    team_id = sweep.team_id
    if team_id is None and sweep.dataflow_id is not None:
        team_id = DataflowRecord.objects.values_list("team_id", flat=True).filter(pk=sweep.dataflow_id).first()
    if team_id is not None and viewer.has_role(team_id, Role.ENGINEER):
        return True
    is_own = sweep.author_id in (None, viewer.user_id)
    return viewer.administers or (is_own and may_measure(viewer, team_id=sweep.team_id))


def require_steering(viewer: Viewer, sweep: SweepRecord) -> None:
    """Raise ``PermissionDenied`` unless the viewer may steer a sweep (`may_steer`)."""
    if not may_steer(viewer, sweep):
        raise PermissionDenied(
            "Only who asked for this sweep, or an engineer of its team, may steer it.",
            remedy=f"Ask {sweep.author.username}." if sweep.author else "Ask an engineer of its team.")


def require_secrets_of(viewer: Viewer, configs: Iterable[Mapping[str, Any]]) -> None:
    """Raise ``PermissionDenied`` where what is measured opens a secret of a team that the viewer is no engineer of.

    A shared dataflow may be measured by others, but they do not send a team's requests under its name.
    """
    named = {
        value[TEAM] for config in configs for value in config.values() if is_reference(value) and TEAM in value}
    for team in Team.objects.filter(slug__in=named).order_by("slug"):
        if not viewer.has_role(team.pk, Role.ENGINEER):
            raise PermissionDenied(
                f"This is measured with a secret of team {team.name}.",
                remedy="Let an engineer of that team measure it.", role=Role.ENGINEER.label, team=team.slug)


def profile_for(viewer: Viewer, profile_id: UUID | str) -> ProfileRecord:
    """The profile, or ``NotFound`` where it is absent or another team's."""
    return _find(ProfileRecord.objects.select_related("team", "author").filter(known_to(viewer)), profile_id, "profile")


def sweep_for(viewer: Viewer, sweep_id: UUID | str) -> SweepRecord:
    """The sweep, or ``NotFound`` where it is absent or another team's."""
    records = SweepRecord.objects.select_related("team", "author", "profile").filter(known_to(viewer))
    return _find(records, sweep_id, "sweep")


def trial_for(viewer: Viewer, trial_id: UUID | str) -> TrialRecord:
    """The trial, or ``NotFound`` where it is absent or of another team's sweep."""
    records = TrialRecord.objects.select_related("sweep").filter(known_to(viewer, through="sweep__"))
    return _find(records, trial_id, "trial")


def _find(records, record_id: UUID | str, noun: str):
    record = records.filter(pk=record_id).first() if is_uuid(record_id) else None
    if record is None:
        raise NotFound(f"There is no such {noun}.", remedy="See the list of profiles.")
    return record
