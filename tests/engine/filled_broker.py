"""A broker with a bound of its memory, and what fills it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from workers.engine.broker_room import memory_of

SIZES = (500_000, 5_000, 50)


@contextmanager
def bounded(broker: redis.Redis, *, more_mb: int) -> Iterator[None]:
    """Let the broker hold so much more than it does; without a bound again at the end."""
    before = broker.config_get("maxmemory")["maxmemory"]
    broker.config_set("maxmemory", memory_of(broker).held + (more_mb << 20))
    try:
        yield
    finally:
        make_room(broker)
        broker.config_set("maxmemory", before)


def fill(broker: redis.Redis, *, until_left: float = 0.0) -> None:
    """Fill the broker until it refuses, or up to that part of its bound, by one key: ``filler``."""
    for size in SIZES:
        try:
            while until_left == 0 or (memory := memory_of(broker)).held < (1 - until_left) * memory.most:
                broker.rpush("filler", b"x" * size)
            return
        except redis.exceptions.OutOfMemoryError:
            continue


def make_room(broker: redis.Redis) -> None:
    """Take away what filled it. The broker frees it beside what else it does."""
    broker.delete("filler")
    while (memory := memory_of(broker)).held > memory.most / 2:
        time.sleep(0.01)
