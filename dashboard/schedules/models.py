"""Measurements of dataflows that run by a schedule: from moment to moment, and what is kept of it for good."""

from __future__ import annotations

from django.db import models


class ScheduleReading(models.Model):
    """The measurements of a schedule at one moment: what was seen of each slot, rate and latency, as JSON.

    ``since`` tells apart the times that a schedule ran: it is when the last plan for its dataflow was done.
    """

    proposal = models.ForeignKey("approvals.Proposal", on_delete=models.CASCADE, related_name="readings")
    since = models.DateTimeField()
    at = models.DateTimeField()
    seen = models.JSONField()

    class Meta:
        ordering = ["at"]
        indexes = [models.Index(fields=["proposal", "since", "at"], name="readings_of_a_schedule")]


class KeptOutcome(models.Model):
    """The measurements of a schedule in the last minutes of the last time that it ran, one row a proposal.

    ``seen`` is the typical `Seen` of these minutes, ``history`` columns ``at``, ``rate_per_s`` and ``latency_s``.
    """

    proposal = models.OneToOneField("approvals.Proposal", on_delete=models.CASCADE, related_name="kept_outcome")
    since = models.DateTimeField()
    begins = models.DateTimeField()
    ends = models.DateTimeField()
    readings = models.PositiveIntegerField()
    seen = models.JSONField()
    history = models.JSONField()
