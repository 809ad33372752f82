"""Tell live pages that something changed, after the transaction that changed it has committed.

A notification carries no state: whoever listens reads anew what its viewer may see. Losing one costs at most the
half second until the next look, so a broker that is away is logged and otherwise ignored.
"""

from __future__ import annotations

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

GROUP = "weir-live"
log = structlog.get_logger(__name__)


def changed(*topics: str) -> None:
    """After commit, wake the live builders of these topics (``estate``, ``dataflow:<id>``, ``proposal:<id>``)."""
    transaction.on_commit(lambda: _send({"type": "changed", "topics": list(topics)}), robust=True)


def access_changed(user_id: int) -> None:
    """After commit, have every live connection of this user checked again."""
    transaction.on_commit(lambda: _send({"type": "access", "user": user_id}), robust=True)


def _send(message: dict[str, object]) -> None:
    try:
        async_to_sync(get_channel_layer().group_send)(GROUP, message)
    except Exception as error:  # the broker's client raises many kinds; a wake-up is worth none of them
        log.warning("live_notification_lost", error=str(error))
