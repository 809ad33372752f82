"""Questions of the site to nodes, and to what they keep in the broker, while somebody waits for the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import redis
from django.conf import settings

from dashboard.jobs import broker, broker_needed
from scheduler.contracts.driver_pages import DriverPage, DriverPageOrder
from scheduler.contracts.logs import LogAnswer, LogOrder
from scheduler.elasticity.heartbeats import Heartbeat
from scheduler.model.key_loads import KeyLoads
from workers.engine import key_meters, search_store
from workers.engine import lost_nodes as lost
from workers.engine.channels.scripts import ALONE
from workers.engine.driver_page_store import PAGES_OF_DRIVERS
from workers.engine.log_store import LOGS
from workers.engine.search_store import CopiedBlock, SearchProgress
from workers.engine.taps import Tapped

ANSWER_S, PAGE_S = 2.0, 6.0
SITE_SCRIPT = ALONE  # what a script of the site's at the broker begins with


def read_logs(orders: Sequence[LogOrder]) -> dict[str, LogAnswer]:
    """The answers of nodes that came in time, by node; raises ``BrokerAway``."""
    with broker_needed("so logs cannot be read."):
        return LOGS.ask(broker(settings.REDIS_URL), orders, within_s=ANSWER_S)


def driver_page(order: DriverPageOrder) -> DriverPage | None:
    """A page of a driver of Spark's, or None where its node does not answer in time; raises ``BrokerAway``."""
    with broker_needed("so Spark's pages cannot be read."):
        return PAGES_OF_DRIVERS.ask(broker(settings.REDIS_URL), [order], within_s=PAGE_S).get(order.node)


def begin_search(search_id: str, facts: Mapping[str, Any], *, owner: str) -> None:
    """Begin a search, in the place of what this owner searched before; raises ``BrokerAway``."""
    with broker_needed("so nothing can be searched."):
        search_store.begin(broker(settings.REDIS_URL), search_id, facts, owner=owner)


def newest_types(stream: Tapped) -> dict[str, str | None]:
    """The columns of what is copied of a stream for who searches in it, with their types; raises ``BrokerAway``."""
    with broker_needed("so nothing can be searched."):
        return search_store.newest_types(broker(settings.REDIS_URL), stream)


def new_blocks(search_id: str, stream: Tapped) -> list[CopiedBlock]:
    """The copied blocks of a stream that no question of a search has looked at yet; raises ``BrokerAway``."""
    with broker_needed("so nothing can be searched."):
        return search_store.new_blocks(broker(settings.REDIS_URL), search_id, stream)


def add_to_search(
    search_id: str, block: CopiedBlock, events: Sequence[Mapping[str, Any]], *, keep: int
) -> None:
    """Keep what a search found in a block; raises ``BrokerAway``."""
    with broker_needed("so nothing can be searched."):
        search_store.add(broker(settings.REDIS_URL), search_id, block, events, keep=keep)


def search_progress(search_id: str, *, owner: str) -> SearchProgress | None:
    """The progress of a search that this owner began, or None; raises ``BrokerAway``."""
    with broker_needed("so it is not known what was found."):
        return search_store.progress(broker(settings.REDIS_URL), search_id, owner=owner)


def end_search(search_id: str) -> None:
    """Forget a search; raises ``BrokerAway``."""
    with broker_needed("so the search ends by itself."):
        search_store.end(broker(settings.REDIS_URL), search_id)


def copy_holders(queries: Iterable[str], *, living: Collection[str]) -> dict[str, str]:
    """The node of these from whose copy each query would go on; nothing of one without; raises ``BrokerAway``."""
    with broker_needed("so it is not known where copies of state are."):
        return lost.holders_of(broker(settings.REDIS_URL), queries, living=living)


def all_copy_holders(queries: Iterable[str], *, living: Collection[str]) -> dict[str, tuple[str, ...]]:
    """All of these nodes whose copy of each query counts, the newest copy first; nothing of one without; raises
    ``BrokerAway``."""
    with broker_needed("so it is not known where copies of state are."):
        return lost.all_holders_of(broker(settings.REDIS_URL), queries, living=living)


def heartbeats(nodes: Iterable[str]) -> dict[str, Heartbeat]:
    """The newest heartbeat of each of these nodes, and of those that hold copies.

    Raises ``BrokerAway``.
    """
    with broker_needed("so it is not known which nodes are there."):
        return lost.heartbeats(broker(settings.REDIS_URL), nodes)


def lost_nodes() -> frozenset[str]:
    """The nodes whose queries go on elsewhere; raises ``BrokerAway``."""
    with broker_needed("so it is not known which nodes are lost."):
        return lost.lost_nodes(broker(settings.REDIS_URL))


def let_go_on(nodes: Collection[str], *, at_ms: int) -> None:
    """Let queries of these nodes go on elsewhere; one that is heard again takes that back; raises ``BrokerAway``."""
    with broker_needed("so no query goes on elsewhere."):
        lost.declare_lost(broker(settings.REDIS_URL), dict.fromkeys(nodes, at_ms))


def key_loads(writers: Mapping[str, Iterable[str]]) -> dict[str, KeyLoads]:
    """The distribution of events over keys for fragments that are divided by key, by fragment, from the counts of the
    queries that write for each; none where the broker is away, or not enough was counted."""
    try:
        return key_meters.key_loads(broker(settings.REDIS_URL), writers) if writers else {}
    except redis.RedisError:
        return {}


def zones() -> dict[str, str]:
    """The fault zone of each node that has named one; none where the broker is away."""
    try:
        return lost.zones(broker(settings.REDIS_URL))
    except redis.RedisError:
        return {}
