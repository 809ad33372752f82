"""Nodes of which nothing is heard and whose queries have copies of their state elsewhere: who goes on with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import redis
from django.conf import settings

from dashboard import jobs
from dashboard.operations.estate_store.offered_slots import silent_nodes
from dashboard.operations.models import NodeRow
from workers.engine import lost_nodes


def copy_holders(queries: Iterable[str]) -> dict[str, str]:
    """The node that would go on with each query from a copy of its state; nothing of a query without one, and of none
    while the broker is away."""
    heard = frozenset(NodeRow.objects.exclude(name__in=silent_nodes()).values_list("name", flat=True))
    try:
        return lost_nodes.holders_of(jobs.broker(settings.REDIS_URL), queries, living=heard)
    except redis.RedisError:
        return {}


def let_go_on(nodes: Mapping[str, datetime]) -> None:
    """Let queries of these nodes go on elsewhere; nodes that are heard again take that back themselves.

    Parameters
    ----------
    nodes : mapping of str to datetime
        Each with when it was found lost.

    Raises
    ------
    BrokerAway
        The broker does not answer.
    """
    with jobs.broker_needed("so no query goes on elsewhere."):
        lost_nodes.declare_lost(
            jobs.broker(settings.REDIS_URL), {node: int(at.timestamp() * 1000) for node, at in nodes.items()})


def gone_nodes() -> frozenset[str]:
    """The nodes whose queries go on elsewhere; none while the broker is away, as then nothing is heard either."""
    try:
        return lost_nodes.lost_nodes(jobs.broker(settings.REDIS_URL))
    except redis.RedisError:
        return frozenset()
