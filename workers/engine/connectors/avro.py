"""Avro that is framed for a schema registry: a zero byte, the schema's number in four, then the record.

The writer's schema is asked of the registry once, by its number, which never stands for another one. One by which no
record can be read may be registered or mended: it is asked for again, some seconds later. What a schema makes of a
record are values as JSON has them, and times; a column's type decides what becomes of them.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from math import inf
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from scheduler.model.bounds import DECIMAL_BYTES, MESSAGE_DEPTH, MESSAGE_VALUES
from workers.library.outbound import Line, Unanswered, WrongAddress
from workers.library.reach import require_allowed

from .contract import SourceAway, SourceRefused
from .formats import UnreadableMessage

USUAL_PORT = 8081
DEADLINE_S = 10.0
LARGEST_SCHEMA_BYTES = 1 << 20
UNREADABLE_S = 5.0  # for so long the registry is not asked again for a schema that no record can be read by
MOST_UNREADABLE = 1_000  # such schemas that are remembered, with some hundred characters each
MOST_SCHEMA_BYTES = 4 << 20  # of the schemas that are kept, as texts; they take some twenty times as much
KIND_CHARACTERS = 40  # of a kind of schema that is none of ours, as it is told
NAME_CHARACTERS = 500  # each type that a schema names takes its own name and that of its space
LEAST_BYTES = {"null": 0, "float": 4, "double": 8}  # of a value; of other simple types 1
HEADER = struct.Struct(">bI")


class Registry:
    """A schema registry, and the schemas that it has given.

    Parameters
    ----------
    address : str
        ``http://host:port`` or https; the operator must allow it.
    user, password : str
        Of basic authentication; none where ``user`` is empty.
    clock : callable
        Seconds, which never go back.
    """

    def __init__(
        self, address: str, *, user: str = "", password: str = "", clock: Callable[[], float] = monotonic
    ) -> None:
        parts = urlsplit(address)
        require_allowed(parts.netloc, usual_port=USUAL_PORT)
        self._line = Line(parts.scheme, parts.hostname or "", parts.port or USUAL_PORT)
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user:
            self._headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        self._schemas: dict[int, tuple[Any, SchemaLimits]] = {}
        self._sizes: dict[int, int] = {}  # of their texts, the oldest first
        self._clock = clock
        self._unreadable: dict[int, tuple[float, str]] = {}  # until when (s) that counts, and why; the oldest first

    def values_of(self, body: bytes) -> Mapping[str, Any]:
        """The fields of a framed record.

        Raises
        ------
        UnreadableMessage
            It is not framed, has a schema that cannot be read, or does not fit it.
        SourceAway, SourceRefused
            The registry does not answer, or does not let its schemas be read.
        """
        # Here, not above: the import takes a moment, and only framed messages need it.
        from fastavro import schemaless_reader
        from fastavro._read_py import schemaless_reader as careful_reader  # its recursion ends by Python's limit

        if len(body) < HEADER.size or body[0] != 0:
            raise UnreadableMessage(
                "is not framed for a schema registry: it does not begin with a zero byte and a number")
        number = HEADER.unpack_from(body)[1]
        schema, limits = self._schema(number)
        limits.require(len(body))
        content = io.BytesIO(body[HEADER.size:])
        try:
            values = (careful_reader if limits.contains_itself else schemaless_reader)(content, schema, None)
        except Exception as error:  # a record is anybody's bytes, and the library says so in many ways
            raise UnreadableMessage(
                f"does not fit its schema {number}: {type(error).__name__} {str(error)[:200]}") from None
        if not isinstance(values, dict) or content.read(1):
            raise UnreadableMessage(f"is no record of schema {number}" if not isinstance(values, dict) else
                             f"has bytes behind the record of its schema {number}")
        return {name: plain(value) for name, value in values.items()}

    def close(self) -> None:
        """Let go of the connection."""
        self._line.close()

    def _schema(self, number: int) -> tuple[Any, SchemaLimits]:
        """A schema that is kept, or that the registry gives; one that cannot be read is not asked for at once again."""
        if number in self._schemas:
            return self._schemas[number]
        until_s, why = self._unreadable.get(number, (-inf, ""))
        if self._clock() < until_s:
            raise UnreadableMessage(why)
        self._unreadable.pop(number, None)
        try:
            return self._new_schema(number)
        except UnreadableMessage as error:
            self._unreadable[number] = self._clock() + UNREADABLE_S, str(error)
            if len(self._unreadable) > MOST_UNREADABLE:
                del self._unreadable[next(iter(self._unreadable))]
            raise

    def _new_schema(self, number: int) -> tuple[Any, SchemaLimits]:
        """A schema as the registry gives it; it is kept."""
        import fastavro

        document = self._registry_answer(number)
        if document.get("schemaType", "AVRO") != "AVRO":
            kind = str(document["schemaType"])[:KIND_CHARACTERS]
            raise UnreadableMessage(f"has schema {number}, which is {kind} and no Avro")
        if document.get("references"):
            raise UnreadableMessage(f"has schema {number}, which refers to other schemas")
        _bound_decimals()
        try:
            schema = fastavro.parse_schema(_with_short_names(json.loads(document["schema"])))
            parsed = schema, SchemaLimits(schema)
        except UnreadableMessage:
            raise
        except Exception as error:
            raise UnreadableMessage(f"has schema {number}, which is no Avro schema: {str(error)[:200]}") from None
        self._keep(number, parsed, len(document["schema"]))
        return parsed

    def _keep(self, number: int, parsed: tuple[Any, SchemaLimits], size: int) -> None:
        """Keep a schema, and let the oldest go where all together are too large."""
        self._schemas[number], self._sizes[number] = parsed, size
        while sum(self._sizes.values()) > MOST_SCHEMA_BYTES:
            oldest = next(iter(self._sizes))
            del self._sizes[oldest], self._schemas[oldest]

    def _registry_answer(self, number: int) -> Mapping[str, Any]:
        """The registry's answer to a schema's number."""
        try:
            answer = self._line.ask(
                "GET", f"/schemas/ids/{number}", headers=self._headers, deadline_s=DEADLINE_S,
                most_bytes=LARGEST_SCHEMA_BYTES)
        except (Unanswered, WrongAddress) as error:
            raise SourceAway(f"The schema registry does not answer: {error}.", remedy="It is tried again by itself."
                             ) from None
        # What is wrong with one number, which anybody may write, must not hold up all other messages.
        if answer.status in (400, 404, 422):
            raise UnreadableMessage(f"has schema {number}, which the registry does not know")
        if answer.status == 200 and len(answer.body) > LARGEST_SCHEMA_BYTES:
            raise UnreadableMessage(f"has schema {number}, which has more than {LARGEST_SCHEMA_BYTES:,} bytes")
        if answer.status in (401, 403):
            raise SourceRefused("The schema registry does not let its schemas be read.",
                                remedy="See to registry_user and registry_password.")
        try:
            document = json.loads(answer.body) if answer.status == 200 else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise SourceAway(f"The schema registry answers {answer.status}, and no schema.",
                             remedy="See whether “registry” is its address. It is tried again by itself.")
        return document


def _with_short_names(document: Any) -> Any:
    """A schema, unless names in it are so long that, written out for each of its types, they fill the memory: those of
    1 MB took 4 GB."""
    parts = [document]
    while parts:
        part = parts.pop()
        if isinstance(part, dict) and "type" in part and max(
                len(str(part.get(name, ""))) for name in ("name", "namespace")) > NAME_CHARACTERS:
            raise ValueError(f"a name has more than {NAME_CHARACTERS} characters")
        if isinstance(part, dict | list):
            parts += part.values() if isinstance(part, dict) else part
    return document


class BoundedDecimal:
    """The library's reader of decimals, for those of bounded length: reading takes a time that grows with the square of
    the length, in which no other thread of the process does anything.
    """

    def __init__(self, read: Callable[..., Any]) -> None:
        self._read = read

    def __call__(self, data: bytes, *schemas: Any) -> Any:
        if len(data) > DECIMAL_BYTES.most:
            raise ValueError(f"has a decimal of more than {DECIMAL_BYTES.most} bytes")
        return self._read(data, *schemas)


def _bound_decimals() -> None:
    """Let the library read no other decimals in this process."""
    from fastavro.read import LOGICAL_READERS

    for kind in ("bytes-decimal", "fixed-decimal"):
        if not isinstance(LOGICAL_READERS[kind], BoundedDecimal):
            LOGICAL_READERS[kind] = BoundedDecimal(LOGICAL_READERS[kind])


def plain(value: Any) -> Any:
    """A value as columns take it: times of UTC stay times, bytes are base64, decimals and all else are text."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [plain(inner) for inner in value]
    return str(value)


