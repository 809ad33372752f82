"""The thread of an agent that answers orders of one kind, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import redis

from workers.engine.node_orders import NodeOrders

from ..agent_logs import logger

TAKE_S = 1.0


class OrderAnswers(threading.Thread):
    """Answers what the site asks of a node, while it is asked.

    Parameters
    ----------
    answer : callable
        Gives the answer; what it raises costs that order alone.
    """

    def __init__(
        self, broker: redis.Redis, node: str, orders: NodeOrders[Any, Any], answer: Callable[[Any], Any], *, name: str,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._broker, self._node, self._orders, self._answer = broker, node, orders, answer
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                if (order := self._orders.take(self._broker, self._node, wait_s=TAKE_S)) is not None:
                    self._orders.tell(self._broker, order, self._answer(order))
            except redis.RedisError:
                self._stopped.wait(1.0)
            except Exception as error:  # of another version, or what it asks of is gone: the next one may be sound
                logger().warning("an order has no answer", of=self.name, exc_info=error)
