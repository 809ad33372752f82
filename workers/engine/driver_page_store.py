"""Spark's own pages of a driver, asked of a node through the broker and answered there while somebody looks.

    weir:driver-pages:<node>    list of orders that the node's agent has not taken yet (expires after 10 s)
    weir:driver-page:<order>    list with the answer (expires after 10 s)
"""

from __future__ import annotations

import redis

from scheduler.contracts.driver_pages import DRIVER_PAGE_ORDERS, DRIVER_PAGES, DriverPage, DriverPageOrder
from workers.engine.channels.keys import PREFIX

LIVES_S = 10
MOST_ORDERS = 10  # that wait for a node


def ask(broker: redis.Redis, order: DriverPageOrder, *, within_s: float) -> DriverPage | None:
    """The page, or None where the node does not answer in time."""
    pipeline = broker.pipeline()
    pipeline.rpush(_orders(order.node), DRIVER_PAGE_ORDERS.dumps(order))
    pipeline.ltrim(_orders(order.node), -MOST_ORDERS, -1)
    pipeline.expire(_orders(order.node), LIVES_S)
    pipeline.execute()
    popped = broker.blpop([_answer(order.id)], timeout=within_s)
    return None if popped is None else DRIVER_PAGES.loads(popped[1])


def take(broker: redis.Redis, node: str, *, wait_s: float) -> DriverPageOrder | None:
    """The next order of a node, waiting for one.

    Raises
    ------
    InvalidContract
        It is one that this version does not know.
    """
    popped = broker.blpop([_orders(node)], timeout=wait_s)
    return None if popped is None else DRIVER_PAGE_ORDERS.loads(popped[1])


def tell(broker: redis.Redis, order: DriverPageOrder, page: DriverPage) -> None:
    """Answer an order."""
    pipeline = broker.pipeline()
    pipeline.rpush(_answer(order.id), DRIVER_PAGES.dumps(page))
    pipeline.expire(_answer(order.id), LIVES_S)
    pipeline.execute()


def _orders(node: str) -> str:
    return f"{PREFIX}driver-pages:{node}"


def _answer(order_id: str) -> str:
    return f"{PREFIX}driver-page:{order_id}"
