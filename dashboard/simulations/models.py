"""The row of a simulation: what was asked, how far it is, and what came of it."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from dashboard.simulations import lifecycle

SIDE_BY_SIDE, REPLAY = "side_by_side", "replay"


class SimulationRun(models.Model):
    """A simulation: of a dataflow, algorithms of adaptation side by side; of a proposal, the recorded time with the
    estate as it is and as its plan would make it.

    ``asked`` has what it is asked with (`SimulationSetup`, or hours and generation), ``results`` what is there so far
    by part, and ``parts`` how many there will be. ``progress`` is from 0 to 1.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=20, choices=[(kind, kind) for kind in (SIDE_BY_SIDE, REPLAY)])
    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.CASCADE, related_name="+")
    proposal = models.ForeignKey("approvals.Proposal", null=True, on_delete=models.CASCADE, related_name="+")
    asked = models.JSONField()
    status = models.CharField(max_length=10, default=lifecycle.QUEUED, db_index=True)
    parts = models.PositiveIntegerField()
    progress = models.FloatField(default=0.0)
    results = models.JSONField(default=list)
    reason = models.TextField(blank=True)  # why it failed
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created = models.DateTimeField(auto_now_add=True, db_index=True)
    ended = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created"]

    @property
    def name(self) -> str:
        """Its name in the audit trail."""
        return self.dataflow.name

    @property
    def is_open(self) -> bool:
        """True if it is waited for."""
        return self.status in lifecycle.OPEN
