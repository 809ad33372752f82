"""Forgetting what was for the policies of tasks that are gone, and for moments that are over. The audit trail stays."""

from __future__ import annotations

from datetime import datetime

from dashboard.approvals.models import Proposal
from dashboard.core.database import writing
from dashboard.operations.models import AlternateHold, KeyHold, PolicyVersion, PostedEvent, RunningTaskRow
from dashboard.operations.policies.posted_events import KEPT


def forget_policies(at: datetime) -> int:
    """Delete posted events that are older than they are kept, holds that are over, and policies and holds of tasks that
    are not in the estate any more; how many rows.

    While a plan is under way tasks may come back, by its rolling back: theirs stay until it is done.
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
