"""From messages to events: JSON, lines of JSON, CSV, Arrow, text and bytes, into columns of a declared schema.

What does not fit becomes a dead letter with its reason; nothing is guessed and nothing is dropped in silence.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from scheduler.contracts.moments import LATEST_MS
from scheduler.model.bounds import FILE_RECORD, MESSAGE_BYTES, MESSAGE_EVENTS, MESSAGE_VALUES, POLL_EVENTS
from workers.library.arrow_types import arrow_type
from workers.library.casting import as_string, as_timestamp, cast_to, require_shallow
from workers.library.columns import typed_columns
from workers.library.json_values import UnreadableMessage, WrittenNumber, items_of, parsed, text_of, written
from workers.library.live_events import AHEAD, included

from .arrow_streams import DecodingRoom, TooMuch, batches_of, rows_of
from .contract import DeadLetter, Message
from .csv_records import lines_of, records_of, values_of
from .partitions import numbered, partitions_of

SAMPLE_BYTES = 2_000
_SEPARATORS = (b",", b"[", b"{")
# A text of JSON is on one line. One that does not end is none either: looked for again at each quote in it, it would be
# read in the square of its length.
_JSON_TEXT = re.compile(rb'"(?:[^"\\\r\n]++|\\[^\r\n])*+"?+')
RAW = "value"  # the column of what has no declared fields
TIME_UNITS_MS = {"s": 1000.0, "ms": 1.0, "us": 0.001, "ns": 0.000001}
STREAM = (("_seq", pa.int64()), ("_time", pa.int64()), ("_born", pa.int64()))
_NUMBER = re.compile(r"[+-]?\d{9,}(\.\d+)?")  # with fewer digits it may be a date of ISO 8601
FIRST_MS = -62_135_596_800_000  # the beginning of the year 1, which is the first that dates have


_UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True)
class MessageLayout:
    """The layout of a source's messages.

    Parameters
    ----------
    fields : mapping of str to str
        Columns and their types (``arrow_type``); empty: one column ``value``.
    time_field : str, optional
        The column with the event's time; without one, it is the time of arrival.
    time_unit : str
        The unit that a number counts since the epoch, there and in other columns of type timestamp.
    time_zone : str, optional
        Of times that say none; UTC without it. An hour that comes twice when summer time ends is the first one, and a
        time that is left out when it begins is none.
    ahead_ms : int, optional
        The most ms that an event's time may be ahead of its arrival.
    extras : mapping of str to str
        Columns behind those of the content, that the source itself gives.
    """

    format: str = "json"
    fields: Mapping[str, str] = field(default_factory=dict)
    time_field: str | None = None
    time_unit: str = "ms"
    time_zone: str | None = None
    ahead_ms: int | None = None
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
        stream_fields = [{"name": name, "type": "long", "nullable": False, "metadata": {}} for name, _ in STREAM]
        value_fields = [
            {"name": name, "type": "long" if kind == "bigint" else kind, "nullable": True, "metadata": {}}
            for name, kind in self.columns.items()]
        return json.dumps({"type": "struct", "fields": [*stream_fields, *value_fields]})

    @property
    def arrow(self) -> pa.Schema:
        """The same, of a block."""
        return pa.schema(
            [pa.field(name, kind, nullable=False) for name, kind in STREAM]
            + [(name, arrow_type(kind)) for name, kind in self.columns.items()])


def layout_of(config: Mapping[str, Any]) -> MessageLayout:
    """The layout of a live source's messages, by its config."""
    return MessageLayout(
        config.get("format") or "json", typed_columns(config.get("columns") or ()), config.get("time_field"),
        config.get("time_unit") or "ms", config.get("time_zone"),
        round(1000 * float(config.get("ahead", AHEAD.default))), included(config))


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events with their times (ms since the epoch), and the unreadable ones. ``arrays``: the events by column;
    ``partitions``: the partition of each, if any is named."""

    rows: Sequence[tuple]
    times_ms: Sequence[int]
    dead: Sequence[DeadLetter]
    arrays: Sequence[pa.Array] = ()
    partitions: Sequence[str] = ()

    def block(self, layout: MessageLayout, *, first: int, born_ms: int, source: str = "") -> pa.RecordBatch:
        """The events as a block.

        Parameters
        ----------
        source : str, optional
            The running task, by whose name its partitions are told from those of others.
        """
        count = len(self.rows)
        seqs = numbered(self.partitions or [""] * count, first=first, source=source)
        arrays = [
            pa.array(seqs, pa.int64()), pa.array(self.times_ms, pa.int64()),
            pa.array([born_ms] * count, pa.int64()), *self.arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=layout.arrow)


def decode(
    messages: Sequence[Message], layout: MessageLayout, *, now_ms: int, most_events: int = MESSAGE_EVENTS.most,
    refuses: bool = False,
) -> Decoded:
    """The events of messages, in order.

    Parameters
    ----------
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
    when = list(layout.columns).index(layout.time_field) if layout.time_field else None
    room_left = POLL_EVENTS.most
    for message in messages:
        room = DecodingRoom(min(most_events, room_left), MESSAGE_VALUES.most, MESSAGE_BYTES.most)
        try:
            events = list(_events(message, layout, dead, room))
        except TooMuch as error:
            if refuses:
                raise
            dead.append(DeadLetter(str(error), message.place, _sample(message)))
            continue
        room_left -= len(events)
        is_one = len(events) == 1
        for word, number, text, read in events:
            try:
                row = read() + _extras(message, layout)
                time_ms = now_ms if when is None else _time_ms(row[when], layout, now_ms, message.at_ms)
            except UnreadableMessage as error:
                dead.append(DeadLetter(
                    str(error), message.place if is_one or not word else f"{message.place}, {word} {number}",
                    _sample(message) if is_one or text is None else _beginning(text)))
                continue
            rows.append(row)
            times_ms.append(time_ms)
            origins.append(message)
    try:
        return Decoded(rows, times_ms, dead, _arrays(rows, layout), partitions_of(origins))
    except _UNFIT:
        return _without_unfit(rows, times_ms, origins, dead, layout)


