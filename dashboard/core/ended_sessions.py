"""Sessions that have ended: Django keeps their rows."""

from __future__ import annotations

from datetime import datetime

from django.contrib.sessions.models import Session


def drop_ended_sessions(at: datetime) -> int:
    """Delete them; how many there were."""
    return Session.objects.filter(expire_date__lt=at).delete()[0]
