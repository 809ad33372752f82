"""Clients of the broker: of one server, or of the present primary of a service with replicas.

Behind replicas, what was written counts as taken when every replica that the primary has online has it, too: whichever
is promoted then has it. A primary without one takes writes alone, unless its ``min-replicas-to-write`` forbids it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis
from redis.client import Pipeline
from redis.sentinel import Sentinel

from workers.broker_address import SENTINEL_OPTIONS, replicated_service

REPLICAS_WITHIN_S = 2.0
ASKED_AGAIN_MS = 200  # whether a replica that does not answer is still online
READS = frozenset({
    "ACL GETUSER", "ACL LIST", "AUTH", "CLIENT LIST", "CONFIG GET", "DBSIZE", "DUMP", "EXISTS", "GET", "HEXISTS",
    "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSCAN", "HVALS", "INFO", "KEYS", "LLEN", "LRANGE", "MEMORY USAGE",
    "MGET", "PING", "PTTL", "PUBLISH", "ROLE", "SCAN", "SCARD", "SCRIPT EXISTS", "SCRIPT LOAD", "SISMEMBER",
    "SMEMBERS", "SSCAN", "STRLEN", "TIME", "TTL", "TYPE", "WAIT", "XINFO STREAM", "XLEN", "XRANGE", "XREAD",
    "XREVRANGE", "ZCARD", "ZRANGE", "ZRANGEBYSCORE", "ZREVRANGE", "ZSCAN", "ZSCORE"})


def connect(url: str, **options: Any) -> redis.Redis:
    """A client of the broker at that address, with redis-py's options; it follows a promotion."""
    service = replicated_service(url)
    if service is None:
        return redis.Redis.from_url(url, **options)
    sentinels = Sentinel(service.sentinels, sentinel_kwargs=SENTINEL_OPTIONS)
    return sentinels.master_for(
        service.name, redis_class=ReplicatedRedis, **{"socket_connect_timeout": 2.0, **service.login(), **options})


def lacks_replica(client: redis.Redis) -> bool:
    """True if the broker should have replicas, and none is online."""
    return isinstance(client, ReplicatedRedis) and not client.role()[2]


def await_replicas(ask: Callable[..., Any]) -> None:
    """Wait until every replica online has what was written on a connection; ``ask`` asks on that connection.

    Raises
    ------
    redis.ConnectionError
        The server is no primary any more.
    redis.TimeoutError
        A replica does not take it.
    """
    deadline_s = time.monotonic() + REPLICAS_WITHIN_S
    while True:
        role = ask("ROLE")
        if role[0] not in (b"master", "master"):
            raise redis.ConnectionError("The broker is a replica now: what was written last may be lost. Try it again.")
        online = len(role[2])
        if not online or int(ask("WAIT", online, ASKED_AGAIN_MS)) >= online:
            return
        if time.monotonic() > deadline_s:
            raise redis.TimeoutError(
                "A replica of the broker does not take what is written: see to it, or take it away.")


class ReplicatedRedis(redis.Redis):
    """A client whose writes count once the replicas have them."""

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> ReplicatedPipeline:
        """As the client of one server has it; the replicas are waited for once, at its end."""
        return ReplicatedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    def _send_command_parse_response(self, conn: Any, command_name: str, *args: Any, **options: Any) -> Any:
        answer = super()._send_command_parse_response(conn, command_name, *args, **options)
        if _writes(args):
            await_replicas(_asking(conn))
        return answer


class ReplicatedPipeline(Pipeline):
    """Commands that count once the replicas have what they wrote."""

    def _execute_transaction(self, connection: Any, commands: Any, raise_on_error: bool) -> Any:
        return self._await_all(connection, commands, super()._execute_transaction(connection, commands, raise_on_error))

    def _execute_pipeline(self, connection: Any, commands: Any, raise_on_error: bool) -> Any:
        return self._await_all(connection, commands, super()._execute_pipeline(connection, commands, raise_on_error))

    @staticmethod
    def _await_all(connection: Any, commands: Any, answers: Any) -> Any:
        if any(_writes(args) for args, _ in commands):
            await_replicas(_asking(connection))
        return answers


def _writes(args: tuple[Any, ...]) -> bool:
    """Whether a command may have changed something: what is not known to read counts as writing."""
    name = str(args[0]).upper()
    return name not in READS and f"{name} {args[1] if len(args) > 1 else ''}".upper() not in READS


def _asking(connection: Any) -> Callable[..., Any]:
    def ask(*command: Any) -> Any:
        connection.send_command(*command)
        return connection.read_response()

    return ask