def _without_unfit(
    rows: Sequence[tuple], times_ms: Sequence[int], origins: Sequence[Message], dead: list[DeadLetter],
    layout: MessageLayout
) -> Decoded:
    """The events that a block can hold. Others become dead letters, and must not hold up later events."""
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
    return Decoded(kept_rows, [times_ms[number] for number in fitting], dead, _arrays(kept_rows, layout),
                   partitions_of([origins[number] for number in fitting]))


def _arrays(rows: Sequence[tuple], layout: MessageLayout) -> list[pa.Array]:
    columns = zip(*rows, strict=True) if rows else [()] * len(layout.columns)
    return [pa.array(column, arrow_type(kind)) for column, kind in zip(columns, layout.columns.values(), strict=True)]


# Where in its message an event is (a word and a number), its text where that is known, and what reads its values or
# says why it cannot.
_Event = tuple[str, int, str | bytes | None, Callable[[], tuple]]


def _events(message: Message, layout: MessageLayout, dead: list[DeadLetter], room: DecodingRoom) -> Iterator[_Event]:
    """The events of a message; one that cannot be taken apart is a dead letter as a whole."""
    try:
        if message.values is not None:
            yield "", 0, None, lambda: _row(message.values, layout)
        else:
            yield from _READERS[layout.format](message.body, layout, room)
    except UnreadableMessage as error:
        dead.append(DeadLetter(str(error), message.place, _sample(message)))


def _extras(message: Message, layout: MessageLayout) -> tuple:
    if not layout.extras:
        return ()
    values = message.extras or {}
    return tuple(_typed(name, values.get(name), kind) for name, kind in layout.extras.items())


def _json(body: bytes, layout: MessageLayout, room: DecodingRoom) -> Iterator[_Event]:
    _count_values(body, room)
    for number, (item, text) in enumerate(items_of(body), start=1):
        room.take(events=1)
        yield "event", number, text, lambda item=item: _row_of_json(item, layout)


def _count_values(body: bytes, room: DecodingRoom) -> None:
    """Take the room of a text's values. Only in a long text are commas and brackets within strings left out, and never
    in UTF-16 or UTF-32, which have other bytes."""
    if len(body) > room.values and sum(map(body.count, _SEPARATORS)) >= room.values:
        plain = body if b"\0" in body else _JSON_TEXT.sub(b"", body)
        room.take(values=1 + sum(map(plain.count, _SEPARATORS)))


def _ndjson(body: bytes, layout: MessageLayout, room: DecodingRoom) -> Iterator[_Event]:
    _count_values(body, room)
    for number, (_, _, line) in enumerate(lines_of(io.BytesIO(body)), start=1):
        if line is None or line.strip():
            room.take(events=1)
            yield "line", number, line, lambda line=line: _row_of_json(parsed(_whole_line(line)), layout)


def _csv(body: bytes, layout: MessageLayout, room: DecodingRoom) -> Iterator[_Event]:
    names = list(layout.content)
    for begin, _, record in records_of(io.BytesIO(body), values=len(names)):
        if record is None or record.strip():
            room.take(events=1)
            yield "byte", begin, record, lambda record=record: _row_of_values(
                values_of(_whole_line(record)), names, layout)


def _whole_line(line: bytes | None) -> bytes:
    if line is None:
        raise UnreadableMessage(f"is a line of over {FILE_RECORD.most >> 20} MiB")
    return line


def _arrow(body: bytes, layout: MessageLayout, room: DecodingRoom) -> Iterator[_Event]:
    number = 0
    try:
        for batch in batches_of(io.BytesIO(body), room, names=layout.content):
            for row in rows_of(batch):
                number += 1
                yield "row", number, None, lambda row=row: _row_of_table(row, layout)
    except TooMuch:
        raise
    except Exception as error:  # as of its rows
        raise UnreadableMessage(f"is no Arrow IPC stream, or not all of it: {_plain(str(error))[:200]}") from None


