"""From messages to events: JSON, lines of JSON, CSV, Arrow, text and bytes, into columns of a declared schema.

What does not fit becomes a dead letter with its reason; nothing is guessed and nothing is dropped in silence.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from scheduler.model.bounds import MESSAGE_BYTES, MESSAGE_EVENTS, MESSAGE_VALUES, POLL_EVENTS
from workers.library.columns import typed_columns
from workers.library.live_events import included

from .arrow_streams import Room, TooMuch, batches_of
from .casting import CASTS, Unreadable, as_string, as_timestamp, require_shallow
from .contract import DeadLetter, Message

SAMPLE_BYTES = 2_000
_SEPARATORS = (b",", b"[", b"{")
_JSON_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
RAW = "value"  # the column of what has no declared fields
TIME_UNITS_MS = {"s": 1000.0, "ms": 1.0, "us": 0.001, "ns": 0.000001}
STREAM = (("_seq", pa.int64()), ("_time", pa.int64()), ("_born", pa.int64()))
ARROW = {
    "string": pa.string(), "double": pa.float64(), "bigint": pa.int64(), "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"), "binary": pa.binary()}
SPARK = {
    "string": "string", "double": "double", "bigint": "long", "boolean": "boolean", "timestamp": "timestamp",
    "binary": "binary"}
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # of the years 1 to 9999: what times can be


_UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a source's messages are read.

    Parameters
    ----------
    format : str
        One of ``FORMATS``.
    fields : mapping of str to str
        Columns and their types (``ARROW``); empty: one column ``value``.
    time_field : str, optional
        The column with the event's time; without one, it is the time of arrival.
    time_unit : str
        What a number there counts, since the epoch.
    extras : mapping of str to str
        Columns behind those of the content, that the source itself gives.
    """

    format: str = "json"
    fields: Mapping[str, str] = field(default_factory=dict)
    time_field: str | None = None
    time_unit: str = "ms"
    extras: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> dict[str, str]:
        """The columns that a message holds, and their types."""
        return dict(self.fields) or {RAW: "binary" if self.format == "bytes" else "string"}

    @property
    def columns(self) -> dict[str, str]:
        """The event's columns and their types, without Weir's own."""
        return {**self.content, **self.extras}

    @property
    def schema_json(self) -> str:
        """The schema of the stream, as Spark writes it."""
        own = [{"name": name, "type": "long", "nullable": False, "metadata": {}} for name, _ in STREAM]
        rest = [
            {"name": name, "type": SPARK[kind], "nullable": True, "metadata": {}}
            for name, kind in self.columns.items()]
        return json.dumps({"type": "struct", "fields": [*own, *rest]})

    @property
    def arrow(self) -> pa.Schema:
        """The same, of a block."""
        return pa.schema(
            [pa.field(name, kind, nullable=False) for name, kind in STREAM]
            + [(name, ARROW[kind]) for name, kind in self.columns.items()])


