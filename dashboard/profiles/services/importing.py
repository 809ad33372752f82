"""Importing profiles from CSV: all of a file, or nothing."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.permissions import require_measuring
from dashboard.profiles.stored import store_profile
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.canonical import canonical_config, canonical_json
from scheduler.model.errors import InvalidProfile, Problem
from scheduler.model.profile import Profile
from scheduler.model.profile_csv import read_entries

UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")
LONGEST = {"task_type": 100, "machine": 120, "origin": 200, "code": 64}
MOST_PROFILES = 1_000  # of a file: a few statements each, in one transaction that others wait for
MOST_POINTS = 10_000
MOST_THREADS = 100_000
LATEST_VERSION = 1_000_000
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for one, where an export is opened


def import_profiles(*, actor: User, text: str) -> list[ProfileRecord]:
    """Import the profiles of a CSV file, each in place of the active one of its type, config and machine.

    They are everybody's. Types that are not installed may be among them.

    Raises
    ------
    InvalidProfile
        Something in the file is wrong; each place is in ``facts["problems"]``, and nothing is imported.
    PermissionDenied
        The actor is engineer of no team.
    """
    require_measuring(viewer_of(actor))
    _require_text(text)
    entries = [replace(entry, profile=_canonical(entry.profile)) for entry in read_entries(text)]
    profiles = [entry.profile for entry in entries]
    _require_few(profiles)
    _require_storable(profiles)
    with audited(actor=actor, verb="profile.import") as audit:
        records = [
            store_profile(
                entry.profile, audit=audit, author=actor, rough=entry.rough, at_least=entry.at_least)
            for entry in entries]
        audit.subject = records[0]
        audit.details = {"profiles": len(records), "types": sorted({profile.task_type for profile in profiles})}
        for record in records[1:]:
            audit.also(verb="profile.import", subject=record, team=None)
        return records


def _require_text(text: str) -> None:
    found = UNSTORABLE.search(text)
    if found is not None:
        line, column = text.count("\n", 0, found.start()) + 1, found.start() - text.rfind("\n", 0, found.start())
        problem = Problem(
            "invalid_profile", "A NUL character or half a surrogate pair cannot be stored", "Remove the character.",
            line=line, column=column)
        raise InvalidProfile(
            f"{problem.message}: line {line}, column {column}.", remedy="Remove it and import again.",
            problems=[asdict(problem)])


def _canonical(profile: Profile) -> Profile:
    """With its config as tasks are looked up by it; an installed type fills in what the file leaves to defaults."""
    if not profile.config:
        return profile
    declared = jobs.task_types().get(profile.task_type)
    try:
        config = json.loads(profile.config)
        canonical = canonical_json(config if declared is None else canonical_config(declared, config))
    except ValueError as error:  # infinite, or not a number at all: Python reads it, and JSON does not have it
        raise InvalidProfile(
            f"The config {profile.config[:60]} of {profile.task_type} holds a number that JSON does not have.",
            remedy="Correct it and import again; nothing was stored.") from error
    return replace(profile, config=canonical)


def _require_few(profiles: list[Profile]) -> None:
    points = sum(len(profile.points) for profile in profiles)
    if len(profiles) > MOST_PROFILES or points > MOST_POINTS:
        raise InvalidProfile(
            f"The file has {len(profiles)} profiles with {points} points; {MOST_PROFILES} and {MOST_POINTS} are the "
            "most.", remedy="Import it in parts; nothing was stored.")


def _require_storable(profiles: list[Profile]) -> None:
    seen: set[tuple[str, str, str]] = set()
    for profile in profiles:
        for name, longest in LONGEST.items():
            if len(getattr(profile, name)) > longest:
                raise InvalidProfile(
                    f"The {name.replace('_', ' ')} {getattr(profile, name)[:40]}… is longer than {longest} characters.",
                    remedy="Shorten it and import again; nothing was stored.")
            if getattr(profile, name).startswith(FORMULA):
                raise InvalidProfile(
                    f"The {name.replace('_', ' ')} {getattr(profile, name)[:40]!r} looks like a formula.",
                    remedy="Begin it with a letter and import again; nothing was stored.")
        if profile.points[-1].threads > MOST_THREADS or not 1 <= profile.version <= LATEST_VERSION:
            raise InvalidProfile(
                f"The profile of {profile.task_type} is of version {profile.version} with up to "
                f"{profile.points[-1].threads} threads.",
                remedy=f"Versions are 1 to {LATEST_VERSION}, threads at most {MOST_THREADS}; nothing was stored.")
        key = (profile.task_type, profile.config, profile.machine)
        if key in seen:
            raise InvalidProfile(
                f"The file has two profiles of {profile.task_type} for one config and machine, of several versions.",
                remedy="Leave the older version out and import again; nothing was stored.")
        seen.add(key)