class SchemaSize(NamedTuple):
    """The size of one value of a type: how many values it has at most, lists and mappings as one and records with
    their fields, how many bytes it takes at least, and how many levels it has."""

    values: int
    least_bytes: int
    levels: int


class SchemaLimits:
    """The most that records of a parsed schema can hold, told before one is read.

    The library reads in C, as deep as the bytes lead, and makes values of types that take no bytes: without limits a
    few bytes of a producer's end the process, or fill its memory.

    Parameters
    ----------
    schema
        As ``fastavro.parse_schema`` gives it.

    Raises
    ------
    UnreadableMessage
        It has more levels than a value may have, more values than a message may hold, or any number of those that take
        no bytes.
    """

    def __init__(self, schema: Any) -> None:
        self.contains_itself = False
        self._named_sizes: dict[str, SchemaSize | None] = {}  # None: within itself
        self._repeated: list[SchemaSize | str] = []  # what a value holds as often as its bytes say
        self._values = self._size(schema, 0).values
        repeated = [self._named_sizes[size] if isinstance(size, str) else size for size in self._repeated]
        self._values_a_byte = 0.0
        for size in repeated:
            if size is None or not size.least_bytes:
                raise UnreadableMessage(
                    "has a schema by which what takes no bytes may come any number of times")
            self._values_a_byte = max(self._values_a_byte, size.values / size.least_bytes)
        self.require(0)

    def require(self, body_bytes: int) -> None:
        """Raise ``UnreadableMessage`` where so many bytes may hold more values than a message may."""
        if self._values + body_bytes * self._values_a_byte > MESSAGE_VALUES.most:
            raise UnreadableMessage(f"may hold more than {MESSAGE_VALUES.most:,} values by its schema")

    def _size(self, schema: Any, level: int) -> SchemaSize:
        size = self._size_by_kind(schema, level)
        if max(size.levels, level) > MESSAGE_DEPTH.most:
            raise UnreadableMessage(f"has a schema of more than {MESSAGE_DEPTH.most} levels")
        return size

    def _size_by_kind(self, schema: Any, level: int) -> SchemaSize:
        if level > MESSAGE_DEPTH.most:
            return SchemaSize(0, 0, level)  # refused by who asked
        if isinstance(schema, str):
            return self._size_by_name(schema)
        if isinstance(schema, list):
            branches = [self._size(branch, level + 1) for branch in schema]
            return SchemaSize(
                max((size.values for size in branches), default=0),
                1 + min((size.least_bytes for size in branches), default=0),
                max((size.levels for size in branches), default=0))
        kind, name = schema["type"], schema.get("name", "")
        if kind in ("record", "error"):
            self._named_sizes[name] = None
            fields = [self._size(field["type"], level + 1) for field in schema["fields"]]
            named_size = self._named_sizes[name] = SchemaSize(
                1 + sum(size.values for size in fields), sum(size.least_bytes for size in fields),
                1 + max((size.levels for size in fields), default=0))
            return named_size
        if kind in ("enum", "fixed"):
            size = schema.get("size", 1)
            if type(size) is not int or size < 0:  # one below 0 would hide how few bytes other values take
                raise UnreadableMessage("has a schema with a size that is no number of bytes")
            named_size = self._named_sizes[name] = SchemaSize(1, size, 1)
            return named_size
        if kind in ("array", "map"):
            item = schema["items" if kind == "array" else "values"]
            size = self._size(item, level + 1)
            if kind == "map":
                size = size._replace(least_bytes=size.least_bytes + 1)  # of its key
            if not (isinstance(item, str) and item in self._named_sizes and self._named_sizes[item] is None):
                self._repeated.append(size)
            return SchemaSize(1, 1, 1 + size.levels)
        return self._size(kind, level + 1)

    def _size_by_name(self, name: str) -> SchemaSize:
        if name not in self._named_sizes:
            return SchemaSize(1, LEAST_BYTES.get(name, 1), 1)
        size = self._named_sizes[name]
        if size is not None:
            return size
        self.contains_itself = True
        self._repeated.append(name)
        return SchemaSize(1, 0, 1)
