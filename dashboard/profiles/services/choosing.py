"""The choice of the profile of a kind that is in use: another of those that are kept, or none. It undoes an import or a
measurement."""

from __future__ import annotations

from uuid import UUID

from dashboard.audit.trail import Audit, audited
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.permissions import profile_for, require_measuring
from dashboard.profiles.stored_profiles import locked, require_room, supersede
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of


def use_profile(*, actor: User, profile_id: UUID | str) -> ProfileRecord:
    """Put a kept profile in the place of the one of its kind that is in use. Nothing changes where it is that one.

    Raises
    ------
    InvalidProfile
        More profiles would be in use than may be.
    """
    return _changed(actor, profile_id, "profile.use", active=True)


def set_aside_profile(*, actor: User, profile_id: UUID | str) -> ProfileRecord:
    """Take a profile out of use; a profile that it superseded stays out of use. Errors as of `use_profile`."""
    return _changed(actor, profile_id, "profile.set_aside", active=False)


def use_again(record: ProfileRecord) -> ProfileRecord:
    """Put a profile in use again because the one that was measured after it fits worse; by Weir, nobody is asked."""
    with audited(actor=None, verb="profile.use", team=record.team) as audit:
        return _put(audit, record, active=True)


def _changed(actor: User, profile_id: UUID | str, verb: str, *, active: bool) -> ProfileRecord:
    viewer = viewer_of(actor)
    profile = profile_for(viewer, profile_id)
    require_measuring(viewer, team_id=profile.team_id)
    with audited(actor=actor, verb=verb, team=profile.team) as audit:
        if active:
            require_room(
                [profile.key], author=profile.author, points=profile.points.count(), characters=len(profile.config))
        return _put(audit, profile, active=active)


def _put(audit: Audit, profile: ProfileRecord, *, active: bool) -> ProfileRecord:
    audit.subject = record = locked(profile)
    if record.active == active:
        audit.nothing_changed()
        return record
    if active:
        supersede([record.key], audit=audit)
    record.active = active
    record.save(update_fields=["active", "changed"])
    return record
