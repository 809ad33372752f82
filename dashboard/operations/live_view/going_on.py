"""Queries of nodes of which nothing is heard: which of them would go on elsewhere, from copies of their state."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from dashboard import node_calls
from dashboard.jobs import BrokerAway
from dashboard.operations.estate_store.offered_slots import silent_nodes
from dashboard.operations.models import NodeRow


def copy_holders(queries: Iterable[str]) -> dict[str, str]:
    """The node that would go on with each query from a copy of its state; nothing of a query without one, and of none
    while the broker is away."""
    with suppress(BrokerAway):
        return node_calls.copy_holders(queries, living=_heard_nodes())
    return {}


def all_copy_holders(queries: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """All nodes that have a copy of each query's state from which it could go on, the newest copy first; nothing of one
    without, and of none while the broker is away."""
    with suppress(BrokerAway):
        return node_calls.all_copy_holders(queries, living=_heard_nodes())
    return {}


def _heard_nodes() -> frozenset[str]:
    return frozenset(NodeRow.objects.exclude(name__in=silent_nodes()).values_list("name", flat=True))


def gone_nodes() -> frozenset[str]:
    """The nodes whose queries go on elsewhere; none while the broker is away, as then nothing is heard either."""
    with suppress(BrokerAway):
        return node_calls.lost_nodes()
    return frozenset()
