"""Profiles between their rows and the scheduler's values."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from django.db.models import Count, Q

from dashboard.audit.trail import Audit, inside_command
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.profiles.models import ProfilePoint, ProfileRecord
from dashboard.teams.models import User
from scheduler.model.canonical import canonical_json
from scheduler.model.errors import InvalidProfile
from scheduler.model.profile import Point, Profile
from scheduler.model.profile_csv import ProfileEntry

MOST_IN_USE, MOST_OF_PERSON = 10_000, 2_000  # in all, and of those that one person has imported: plans read them
FIELDS = ("threads", "rate_per_s", "cpu", "memory", "idle_cpu", "idle_memory", "event_cpu")


def profile_of(record: ProfileRecord) -> Profile:
    """The scheduler's profile of a row; its points should be fetched."""
    return Profile(
        record.task_type, tuple(point_of(row) for row in record.points.all()), config=record.config,
        version=record.version, machine=record.machine, static=record.static, origin=record.origin, code=record.code)


def entry_of(record: ProfileRecord) -> ProfileEntry:
    """A row's profile as it is exported, with what its measurement left open; its points should be fetched."""
    return ProfileEntry(profile_of(record), rough=tuple(record.rough), at_least=tuple(record.at_least))


def point_of(row: ProfilePoint) -> Point:
    """The scheduler's point of a row."""
    return Point(**{name: getattr(row, name) for name in FIELDS})


def key_of(profile: Profile, team_id: int | None) -> str:
    """A digest of what a profile is of; two of one key cannot both be active."""
    parts = [profile.task_type, profile.config, profile.machine, team_id]
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def locked(record: ProfileRecord) -> ProfileRecord:
    """The row as it is now, and as it stays until the command ends."""
    lock_generation()
    return ProfileRecord.objects.select_for_update(of=("self",)).select_related("team", "author").get(pk=record.pk)


def require_room(keys: Collection[str], *, author: User | None) -> None:
    """Raise ``InvalidProfile`` where with profiles of these keys, of an author, more would be in use than may be."""
    lock_generation()  # two that come at once count each other
    others = ProfileRecord.objects.filter(active=True).exclude(key__in=keys).aggregate(
        count=Count("pk"), of_author=Count("pk", filter=Q(author=author, author__isnull=False, sweep=None)))
    of_author = 0 if author is None else len(keys) + others["of_author"]
    for count, most, whose in (
        (of_author, MOST_OF_PERSON, f" that {author} has imported"), (len(keys) + others["count"], MOST_IN_USE, ""),
    ):
        if count > most:
            raise InvalidProfile(
                f"{count} profiles{whose} would be in use; {most} are the most.",
                remedy="Set aside what nobody needs; nothing was stored.", most=most)


def supersede(keys: Collection[str], *, audit: Audit) -> None:
    """Take what is in use of these keys out of use, for others that come; under the lock of the generation."""
    superseded = ProfileRecord.objects.select_for_update(of=("self",)).filter(
        key__in=keys, active=True).select_related("team")
    for before in superseded:
        audit.also(verb="profile.supersede", subject=before, team=before.team)
    superseded.update(active=False)


def store_profiles(
    entries: Sequence[ProfileEntry], *, audit: Audit, author: User | None = None, team_id: int | None = None,
) -> list[ProfileRecord]:
    """Store profiles, each of another key, in place of the active ones; inside the command whose ``audit`` is given."""
    if not inside_command():
        raise RuntimeError("a profile is stored inside an audited command only")
    lock_generation()  # of two that come at once for one key, the later one supersedes the earlier
    records = [_record_of(entry, author=author, team_id=team_id) for entry in entries]
    supersede([record.key for record in records], audit=audit)
    ProfileRecord.objects.bulk_create(records)
    ProfilePoint.objects.bulk_create(
        ProfilePoint(profile=record, **{name: getattr(point, name) for name in FIELDS})
        for record, entry in zip(records, entries, strict=True) for point in entry.profile.points)
    return records


def _record_of(entry: ProfileEntry, *, author: User | None, team_id: int | None) -> ProfileRecord:
    profile = entry.profile
    return ProfileRecord(
        key=key_of(profile, team_id), task_type=profile.task_type, config=profile.config, version=profile.version,
        machine=profile.machine, code=profile.code, static=profile.static, origin=profile.origin, team_id=team_id,
        author=author, rough=list(entry.rough), at_least=list(entry.at_least))