def layout_of(config: Mapping[str, Any]) -> Layout:
    """How a live source's messages are read, by its config."""
    return Layout(
        config.get("format") or "json", typed_columns(config.get("columns") or ()), config.get("time_field"),
        config.get("time_unit") or "ms", included(config))


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events as values by column, their times in ms since the epoch, and what could not be read; ``arrays`` are the
    events by column."""

    rows: Sequence[tuple]
    times_ms: Sequence[int]
    dead: Sequence[DeadLetter]
    arrays: Sequence[pa.Array] = ()

    def block(self, layout: Layout, *, first: int, born_ms: int) -> pa.RecordBatch:
        """The events as a block whose first has that number."""
        count = len(self.rows)
        arrays = [
            pa.array(range(first, first + count), pa.int64()), pa.array(self.times_ms, pa.int64()),
            pa.array([born_ms] * count, pa.int64()), *self.arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=layout.arrow)


def decode(
    messages: Sequence[Message], layout: Layout, *, now_ms: int, most_events: int = MESSAGE_EVENTS.most,
    refuses: bool = False,
) -> Decoded:
    """The events of messages, in order.

    Parameters
    ----------
    most_events : int, optional
        How many a message may hold.
    refuses : bool, optional
        One that decodes to more than may be is an error; else it is a dead letter.

    Raises
    ------
    TooMuch
        Where it ``refuses``.
    """
    rows: list[tuple] = []
    times_ms: list[int] = []
    origins: list[Message] = []
    dead: list[DeadLetter] = []
    names = list(layout.columns)
    when = names.index(layout.time_field) if layout.time_field else None
    left = POLL_EVENTS.most
    for message in messages:
        room = Room(min(most_events, left), MESSAGE_VALUES.most, MESSAGE_BYTES.most)
        try:
            events = list(_events(message, layout, dead, room))
        except TooMuch as error:
            if refuses:
                raise
            dead.append(DeadLetter(str(error), message.place, _sample(message)))
            continue
        left -= len(events)
        sample = _sample(message) if len(events) > 1 else None  # one for all of them
        for event in events:
            try:
                row = event() + _extras(message, layout)
                time_ms = now_ms if when is None else _time_ms(row[when], layout)
            except Unreadable as error:
                dead.append(DeadLetter(str(error), message.place, _sample(message) if sample is None else sample))
                continue
            rows.append(row)
            times_ms.append(time_ms)
            origins.append(message)
    try:
        return Decoded(rows, times_ms, dead, _arrays(rows, layout))
    except _UNFIT:
        return _without_unfit(rows, times_ms, origins, dead, layout)


def _without_unfit(
    rows: Sequence[tuple], times_ms: Sequence[int], origins: Sequence[Message], dead: list[DeadLetter], layout: Layout
) -> Decoded:
    """The events that a block can hold; whatever it is that others have, it must not hold up all that comes behind."""
    fitting = []
    for number, row in enumerate(rows):
        try:
            _arrays([row], layout)
        except _UNFIT as error:
            message = origins[number]
            dead.append(DeadLetter(f"has a value that no column holds: {_plain(str(error))[:200]}", message.place,
                                   _sample(message)))
        else:
            fitting.append(number)
    kept_rows = [rows[number] for number in fitting]
    return Decoded(kept_rows, [times_ms[number] for number in fitting], dead, _arrays(kept_rows, layout))


def _arrays(rows: Sequence[tuple], layout: Layout) -> list[pa.Array]:
    columns = zip(*rows, strict=True) if rows else [()] * len(layout.columns)
    return [pa.array(column, ARROW[kind]) for column, kind in zip(columns, layout.columns.values(), strict=True)]


def _events(
    message: Message, layout: Layout, dead: list[DeadLetter], room: Room
) -> Iterator[Callable[[], tuple]]:
    """What gives each event of a message; a message that cannot be taken apart is a dead letter as a whole."""
    try:
        if message.values is not None:
            yield lambda: _row(message.values, layout)
        else:
            yield from _READERS[layout.format](message.body, layout, room)
    except Unreadable as error:
        dead.append(DeadLetter(str(error), message.place, _sample(message)))


def _extras(message: Message, layout: Layout) -> tuple:
    values = message.extras or {}
    return tuple(_typed(name, values.get(name), kind) for name, kind in layout.extras.items())


def _json(body: bytes, layout: Layout, room: Room) -> Iterator[Callable[[], tuple]]:
    _count_values(body, room)
    document = _parsed(body)
    items = document if isinstance(document, list) else [document]
    room.take(events=len(items))
    for item in items:
        yield lambda item=item: _row_of_json(item, layout)


def _count_values(body: bytes, room: Room) -> None:
    """Take the room of a text's values; only where it is long it is looked which commas and brackets are in texts."""
    if len(body) > room.values and sum(map(body.count, _SEPARATORS)) >= room.values:
        plain = _JSON_TEXT.sub(b"", body)
        room.take(values=1 + sum(map(plain.count, _SEPARATORS)))


def _counted(lines: Iterable[Any], room: Room) -> list[Any]:
    """Lines that are not empty, as far as there is room for them."""
    events = []
    for line in lines:
        if line:
            room.take(events=1)
            events.append(line)
    return events