def _row_of_table(row: Mapping[str, Any] | UnreadableMessage, layout: MessageLayout) -> tuple:
    if isinstance(row, UnreadableMessage):
        raise row
    return _row(row, layout)


def _whole(body: bytes, layout: MessageLayout, room: DecodingRoom) -> Iterator[_Event]:
    yield "", 0, None, lambda: (text_of(body) if layout.format == "text" else body,)


_READERS: Mapping[str, Callable[[bytes, MessageLayout, DecodingRoom], Iterator[_Event]]] = {
    "json": _json, "ndjson": _ndjson, "csv": _csv, "arrow": _arrow, "text": _whole, "bytes": _whole}


def _row_of_json(item: Any, layout: MessageLayout) -> tuple:
    if isinstance(item, UnreadableMessage):
        raise item
    if not layout.fields:
        try:
            require_shallow(item)
            return (as_string(written(item)),)
        except UnicodeEncodeError:
            raise UnreadableMessage("has half a surrogate pair in it, which is no text") from None
    if not isinstance(item, dict):
        raise UnreadableMessage("is no JSON object, so it has no fields")
    return _row(item, layout)


def _row_of_values(values: Sequence[str], names: Sequence[str], layout: MessageLayout) -> tuple:
    if len(values) != len(names):
        raise UnreadableMessage(f"has {len(values)} values where {len(names)} fields are declared")
    return _row({name: value or None for name, value in zip(names, values, strict=True)}, layout)


def _row(values: Mapping[str, Any], layout: MessageLayout) -> tuple:
    """The declared fields of an event: missing ones are null, undeclared ones are left out."""
    fields = layout.fields or layout.content
    return tuple([_typed(name, values.get(name), kind, layout) for name, kind in fields.items()])


def _typed(name: str, value: Any, kind: str, layout: MessageLayout | None = None) -> Any:
    if value is None:
        return None
    try:
        if layout is not None and kind == "timestamp":
            return _moment(value, layout)
        return cast_to(kind)(value)
    except UnreadableMessage:
        raise
    except (ValueError, TypeError, KeyError, ArithmeticError, OSError):
        require_shallow(value)
        shown = value if isinstance(value, str) else written(value)
        raise UnreadableMessage(f"field {name} is {shown[:80]!r}, which is no {kind}") from None


def _moment(value: Any, layout: MessageLayout) -> datetime:
    """A time, of ISO 8601 or of a number since the epoch; in the layout's zone where it says none."""
    if isinstance(value, str) and layout.format == "csv" and _NUMBER.fullmatch(value):
        value = WrittenNumber(value)  # in CSV all is text
    return as_timestamp(value, unit_ms=TIME_UNITS_MS[layout.time_unit], zone=layout.time_zone)


def _time_ms(value: Any, layout: MessageLayout, now_ms: int, at_ms: int | None) -> int:
    """The event's time, or that of its message. An event without either has no place in time, and one that is too far
    ahead would be a guess: whoever sends it chooses both."""
    if value is None and at_ms is None:
        raise UnreadableMessage(f"has no time in its field {layout.time_field}")
    place = f"field {layout.time_field}" if value is not None else "the time of its message"
    try:
        if isinstance(value, str):
            value = _moment(value, layout)
        if value is None:
            value = time_ms = int(at_ms or 0)
        elif isinstance(value, datetime):
            time_ms = int(value.timestamp() * 1000)
        else:
            time_ms = int(float(value) * TIME_UNITS_MS[layout.time_unit]) if isinstance(value, Decimal) else int(
                value * TIME_UNITS_MS[layout.time_unit])
    except (ValueError, OverflowError, OSError):
        time_ms = LATEST_MS + 1
    if not FIRST_MS <= time_ms <= LATEST_MS:
        raise UnreadableMessage(f"{place} is {str(value)[:80]!r}, which is no time")
    if layout.ahead_ms is not None and time_ms > now_ms + layout.ahead_ms:
        raise UnreadableMessage(
            f"its time, {place}, is {(time_ms - now_ms) / 1000:.0f} s ahead of its arrival, and "
            f"ahead lets it be {layout.ahead_ms / 1000:.0f} s: mend the sender's clock, or name more in ahead")
    return time_ms


def _plain(text: str) -> str:
    """Text that can be written anywhere."""
    return text.encode(errors="backslashreplace").decode()


def _beginning(text: str | bytes) -> bytes:
    return (text if isinstance(text, bytes) else text[:SAMPLE_BYTES].encode(errors="replace"))[:SAMPLE_BYTES]


def _sample(message: Message) -> bytes:
    if message.values is not None:
        return json.dumps(dict(message.values), default=str).encode(errors="replace")[:SAMPLE_BYTES]
    return message.body[:SAMPLE_BYTES]
