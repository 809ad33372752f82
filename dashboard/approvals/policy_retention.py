"""Deletion of expired holds and posted events, and of policies and holds of tasks that are gone. The audit trail
stays."""

from __future__ import annotations

from datetime import datetime

from dashboard.approvals.models import Proposal
from dashboard.core.database import writing
from dashboard.operations.models import AlternateHold, KeyHold, PolicyVersion, PostedEvent, RunningTaskRow
from dashboard.operations.policies.posted_events import KEPT


def forget_policies(at: datetime) -> int:
    """Delete old posted events, expired holds, and policies and holds of tasks that left the estate; how many rows.

    Policies and holds stay while a plan is under way: rolling it back may bring its tasks back.
    """
    with writing():
        count, _ = PostedEvent.objects.filter(posted__lt=at - KEPT).delete()
        for hold in (AlternateHold, KeyHold):
            count += hold.objects.filter(until__lte=at).delete()[0]
        if not Proposal.objects.under_way().exists():
            running = RunningTaskRow.objects.values("pk")
            for model in (AlternateHold, KeyHold, PolicyVersion):
                count += model.objects.exclude(task__in=running).delete()[0]
        return count
