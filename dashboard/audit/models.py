"""Audit entries: append-only."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class AppendOnly(models.QuerySet):
    """A query set that reads and appends."""

    def update(self, **_: object) -> int:
        raise TypeError("The audit trail is append-only.")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError("The audit trail is append-only.")


class AuditEntry(models.Model):
    """An entry of the audit trail: a person's action on a subject; ``actor`` is empty when the system itself acted."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    verb = models.CharField(max_length=60)
    subject_type = models.CharField(max_length=40)
    subject_id = models.CharField(max_length=64)
    team = models.ForeignKey("teams.Team", null=True, on_delete=models.PROTECT, related_name="+")
    details = models.JSONField(default=dict)

    objects = AppendOnly.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["subject_type", "subject_id"])]

    def save(self, *args: object, **kwargs: object) -> None:
        if self.pk is not None:
            raise TypeError("The audit trail is append-only.")
        super().save(*args, **kwargs)

    def delete(self, *args: object, **kwargs: object) -> tuple[int, dict[str, int]]:
        raise TypeError("The audit trail is append-only.")
