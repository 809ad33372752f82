"""Clients of the broker, one a process and URL: a Python worker serves many tasks."""

from __future__ import annotations

import os

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

_clients: dict[tuple[int, str], redis.Redis] = {}


def client(redis_url: str) -> redis.Redis:
    """This process's client; never one that a parent opened before it forked.

    A broker that is away is tried again for ten seconds before the query fails.
    """
    key = (os.getpid(), redis_url)
    if key not in _clients:
        _clients[key] = redis.Redis.from_url(
            redis_url, socket_connect_timeout=3, socket_timeout=10, max_connections=4,
            retry=Retry(ConstantBackoff(0.1), 100), retry_on_error=[redis.ConnectionError],
        )
    return _clients[key]
