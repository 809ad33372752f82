"""Columns proposed from events that were seen: the narrowest type that keeps every one of their values.

A type is proposed only if each value is one of it by the same rules by which a source reads it (`casting`), so that
what is proposed reads all that was seen. Text stays text where it only looks like a number, but in CSV, where all is
text. A number with zeros in front is text there, too: it is a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from scheduler.contracts.looks import ColumnProposal, ProposedColumn

from .casting import as_timestamp, cast_to
from .columns import MOST_DIGITS, STREAM
from .json_values import UnreadableMessage, WrittenNumber

MOST_COLUMNS = 200
MOST_LEFT_OUT = 100  # that are told by their names
LONGEST_NAME = 200  # characters of a column's name
DEEPEST = 3  # levels of objects that are looked into
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?", re.ASCII)
_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$")
_INTEGER = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_NAMES_A_TIME = re.compile(r"(.*_)?(time|timestamp|ts|at|date|datetime|when)|.*(Time|Timestamp|At)")
_FIRST_S, _LAST_S = 946_684_800, 4_102_444_800  # of the years 2000 to 2099: in no two units is one number such a time
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_LONGEST_NUMBER = 80  # characters


def propose_columns(events: Sequence[Mapping[str, Any]], *, is_text: bool = False, zone: str | None = None
                    ) -> ColumnProposal:
    """Columns that read all events.

    Parameters
    ----------
    events : sequence of mapping
        Fields by name as a source gives them: values of JSON (`json_values.parsed`), of a table, or texts.
    is_text : bool, optional
        True where all values are text because the format has nothing else (CSV).
    zone : str, optional
        Of times that name none; UTC without it.

    Returns
    -------
    ColumnProposal
        Columns in the order in which fields were first seen, with values inside of objects behind their field; at most
        `MOST_COLUMNS`. Whoever sends the events names their fields: of those that are left out the first
        `MOST_LEFT_OUT` are named.
    """
    columns: list[ProposedColumn] = []
    left_out: dict[str, str] = {}
    left_out_count = 0
    taken = set(STREAM)
    for name in dict.fromkeys(name for event in events for name in event):
        reason = _unusable(name, taken)
        if reason or len(columns) >= MOST_COLUMNS:
            left_out_count += 1
            if left_out_count <= MOST_LEFT_OUT:
                left_out[name[:LONGEST_NAME]] = reason or f"there are more than {MOST_COLUMNS} columns"
            continue
        taken.add(name.lower())
        values = [event.get(name) for event in events]
        columns.append(ProposedColumn(name, type_of(values, is_text=is_text, zone=zone), None in values))
    if left_out_count > MOST_LEFT_OUT:
        left_out["…"] = f"{left_out_count - MOST_LEFT_OUT:,} others are not listed"
    fields = tuple(columns)
    for column in fields:
        values = [event.get(column.name) for event in events]
        columns += _within(column.name, (column.name,), values, taken, zone)
    columns = columns[:MOST_COLUMNS]
    order = {column.name: number for number, column in enumerate(fields)}
    columns.sort(key=lambda column: (order[column.path[0] if column.path else column.name], bool(column.path)))
    when, unit = _time_field(fields, events, zone)
    zoneless = tuple(
        column.name for column in fields if column.type == "timestamp" and any(
            _has_no_zone(event.get(column.name)) for event in events))
    return ColumnProposal(tuple(columns), when, unit, zoneless, left_out)


def type_of(values: Sequence[Any], *, is_text: bool = False, zone: str | None = None) -> str:
    """The narrowest type that keeps all values; None among them is no value of any."""
    present = [value for value in values if value is not None]
    return next((kind for kind in _candidates(present, is_text) if _keeps(kind, present, zone)), "string")


def _candidates(values: Sequence[Any], is_text: bool) -> Iterator[str]:
    """Types that values may be meant to have, by how they are written, the narrowest first."""
    if not values:
        return
    if all(isinstance(value, bool) for value in values):
        yield "boolean"
    elif all(isinstance(value, bytes | bytearray | memoryview) for value in values):
        yield "binary"
    elif all(isinstance(value, datetime) for value in values):
        yield "timestamp"
    elif all(isinstance(value, int | float | Decimal | WrittenNumber) and not isinstance(value, bool)
             for value in values):
        yield from _numbers(values)
    elif all(isinstance(value, str) for value in values):
        if all(_MOMENT.fullmatch(value.strip()) for value in values):
            yield "timestamp"
        elif is_text and all(value.strip().lower() in ("true", "false") for value in values):
            yield "boolean"
        elif is_text and all(_is_number(value) for value in values):
            yield from _numbers([WrittenNumber(value.strip()) for value in values])


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text.strip()) is not None


def _numbers(values: Sequence[Any]) -> Iterator[str]:
    if all(isinstance(value, int) or (isinstance(value, WrittenNumber) and _INTEGER.fullmatch(value.text))
           for value in values):
        yield "bigint"
        yield f"decimal({MOST_DIGITS},0)"
    elif all(isinstance(value, Decimal) for value in values):  # a table's own type: none of its digits is lost
        scales = [-int(value.as_tuple().exponent) for value in values if value.is_finite()]
        yield f"decimal({MOST_DIGITS},{min(MOST_DIGITS, max([0, *scales]))})"
    yield "double"


def _keeps(kind: str, values: Sequence[Any], zone: str | None) -> bool:
    cast: Callable[[Any], Any] = cast_to(kind)
    try:
        for value in values:
            if kind == "timestamp":
                as_timestamp(value, zone=zone)
            else:
                cast(value)
    except (UnreadableMessage, ValueError, TypeError, KeyError, ArithmeticError, OSError):
        return False
    return True


def _unusable(name: str, taken: set[str]) -> str:
    """Why a field's name is no column's; empty where it is one."""
    if _NAME.fullmatch(name) is None:
        return "its name has other characters than letters, digits and _"
    if len(name) > LONGEST_NAME:
        return f"its name has more than {LONGEST_NAME} characters"
    if name.lower() in taken:
        return "another column has its name, whatever the case"
    return ""


def _within(
    name: str, path: tuple[str, ...], values: Sequence[Any], taken: set[str], zone: str | None
) -> Iterator[ProposedColumn]:
    """Columns for single values inside of objects; none where a value is something else than an object."""
    objects = [value for value in values if isinstance(value, Mapping)]
    if not objects or len(path) > DEEPEST or any(
            value is not None and not isinstance(value, Mapping) for value in values):
        return
    for key in dict.fromkeys(key for value in objects for key in value):
        inner = [value.get(key) if isinstance(value, Mapping) else None for value in values]
        longer = f"{name}_{key}"
        if any(isinstance(value, Mapping | list) for value in inner):
            if _NAME.fullmatch(key):
                yield from _within(longer, (*path, key), inner, taken, zone)
            continue
        if _NAME.fullmatch(key) is None or len(longer) > LONGEST_NAME or longer.lower() in taken:
            continue
        taken.add(longer.lower())
        kind = type_of(inner, zone=zone)
        yield ProposedColumn(
            longer, kind if kind in ("boolean", "bigint", "double") else "string", None in inner, (*path, key))


def _time_field(
    columns: Sequence[ProposedColumn], events: Sequence[Mapping[str, Any]], zone: str | None
) -> tuple[str, str]:
    """The column that seems to be the event's time, with its unit: named so and in all events, or the only time."""
    times: list[tuple[str, str]] = []
    for column in columns:
        values = [event.get(column.name) for event in events]
        if column.may_lack or not values:
            continue
        if column.type == "timestamp":
            seconds = [as_timestamp(value, zone=zone).timestamp() for value in values]
            if all(_FIRST_S <= second < _LAST_S for second in seconds):
                times.append((column.name, "ms"))
        elif column.type in ("bigint", "double") and _NAMES_A_TIME.fullmatch(column.name):
            numbers = [cast_to(column.type)(value) for value in values]
            times += [
                (column.name, unit) for unit, per_second in _PER_SECOND.items()
                if all(_FIRST_S * per_second <= number < _LAST_S * per_second for number in numbers)]
    named = [field for field in times if _NAMES_A_TIME.fullmatch(field[0])]
    if named:
        return named[0]
    return times[0] if len(times) == 1 else ("", "ms")


def _has_no_zone(value: Any) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is None
    return isinstance(value, str) and _ZONE.search(value.strip()) is None

