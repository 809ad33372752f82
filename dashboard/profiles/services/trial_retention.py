"""Forgetting the raw series of old trials: what was found by them stays."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from dashboard.profiles.models import TrialRecord


def forget_series(at: datetime) -> int:
    """Drop series and batches of trials that ended longer ago than they are kept; of how many.

    Measurements, so nothing is audited.
    """
    if not settings.TRIALS_KEEP_DAYS:
        return 0
    old = TrialRecord.objects.filter(ended__lt=at - timedelta(days=settings.TRIALS_KEEP_DAYS))
    return old.exclude(series=[], batches=[]).update(series=[], batches=[])
