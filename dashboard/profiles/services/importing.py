"""Importing profiles from CSV: all of a file, or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.core.spreadsheets import is_formula
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.permissions import require_measuring
from dashboard.profiles.stored_profiles import key_of, require_room, store_profiles
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.canonical import canonical_config, canonical_json
from scheduler.model.errors import InvalidProfile, Problem
from scheduler.model.profile import Profile
from scheduler.model.profile_csv import ProfileEntry, column_of, read_entries, require_none

UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
LONGEST = {  # by field: its column and the most characters
    "task_type": ("task", 100), "machine": ("machine", 120), "origin": ("origin", 200), "code": ("code", 64)}
MOST_PROFILES = 1_000  # of a file, in one transaction that others wait for
MOST_POINTS = 10_000
LATEST_VERSION = 1_000_000
Found = tuple[int | None, str, str, str]  # a mistake: line, column's name, message and remedy


def import_profiles(*, actor: User, text: str, machine: str = "") -> list[ProfileRecord]:
    """Import the profiles of a CSV file, each in place of the active one of its type, config and machine.

    All teams share them. Types need not be installed. Rows without a ``machine`` get the given class; without one their
    profiles are stale as soon as a node has reported its class.

    Raises
    ------
    InvalidProfile
        Something in the file is wrong; each place is in ``facts["problems"]``, and nothing is imported. Or more
        profiles would be in use than may be.
    PermissionDenied
        The actor is engineer of no team.
    """
    require_measuring(viewer_of(actor))
    _require_text(text)
    entries, problems = _canonical(_on_machine(read_entries(text), machine))
    profiles = [entry.profile for entry in entries]
    _require_few(profiles)
    require_none(
        Problem("invalid_profile", message, remedy, line=line, column=column_of(text, column))
        for line, column, message, remedy in (*problems, *_unstorable(entries)))
    with audited(actor=actor, verb="profile.import") as audit:
        require_room(
            {key_of(profile, None) for profile in profiles}, author=actor,
            points=sum(len(profile.points) for profile in profiles),
            characters=sum(len(profile.config) for profile in profiles))
        records = store_profiles(entries, audit=audit, author=actor)
        audit.subject = records[0]
        audit.details = {"profiles": len(records), "types": sorted({profile.task_type for profile in profiles})}
        for record in records[1:]:
            audit.also(verb="profile.import", subject=record, team=None)
        return records


def _on_machine(entries: Iterable[ProfileEntry], machine: str) -> list[ProfileEntry]:
    return [
        entry if entry.profile.machine else replace(entry, profile=replace(entry.profile, machine=machine))
        for entry in entries]


def _require_text(text: str) -> None:
    bad = UNSTORABLE.search(text)
    if bad is not None:
        line, column = text.count("\n", 0, bad.start()) + 1, bad.start() - text.rfind("\n", 0, bad.start())
        require_none([Problem(
            "invalid_profile", "A NUL character or half a surrogate pair cannot be stored", "Remove the character.",
            line=line, column=column)])


def _canonical(entries: Iterable[ProfileEntry]) -> tuple[list[ProfileEntry], list[Found]]:
    """The entries with their configs as tasks are looked up by them; an installed type fills in what the file leaves
    out."""
    read_entries: list[ProfileEntry] = []
    problems: list[Found] = []
    for entry in entries:
        profile, config = entry.profile, entry.profile.config
        if config:
            declared, read = jobs.task_types().get(profile.task_type), json.loads(config)
            try:
                config = canonical_json(read if declared is None else canonical_config(declared, read))
            except ValueError:  # infinite, or not a number at all: Python reads it, and JSON does not have it
                problems.append((
                    entry.line, "config",
                    f"The config {config[:60]} of {profile.task_type} holds a number that JSON does not have",
                    "Correct it."))
        read_entries.append(replace(entry, profile=replace(profile, config=config)))
    return read_entries, problems


def _require_few(profiles: list[Profile]) -> None:
    points = sum(len(profile.points) for profile in profiles)
    if len(profiles) > MOST_PROFILES or points > MOST_POINTS:
        raise InvalidProfile(
            f"The file has {len(profiles)} profiles with {points} points; {MOST_PROFILES} and {MOST_POINTS} are the "
            "most.", remedy="Import it in parts; nothing was stored.")


def _unstorable(entries: Iterable[ProfileEntry]) -> Iterator[Found]:
    """The parts that the database would not take, or an export should not hold."""
    first_profiles: dict[tuple[str, str, str], Profile] = {}
    for entry in entries:
        profile, line = entry.profile, entry.line
        for name, (column, longest) in LONGEST.items():
            text = getattr(profile, name)
            if len(text) > longest:
                yield line, column, f"{column} {text[:40]}… is longer than {longest} characters", "Shorten it."
            if CONTROL.search(text):
                yield line, column, f"{column} {text[:40]!r} holds a line break or control character", "Remove it."
            elif is_formula(text):  # where an export is opened
                yield line, column, f"{column} {text[:40]!r} looks like a formula", "Begin it with a letter."
        if not 1 <= profile.version <= LATEST_VERSION:
            yield (line, "version", f"{profile.task_type} is of version {profile.version}",
                   f"Versions are 1 to {LATEST_VERSION}.")
        first_profile = first_profiles.setdefault((profile.task_type, profile.config, profile.machine), profile)
        if first_profile is not profile:
            field = next((
                name for name in ("version", "code") if getattr(first_profile, name) != getattr(profile, name)), "")
            message = f"{profile.task_type} has two profiles for one config and machine"
            if field:
                yield line, field, f"{message}, which differ in their {field}", f"Leave out that of the older {field}."
            else:
                yield line, "config", f"{message}, which is spelled in two ways", "Spell it alike in all of its rows."
