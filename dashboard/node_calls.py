"""What the site asks of nodes while somebody waits for it."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings

from dashboard.jobs import broker, broker_needed
from scheduler.contracts.logs import LogAnswer, LogOrder
from workers.engine import log_store

ANSWER_S = 2.0


def read_logs(orders: Sequence[LogOrder]) -> dict[str, LogAnswer]:
    """What nodes answer in time, by node; raises ``BrokerAway``."""
    with broker_needed("so logs cannot be read."):
        return log_store.ask(broker(settings.REDIS_URL), orders, within_s=ANSWER_S)
