"""A live source of one's own: the entries of a Redis or Valkey stream, each exactly once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType
from workers.engine.connectors.contract import (
    MOST_MESSAGES,
    Message,
    Opening,
    Polled,
    Position,
    SourceAway,
    SourceRefused,
)
from workers.library.columns import typed_columns
from workers.library.config import InvalidConfig, settings
from workers.library.live import COLUMNS, KEEP_DEAD, TIME_FIELD, TIME_UNIT
from workers.library.reach import SERVER, host_and_port, require_allowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PORT = 6379
REDIS_STREAM = TaskType(
    name="redis_stream", kind="source", family="source",
    doc="The entries of a stream of Redis or Valkey, each exactly once: its place is kept with the events.",
    build="weir_example_streams:redis_stream", connector="weir_example_streams:open_redis_stream",
    effects=("network",),  # it reaches a server, so that it runs only as reviewers have approved it
    parameters=(
        Parameter("server", "string", "host or host:port; the operator must allow it (WEIR_CONNECTOR_HOSTS).",
                  required=True, pattern=SERVER),
        Parameter("stream", "string", "The stream's key.", required=True, pattern=r"\S{1,200}"),
        Parameter("start", "string", "Where it begins where nothing was read yet.", default="newest",
                  choices=("newest", "oldest")),
        Parameter("password", "string", "Of the server's default user.", secret=True),
        COLUMNS, TIME_FIELD, TIME_UNIT, KEEP_DEAD,  # those of Weir's own live sources: decoding is done by these
    ),
    cost_us=5,
)
TASK_TYPES = [REDIS_STREAM]


def redis_stream(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The entries as the connector has written them: a live source gives its input back."""
    return inputs


def redis_stream_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The declared fields: known before anything is read."""
    return Columns.stream(typed_columns(values["columns"]))


def redis_stream_check(config: Mapping[str, Any]) -> None:
    """What the declared types and bounds cannot say. It is asked where a document is checked, and before it is read."""
    values = settings(REDIS_STREAM, config)
    require_allowed(values["server"], usual_port=PORT)
    fields = typed_columns(values["columns"])
    if not fields:
        raise InvalidConfig("It names no columns.", remedy="Name the fields of an entry, with types.")
    if values["time_field"] is not None and values["time_field"] not in fields:
        raise InvalidConfig(
            f"time_field names {values['time_field']}, which is no column.", remedy=f"Name one of {', '.join(fields)}.")


def open_redis_stream(opening: Opening) -> RedisStreamReader:
    """Open the stream where it was left, or where the config says."""
    return RedisStreamReader(opening)


class RedisStreamReader:
    """The id after which entries are new. The stream keeps its entries, so there is nothing to acknowledge."""

    def __init__(self, opening: Opening) -> None:
        import redis

        self._redis, config = redis, opening.config
        self._host, port = host_and_port(config["server"], usual_port=PORT)
        self._stream = config["stream"]
        self._client = redis.Redis(
            self._host, port, password=config["password"], decode_responses=True, socket_connect_timeout=5,
            socket_timeout=10)
        self._after = opening.position["after"] if opening.position else self._begin(config["start"])

    def position(self) -> Position:
        return {"after": self._after}

    def poll(self, timeout_s: float) -> Polled:
        answer = self._ask(lambda: self._client.xread(
            {self._stream: self._after}, count=MOST_MESSAGES, block=max(1, int(timeout_s * 1000))))
        entries = answer[0][1] if answer else []
        if not entries:
            return Polled()
        self._after = entries[-1][0]
        messages = [Message(place=f"{self._stream} at {entry}", values=fields) for entry, fields in entries]
        return Polled(messages, self.position())

    def written(self) -> None:
        return

    def rest(self, timeout_s: float) -> None:
        time.sleep(timeout_s)

    def close(self, *, for_good: bool) -> None:
        self._client.close()

    def _begin(self, start: str) -> str:
        newest = self._ask(lambda: self._client.xrevrange(self._stream, count=1)) if start == "newest" else []
        return newest[0][0] if newest else "0-0"

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except self._redis.AuthenticationError:
            raise SourceRefused(f"{self._host} refuses the password.", remedy="See to the secret “password”.") from None
        except (self._redis.ConnectionError, self._redis.TimeoutError):
            raise SourceAway(f"{self._host} does not answer.", remedy="It is tried again by itself.") from None
        except self._redis.RedisError as error:
            raise SourceRefused(
                f"{self._stream} cannot be read: {error}.", remedy="Name the key of a stream.") from None
