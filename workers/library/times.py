"""Recorded times of events: read from SenML's base time, a CSV or JSON field, an XML element or a Parquet column."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING, Any

from scheduler.contracts.moments import LATEST_MS

from .config import InvalidConfig

if TYPE_CHECKING:
    import pyarrow as pa

_SECONDS_BELOW = 100_000_000_000  # as ms this is in March 1973, as s in the year 5138


def recorded_ms(
    events: pa.Table, kind: str, time_column: str | None, *, header: str = "", path: str, first: int = 1
) -> list[int] | None:
    """The times at which events were recorded, in ms since the epoch; None where the recording does not say it.

    Parameters
    ----------
    time_column : str or None
        The column that holds the time; SenML holds it by itself.
    header : str
        A CSV recording's line of column names; without it columns count from 0.
    first : int
        The number of the first of these events in the recording, for messages.

    Raises
    ------
    InvalidConfig
        The time column is not there, or an event's time cannot be read; the message names the event.
    """
    if kind == "senml":
        values: Iterable[Any] = (_senml_time(line.as_py()) for line in events["senml"])
    elif time_column is None:
        return None
    else:
        values = _column(events, kind, time_column, header=header, path=path)
    times: list[int] = []
    for number, value in enumerate(values, start=first):
        time_ms = to_ms(value)
        if time_ms is None:
            if kind == "senml":
                return None
            raise InvalidConfig(
                f"Event {number} of “{path}” has no time that can be read in {time_column}: {value!r}.",
                remedy="Times are ms or s since the epoch, or ISO 8601. Correct the recording or the time_column.",
                path=path, event=number,
            )
        times.append(time_ms)
    return times


def to_ms(value: Any) -> int | None:
    """A time in ms since the epoch from a number (ms, or s where it is small), ISO 8601 or a date.

    None for what is no time, and for a number beyond the year 9999.
    """
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, date):
        return to_ms(datetime(value.year, value.month, value.day))
    text = str(value).strip() if value is not None else ""
    if re.fullmatch(r"-?\d+(\.\d+)?([eE]\+?\d+)?", text):
        number = float(text)  # exact for every integer within the bound
        in_ms = number * 1000 if abs(number) < _SECONDS_BELOW else number
        return int(in_ms) if abs(in_ms) < LATEST_MS + 1 else None
    try:
        return to_ms(datetime.fromisoformat(text))
    except ValueError:
        return None


def local_time(time: datetime, zone: tzinfo) -> datetime:
    """A time on the clocks of a zone: the first of two where they are set back.

    Raises
    ------
    ValueError
        Clocks were set forward over it.
    """
    local = time.replace(tzinfo=zone, fold=0)
    if local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != time:
        raise ValueError(f"{time} is left out by the clocks of {zone}")
    return local


def _senml_time(line: str) -> Any:
    leading, comma, _ = line.partition(",")
    if comma and leading.strip().isdigit():
        return leading
    match = re.search(r'"bt"\s*:\s*"?(-?\d+(?:\.\d+)?)', line)
    return match.group(1) if match else None


def _column(events: pa.Table, kind: str, name: str, *, header: str, path: str) -> Iterable[Any]:
    if kind == "parquet":
        if name not in events.column_names:
            raise _missing(name, events.column_names, path)
        return events[name].to_pylist()
    lines = events[kind].to_pylist()
    if kind == "csv":
        index = _place(header, name, path)
        return (row[index] if index < len(row) else None for row in csv.reader(lines))
    if kind == "json":
        return (_member(line, name) for line in lines)
    element = re.compile(rf"<{re.escape(name)}(?:\s[^<>]*)?>([^<]*)</{re.escape(name)}>")
    return (match.group(1) if (match := element.search(line)) else None for line in lines)


def _place(header: str, name: str, path: str) -> int:
    if name.isdigit():
        return int(name)
    names = next(csv.reader([header]))
    if name not in names:
        raise _missing(name, names, path)
    return names.index(name)


def _member(line: str, name: str) -> Any:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value.get(name) if isinstance(value, dict) else None


def _missing(name: str, names: list[str], path: str) -> InvalidConfig:
    return InvalidConfig(
        f"“{path}” has no column {name}.", remedy=f"Its columns are {', '.join(names)}.", path=path, columns=names
    )
