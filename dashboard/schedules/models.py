"""What was measured of dataflows that run by a schedule, from moment to moment."""

from __future__ import annotations

from django.db import models


class Reading(models.Model):
    """What was measured of a scheduled dataflow at one moment: `scheduler.performance.outcome.Seen` as JSON."""

    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.CASCADE, related_name="readings")
    at = models.DateTimeField(db_index=True)
    seen = models.JSONField()

    class Meta:
        ordering = ["at"]
        indexes = [models.Index(fields=["dataflow", "at"])]
