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
    heard = frozenset(NodeRow.objects.exclude(name__in=silent_nodes()).values_list("name", flat=True))
    with suppress(BrokerAway):
        return node_calls.copy_holders(queries, living=heard)
    return {}


def gone_nodes() -> frozenset[str]:
    """The nodes whose queries go on elsewhere; none while the broker is away, as then nothing is heard either."""
    with suppress(BrokerAway):
        return node_calls.lost_nodes()
    return frozenset()
