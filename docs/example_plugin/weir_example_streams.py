"""A live source and a sink of one's own: streams of Redis or Valkey, read and written, each event exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scheduler.contracts.offsets import Offset
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
from workers.engine.sinks.contract import Batch, Batching, Overtaken, Refuse, SinkAway, SinkOpening, SinkRefused
from workers.engine.sinks.rows import as_json, chosen
from workers.library import live_sinks
from workers.library.columns import typed_columns
from workers.library.config import InvalidConfig, settings
from workers.library.live_events import COLUMNS, KEEP_DEAD, TIME_FIELD, TIME_UNIT
from workers.library.reach import SERVER, host_and_port, require_allowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PORT = 6379
# Keys: the stream, the sink's place. Arguments: the place before and after ("" for a batch that is only written again),
# how many fields an entry has, their names, and all values. What could fail is looked at before anything is written.
ADD = """
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind ~= 'stream' and kind ~= 'none' then return 'not a stream' end
if ARGV[1] ~= '' and (redis.call('GET', KEYS[2]) or '-') ~= ARGV[1] then return 'overtaken' end
local fields = tonumber(ARGV[3])
for first = 4 + fields, #ARGV, fields do
  local entry = {}
  for i = 0, fields - 1 do
    entry[#entry + 1] = ARGV[4 + i]
    entry[#entry + 1] = ARGV[first + i]
  end
  redis.call('XADD', KEYS[1], '*', unpack(entry))
end
if ARGV[1] ~= '' then redis.call('SET', KEYS[2], ARGV[2]) end
return 'added'
"""
SERVER_OF = (
    Parameter("server", "string", "host or host:port; the operator must allow it (WEIR_CONNECTOR_HOSTS).",
              required=True, pattern=SERVER),
    Parameter("stream", "string", "The stream's key.", required=True, pattern=r"\S{1,200}"),
    Parameter("password", "string", "The password of the server's default user.", secret=True),
)
REDIS_STREAM = TaskType(
    name="redis_stream", kind="source", family="source",
    doc="The entries of a stream of Redis or Valkey, each exactly once: its place is kept with the events.",
    build="weir_example_streams:redis_stream", connector="weir_example_streams:open_redis_stream",
    effects=("network",),  # it reaches a server, so that it runs only as reviewers have approved it
    parameters=(
        *SERVER_OF,
        Parameter("start", "string", "Where reading begins the first time.", default="newest",
                  choices=("newest", "oldest")),
        COLUMNS, TIME_FIELD, TIME_UNIT, KEEP_DEAD,  # those of Weir's own live sources: decoding is done by these
    ),
    cost_us=5,
)
TO_REDIS_STREAM = TaskType(
    name="to_redis_stream", kind="sink", family="sink", terminal="connector", chain="never",
    doc="Adds events to a stream of Redis or Valkey, each exactly once: the server keeps the sink's place beside it.",
    build="weir_example_streams:to_redis_stream", writer="weir_example_streams:open_redis_writer",
    effects=("network",),
    parameters=(*SERVER_OF, live_sinks.COLUMNS, live_sinks.KEEP_EVENTS, live_sinks.KEEP_REFUSED),
    cost_us=10,
)
TASK_TYPES = [REDIS_STREAM, TO_REDIS_STREAM]


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


def look_at_redis_stream(opening: Opening, count: int) -> Iterator[Polled]:
    """The newest entries, for who writes a dataflow and wants to see some before it runs: it only reads."""
    server, stream = Server(opening.config, SourceAway, SourceRefused), opening.config["stream"]
    try:
        while not (entries := server.ask(lambda client: client.xrevrange(stream, count=count))):
            yield Polled()  # it has answered, and has none yet
            time.sleep(0.5)
        yield Polled(_messages(stream, entries[::-1]))
    finally:
        server.close()


class RedisStreamReader:
    """The id after which entries are new. The stream keeps its entries, so there is nothing to acknowledge."""

    def __init__(self, opening: Opening) -> None:
        self._server, self._stream = Server(opening.config, SourceAway, SourceRefused), opening.config["stream"]
        self._after = opening.position["after"] if opening.position else self._begin(opening.config["start"])

    def position(self) -> Position:
        return {"after": self._after}

    def poll(self, timeout_s: float) -> Polled:
        answer = self._server.ask(lambda client: client.xread(
            {self._stream: self._after}, count=MOST_MESSAGES, block=max(1, int(timeout_s * 1000))))
        entries = answer[0][1] if answer else []
        if not entries:
            return Polled()
        self._after = entries[-1][0]
        return Polled(_messages(self._stream, entries), self.position())

    def written(self) -> None:
        return

    def rest(self, timeout_s: float) -> None:
        time.sleep(timeout_s)

    def close(self, *, for_good: bool) -> None:
        self._server.close()

    def _begin(self, start: str) -> str:
        newest = self._server.ask(lambda client: client.xrevrange(self._stream, count=1)) if start == "newest" else []
        return newest[0][0] if newest else "0-0"


def _messages(stream: str, entries: Sequence[tuple[str, Mapping[str, str]]]) -> list[Message]:
    return [Message(place=f"{stream} at {entry}", values=fields) for entry, fields in entries]


def to_redis_stream(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events as the connector host will write them: such a sink gives its input back."""
    return inputs


def to_redis_stream_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """Its input's; that the columns which it names are there is checked by their declaration."""
    return inputs


def to_redis_stream_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the operator does not allow the server."""
    require_allowed(settings(TO_REDIS_STREAM, config)["server"], usual_port=PORT, writes=True)


def open_redis_writer(opening: SinkOpening) -> RedisStreamWriter:
    """Connect, and ask the server how far the sink has come."""
    return RedisStreamWriter(opening)


class RedisStreamWriter:
    """Adds a batch and moves the sink's place in one script of the server."""

    def __init__(self, opening: SinkOpening) -> None:
        self.batching = Batching(most_events=1_000)
        self._names = chosen(opening.columns, opening.config["columns"])
        self._server, self._stream = Server(opening.config, SinkAway, SinkRefused), opening.config["stream"]
        self._place = f"weir:sink:{opening.sink}"
        self._after: str | None = self._server.ask(lambda client: client.get(self._place))

    def position(self) -> Offset | None:
        return Offset(self._after) if self._after else None

    def write(self, batch: Batch, refuse: Refuse) -> None:
        columns = [batch.rows.column(name).to_pylist() for name in self._names]
        values = [_text(value) for row in zip(*columns, strict=True) for value in row]
        place = ("", "") if batch.again else (self._after or "-", str(batch.until))
        outcome = self._server.ask(lambda client: client.eval(
            ADD, 2, self._stream, self._place, *place, len(self._names), *self._names, *values))
        if outcome == "not a stream":
            raise SinkRefused(f"{self._stream} is no stream.", remedy="Name the key of a stream, or a new one.")
        if outcome == "overtaken":
            raise Overtaken
        if not batch.again:
            self._after = str(batch.until)

    def rest(self) -> None:
        return

    def close(self) -> None:
        self._server.close()


def _text(value: Any) -> str:
    """A value as an entry has it; null is the empty text."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(json.loads(as_json({"value": value}))["value"])


class Server:
    """A connection to the server of a config; ``away`` and ``refused`` are the errors of whoever asks."""

    def __init__(self, config: Mapping[str, Any], away: type[Exception], refused: type[Exception]) -> None:
        import redis

        self._redis, self._away, self._refused = redis, away, refused
        require_allowed(config["server"], usual_port=PORT)
        self._host, port = host_and_port(config["server"], usual_port=PORT)
        self._client = redis.Redis(
            self._host, port, password=config["password"], decode_responses=True, socket_connect_timeout=5,
            socket_timeout=10)

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """What the server answers to a question of its client."""
        try:
            return question(self._client)
        except self._redis.AuthenticationError:
            raise self._refused(
                f"{self._host} refuses the password.", remedy="See to the secret “password”.") from None
        except (self._redis.ConnectionError, self._redis.TimeoutError):
            raise self._away(f"{self._host} does not answer.", remedy="It is tried again by itself.") from None
        except self._redis.RedisError as error:
            raise self._refused(f"{self._host} refuses: {error}.", remedy="Name the key of a stream.") from None

    def close(self) -> None:
        """Let go."""
        self._client.close()
