"""Profiles between their rows and the scheduler's values."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import Length

from dashboard.audit.trail import Audit, inside_command
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.profiles.models import ProfilePoint, ProfileRecord
from dashboard.teams.models import User
from scheduler.model.canonical import canonical_json
from scheduler.model.errors import InvalidProfile
from scheduler.model.profile import Point, Profile
from scheduler.model.profile_csv import ProfileEntry

# Plans read all that is in use. Of each a fifth may be what one person has imported.
MOST_IN_USE = {"profiles": 10_000, "points": 100_000, "characters of configs": 20_000_000}
PART_OF_PERSON = 5
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


def require_room(keys: Collection[str], *, points: int, characters: int, author: User | None) -> None:
    """Raise ``InvalidProfile`` where with profiles of these keys, of an author, more would be in use than may be.

    Parameters
    ----------
    points, characters : int
        The points that these profiles have together, and the characters of their configs.
    """
    lock_generation()  # two that come at once count each other
    more = {"profiles": len(keys), "points": points, "characters of configs": characters}
    others = ProfileRecord.objects.filter(active=True).exclude(key__in=keys)
    _require_within(_amounts(others), more, part=1, whose="")
    if author is not None:
        imported = others.filter(author=author, sweep=None)
        _require_within(_amounts(imported), more, part=PART_OF_PERSON, whose=f" that {author} has imported")


def _amounts(records: QuerySet[ProfileRecord]) -> dict[str, int]:
    """The amounts of `MOST_IN_USE` that these profiles come to."""
    sums = records.aggregate(count=Count("pk"), characters=Sum(Length("config"), default=0))
    points = ProfilePoint.objects.filter(profile__in=records).count()
    return {"profiles": sums["count"], "points": points, "characters of configs": sums["characters"]}


def _require_within(others: Mapping[str, int], more: Mapping[str, int], *, part: int, whose: str) -> None:
    for what, most in MOST_IN_USE.items():
        count = others[what] + more[what]
        if count > most // part:
            of_what = f"{what} of profiles" if what != "profiles" else what
            raise InvalidProfile(
                f"{count} {of_what}{whose} would be in use; {most // part} are the most.",
                remedy="Set aside what nobody needs; nothing was stored.", most=most // part)


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