def _ndjson(body: bytes, layout: Layout, room: Room) -> Iterator[Callable[[], tuple]]:
    _count_values(body, room)
    lines = (line.strip() for part in io.BytesIO(body) for line in part.splitlines())
    for line in _counted(lines, room):
        yield lambda line=line: _row_of_json(_parsed(line), layout)


def _csv(body: bytes, layout: Layout, room: Room) -> Iterator[Callable[[], tuple]]:
    names = list(layout.content)
    try:
        lines = _counted(csv.reader(io.StringIO(_text(body)), strict=True), room)
    except csv.Error as error:
        raise Unreadable(f"is no CSV: {error}") from None
    for values in lines:
        yield lambda values=values: _row_of_values(values, names, layout)


def _arrow(body: bytes, layout: Layout, room: Room) -> Iterator[Callable[[], tuple]]:
    try:
        batches = batches_of(io.BytesIO(body), room, names=layout.content)
        rows = [row for batch in batches for row in batch.to_pylist()]
    except TooMuch:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise Unreadable(f"is no Arrow IPC stream: {_plain(str(error))[:200]}") from None
    for row in rows:
        yield lambda row=row: _row(row, layout)


def _whole(body: bytes, layout: Layout, room: Room) -> Iterator[Callable[[], tuple]]:
    yield lambda: (_text(body) if layout.format == "text" else body,)


_READERS: Mapping[str, Callable[[bytes, Layout, Room], Iterator[Callable[[], tuple]]]] = {
    "json": _json, "ndjson": _ndjson, "csv": _csv, "arrow": _arrow, "text": _whole, "bytes": _whole}


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"is no JSON: {str(error)[:200]}") from None


def _row_of_json(item: Any, layout: Layout) -> tuple:
    if not layout.fields:
        require_shallow(item)
        try:
            return (as_string(json.dumps(item, ensure_ascii=False)),)
        except UnicodeEncodeError:
            raise Unreadable("has half a surrogate pair in it, which is no text") from None
    if not isinstance(item, dict):
        raise Unreadable("is no JSON object, so that it has no fields")
    return _row(item, layout)


def _row_of_values(values: Sequence[str], names: Sequence[str], layout: Layout) -> tuple:
    if len(values) != len(names):
        raise Unreadable(f"has {len(values)} values where {len(names)} fields are declared")
    return _row({name: value or None for name, value in zip(names, values, strict=True)}, layout)


def _row(values: Mapping[str, Any], layout: Layout) -> tuple:
    """The declared fields of an event; one that is missing is null, others are left out."""
    return tuple(_typed(name, values.get(name), kind) for name, kind in layout.content.items())


def _typed(name: str, value: Any, kind: str) -> Any:
    if value is None:
        return None
    try:
        return CASTS[kind](value)
    except Unreadable:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, OSError):
        shown = value if isinstance(value, str) else json.dumps(value, default=str)
        raise Unreadable(f"field {name} is {shown[:80]!r}, which is no {kind}") from None


def _time_ms(value: Any, layout: Layout) -> int:
    """The event's time; one that has none has no place in time."""
    if value is None:
        raise Unreadable(f"has no time in its field {layout.time_field}")
    try:
        if isinstance(value, str):
            value = as_timestamp(value)
        if isinstance(value, datetime):
            time_ms = int(value.timestamp() * 1000)
        else:
            time_ms = int(value * TIME_UNITS_MS[layout.time_unit])
    except (ValueError, OverflowError, OSError):
        time_ms = LAST_MS + 1
    if not FIRST_MS <= time_ms <= LAST_MS:
        raise Unreadable(f"field {layout.time_field} is {str(value)[:80]!r}, which is no time")
    return time_ms


def _plain(text: str) -> str:
    """Text that can be written anywhere."""
    return text.encode(errors="backslashreplace").decode()


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Unreadable("is no text in UTF-8") from None


def _sample(message: Message) -> bytes:
    if message.values is not None:
        return json.dumps(dict(message.values), default=str).encode(errors="replace")[:SAMPLE_BYTES]
    return message.body[:SAMPLE_BYTES]
