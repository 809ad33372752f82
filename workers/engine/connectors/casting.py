"""Values of events as columns have them: what is no value of a column's type is an error, and nothing is guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from scheduler.model.bounds import MESSAGE_DEPTH
from workers.library.times import local_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


class Unreadable(ValueError):
    """A message, or an event in it, does not fit; the text says why."""


def require_shallow(value: Any, levels: int = MESSAGE_DEPTH.most) -> None:
    """Raise ``Unreadable`` where lists and records are nested deeper than is written again."""
    if isinstance(value, dict | list):
        if not levels:
            raise Unreadable(f"has a value of more than {MESSAGE_DEPTH.most} levels of lists and records")
        for inner in value.values() if isinstance(value, dict) else value:
            require_shallow(inner, levels - 1)


def as_string(value: Any) -> str:
    """Text; of what JSON has beside it, JSON."""
    if isinstance(value, dict | list | bool | int | float):
        require_shallow(value)
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = bytes(value).decode() if isinstance(value, bytes | memoryview) else str(value)
    text.encode()  # half a surrogate pair, which JSON can spell, is no text
    return text


def _as_double(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _as_bigint(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError
    return number


def _as_boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else _TRUTHS[str(value).strip().lower()]


def as_timestamp(value: Any, *, unit_ms: float = 1.0, zone: str | None = None) -> datetime:
    """A time, of ISO 8601 or of a number of units since the epoch; in that zone where it has none, or in UTC."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _EPOCH + timedelta(milliseconds=value * unit_ms)
    time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    return time if time.tzinfo else local_time(time, UTC if zone is None else ZoneInfo(zone))


def _as_binary(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


CASTS: Mapping[str, Callable[[Any], Any]] = {
    "string": as_string, "double": _as_double, "bigint": _as_bigint, "boolean": _as_boolean,
    "timestamp": as_timestamp, "binary": _as_binary}
