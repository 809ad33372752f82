"""Orders of the site to a node's agent through the broker, with answers: nothing crosses while nobody asks.

    weir:<orders>:<node>     list of orders that the node's agent has not taken yet (expires after 10 s)
    weir:<answer>:<order>    list with the answer (expires after 10 s)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import redis

from scheduler.contracts.codec import Codec
from workers.engine.channels.keys import PREFIX

LIVES_S = 10


class NodeOrder(Protocol):
    """Something that is asked of a node, by an id of its own."""

    @property
    def id(self) -> str: ...

    @property
    def node(self) -> str: ...


Order = TypeVar("Order", bound=NodeOrder)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class NodeOrders(Generic[Order, Answer]):
    """Orders of one kind.

    Parameters
    ----------
    orders, answer : str
        Prefixes of the keys of the two lists, behind Weir's own.
    """

    orders: str
    answer: str
    most: int
    order_codec: Codec[Order]
    answer_codec: Codec[Answer]

    def ask(self, broker: redis.Redis, orders: Sequence[Order], *, within_s: float) -> dict[str, Answer]:
        """Answers of nodes that come in time, by node."""
        pipeline = broker.pipeline()
        for order in orders:
            pipeline.rpush(self._orders(order.node), self.order_codec.dumps(order))
            pipeline.ltrim(self._orders(order.node), -self.most, -1)
            pipeline.expire(self._orders(order.node), LIVES_S)
        pipeline.execute()
        answers, deadline_s = {}, time.monotonic() + within_s
        for order in orders:
            left_s = max(0.01, deadline_s - time.monotonic())  # 0 would be for ever
            popped = broker.blpop([self._answer(order.id)], timeout=left_s)
            if popped is not None:
                answers[order.node] = self.answer_codec.loads(popped[1])
        return answers

    def take(self, broker: redis.Redis, node: str, *, wait_s: float) -> Order | None:
        """The next order of a node, waiting for one.

        Raises
        ------
        InvalidContract
            It is one that this version does not know.
        """
        popped = broker.blpop([self._orders(node)], timeout=wait_s)
        return None if popped is None else self.order_codec.loads(popped[1])

    def tell(self, broker: redis.Redis, order: Order, answer: Answer) -> None:
        """Answer an order."""
        pipeline = broker.pipeline()
        pipeline.rpush(self._answer(order.id), self.answer_codec.dumps(answer))
        pipeline.expire(self._answer(order.id), LIVES_S)
        pipeline.execute()

    def _orders(self, node: str) -> str:
        return f"{PREFIX}{self.orders}:{node}"

    def _answer(self, order_id: str) -> str:
        return f"{PREFIX}{self.answer}:{order_id}"
