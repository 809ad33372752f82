"""Reading the trail. The caller has checked that the viewer may know of the subject."""

from __future__ import annotations

from django.db.models import Model, Q, QuerySet

from dashboard.audit.models import AuditEntry
from dashboard.teams.permissions import Viewer


def entries_of(*subjects: Model) -> QuerySet[AuditEntry]:
    """The trail of these records, newest first."""
    wanted = Q(pk__in=[])
    for subject in subjects:
        wanted |= Q(subject_type=subject._meta.model_name, subject_id=str(subject.pk))
    return AuditEntry.objects.filter(wanted).select_related("actor", "team")


def entries_for(viewer: Viewer) -> QuerySet[AuditEntry]:
    """What a viewer may read of the whole trail: the own teams', or everything as administrator; newest first."""
    entries = AuditEntry.objects.select_related("actor", "team")
    return entries if viewer.superuser else entries.filter(team_id__in=viewer.team_ids)
