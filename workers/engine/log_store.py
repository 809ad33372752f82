"""Lines of logs, asked of a node through the broker and answered there: nothing crosses while nobody asks.

    weir:logs:<node>       list of orders that the node's agent has not taken yet (expires after 10 s)
    weir:log:<order>       list with the answer (expires after 10 s)
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import redis

from scheduler.contracts.logs import LOG_ANSWERS, LOG_ORDERS, LogAnswer, LogOrder
from workers.engine.channels.keys import PREFIX

LIVES_S = 10
MOST_ORDERS = 50  # that wait for a node


def ask(broker: redis.Redis, orders: Sequence[LogOrder], *, within_s: float) -> dict[str, LogAnswer]:
    """What nodes answer in time, by node."""
    pipeline = broker.pipeline()
    for order in orders:
        pipeline.rpush(_orders(order.node), LOG_ORDERS.dumps(order))
        pipeline.ltrim(_orders(order.node), -MOST_ORDERS, -1)
        pipeline.expire(_orders(order.node), LIVES_S)
    pipeline.execute()
    answers, deadline_s = {}, time.monotonic() + within_s
    for order in orders:
        left_s = max(0.01, deadline_s - time.monotonic())  # 0 would be for ever
        popped = broker.blpop([_answer(order.id)], timeout=left_s)
        if popped is not None:
            answers[order.node] = LOG_ANSWERS.loads(popped[1])
    return answers


def take(broker: redis.Redis, node: str, *, wait_s: float) -> LogOrder | None:
    """The next order of a node, waiting for one.

    Raises
    ------
    InvalidContract
        It is one that this version does not know.
    """
    popped = broker.blpop([_orders(node)], timeout=wait_s)
    return None if popped is None else LOG_ORDERS.loads(popped[1])


def tell(broker: redis.Redis, order: LogOrder, answer: LogAnswer) -> None:
    """Answer an order."""
    pipeline = broker.pipeline()
    pipeline.rpush(_answer(order.id), LOG_ANSWERS.dumps(answer))
    pipeline.expire(_answer(order.id), LIVES_S)
    pipeline.execute()


def _orders(node: str) -> str:
    return f"{PREFIX}logs:{node}"


def _answer(order_id: str) -> str:
    return f"{PREFIX}log:{order_id}"
