"""Tell every process of the site that a user's access changed, after the transaction that changed it has committed.

Live connections are checked on a schedule too, so a broker that is away delays the check and loses nothing.
"""

from __future__ import annotations

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

GROUP = "weir-access"
log = structlog.get_logger(__name__)


def access_changed(user_id: int) -> None:
    """Have every live connection of this user checked again, after commit."""
    transaction.on_commit(lambda: _send(user_id), robust=True)


def _send(user_id: int) -> None:
    try:
        async_to_sync(get_channel_layer().group_send)(GROUP, {"type": "access", "user": user_id})
    except Exception as error:  # the broker's client raises many kinds; none is worth more than a line in the log
        log.warning("access_notice_lost", error=str(error))
