"""Reading the trail. The caller has checked that the viewer may know of the subject."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from datetime import date

from django.db.models import Model, Q, QuerySet

from dashboard.audit.audit_archive import ARCHIVED
from dashboard.audit.models import AuditEntry
from dashboard.core.spreadsheets import harmless
from dashboard.teams.permissions import Viewer


def entries_of(*subjects: Model) -> QuerySet[AuditEntry]:
    """The trail of these records, newest first."""
    condition = Q(pk__in=[])
    for subject in subjects:
        condition |= Q(subject_type=subject._meta.model_name, subject_id=str(subject.pk))
    return AuditEntry.objects.filter(condition).select_related("actor", "team")


def entries_for(viewer: Viewer) -> QuerySet[AuditEntry]:
    """The part of the trail that a viewer may read: the own teams', or everything as administrator; newest first."""
    entries = AuditEntry.objects.select_related("actor", "team")
    return entries if viewer.superuser else entries.filter(team_id__in=viewer.team_ids)


MOST_WORDS, MOST_EXPORTED = 6, 100_000
SYSTEM = "Weir"  # as whom pages show what nobody did


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of the trail: entries that match every word, of one person, from one day (UTC) to another."""

    words: tuple[str, ...] = ()
    person: str = ""
    first: date | None = None
    last: date | None = None


def search(viewer: Viewer, chosen: AuditFilter) -> QuerySet[AuditEntry]:
    """The chosen part of what the viewer may read, newest first."""
    entries = entries_for(viewer)
    for word in chosen.words[:MOST_WORDS]:
        entries = entries.filter(
            Q(verb__icontains=word) | Q(actor__username__icontains=word) | Q(subject_type__icontains=word)
            | Q(subject_id__istartswith=word) | Q(team__name__icontains=word))
    if chosen.person == SYSTEM:
        entries = entries.filter(actor=None)
    elif chosen.person:
        entries = entries.filter(actor__username=chosen.person)
    if chosen.first is not None:
        entries = entries.filter(at__date__gte=chosen.first)
    if chosen.last is not None:
        entries = entries.filter(at__date__lte=chosen.last)
    return entries


def archived_until() -> str:
    """The newest month of the trail that left the database, as year and month; empty where none has."""
    newest = AuditEntry.objects.filter(verb=ARCHIVED).first()
    return "" if newest is None else str(newest.details["file"]).partition(".")[0]


def people(viewer: Viewer) -> list[str]:
    """The people who did something in the part that the viewer may read, by name."""
    names = entries_for(viewer).exclude(actor=None).order_by().values_list("actor__username", flat=True).distinct()
    return sorted(names)


def as_csv(entries: QuerySet[AuditEntry]) -> str:
    """The newest ``MOST_EXPORTED`` of these entries as CSV text; no cell is a formula to a spreadsheet."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(("at", "actor", "verb", "subject_type", "subject_id", "team", "details"))
    for entry in entries[:MOST_EXPORTED].iterator(chunk_size=2_000):
        writer.writerow(map(harmless, (
            entry.at.isoformat(), entry.actor.username if entry.actor else SYSTEM, entry.verb, entry.subject_type,
            entry.subject_id, entry.team.slug if entry.team else "", json.dumps(entry.details, ensure_ascii=False))))
    return file.getvalue()
