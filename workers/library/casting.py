"""Values of events as columns have them: what is no value of a column's type is an error, and nothing is guessed."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache, partial
from typing import Any
from zoneinfo import ZoneInfo

from scheduler.model.bounds import MESSAGE_DEPTH

from .columns import decimal_of
from .json_values import UnreadableMessage, WrittenNumber, written
from .times import local_time

Cast = Callable[[Any], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_MOST_DIGITS = 80  # of what is rounded to see whether it would be; a decimal has 38
MOST_PLACES = 150_000  # before or behind a decimal's point; PostgreSQL has 131,072 and 16,383
_EXACT = Context(prec=_MOST_DIGITS, traps=[Inexact, InvalidOperation])


def require_shallow(value: Any, levels: int = MESSAGE_DEPTH.most) -> None:
    """Raise ``UnreadableMessage`` where lists and records are nested deeper than is written again."""
    if isinstance(value, dict | list):
        if not levels:
            raise UnreadableMessage(f"has a value of more than {MESSAGE_DEPTH.most} levels of lists and records")
        for inner in value.values() if isinstance(value, dict) else value:
            require_shallow(inner, levels - 1)


def as_string(value: Any) -> str:
    """Text; of what JSON has beside it, JSON, its numbers as they came."""
    if type(value) is str and value.isascii():  # as most are
        return value
    if isinstance(value, WrittenNumber):
        return value.text
    if isinstance(value, dict | list | bool | int | float):
        require_shallow(value)
        text = str(value) if type(value) is float and not math.isfinite(value) else written(value)
    elif isinstance(value, Decimal):
        if abs(value.adjusted()) > MOST_PLACES:
            raise ValueError
        text = f"{value:f}"
    else:
        text = bytes(value).decode() if isinstance(value, bytes | memoryview) else str(value)
    text.encode()  # half a surrogate pair, which JSON can spell, is no text
    return text


def _as_double(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, bool):
        raise TypeError
    text = _text_of_number(value)
    number = float(value if text is None else text)
    if math.isinf(number) and not _is_infinite(value, text):
        raise OverflowError
    return number


def _is_infinite(value: Any, text: str | None) -> bool:
    """Whether what became infinite said so, and is not only too large."""
    if text is not None:
        return _NOT_FINITE.fullmatch(text) is not None
    return not isinstance(value, Decimal) or value.is_infinite()


def _as_bigint(value: Any) -> int:
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError
    text = _text_of_number(value)
    if isinstance(value, Decimal) or (text is not None and _INTEGER.fullmatch(text) is None):
        number = _whole(Decimal(value if text is None else text))
    else:
        number = int(value if text is None else text)
    if not -(2**63) <= number < 2**63:
        raise ValueError
    return number


def _whole(number: Decimal) -> int:
    if not number.is_finite() or number.adjusted() > 19 or int(number) != number:
        raise ValueError
    return int(number)


def _as_decimal(value: Any, *, precision: int, scale: int) -> Decimal:
    """Exact: what has more digits than the column keeps is none."""
    if isinstance(value, bool):
        raise TypeError
    text = repr(value) if isinstance(value, float) else _text_of_number(value)
    number = value if isinstance(value, Decimal) else Decimal(value if text is None else text)
    if not number.is_finite() or number.adjusted() >= precision:
        raise ValueError
    rounded = number.quantize(Decimal((0, (1,), -scale)), context=_EXACT)
    if rounded and rounded.adjusted() >= precision - scale:
        raise ValueError
    return rounded


def _text_of_number(value: Any) -> str | None:
    """The text that a number is written as; None for what is one already. ``1_000``, and other digits than 0 to 9, are
    Python's and nobody else's."""
    if isinstance(value, WrittenNumber):
        return value.text
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text) is None and _NOT_FINITE.fullmatch(text) is None:
        raise ValueError
    return text


def _as_boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else _TRUTHS[as_string(value).strip().lower()]


def as_timestamp(value: Any, *, unit_ms: float = 1.0, zone: str | None = None) -> datetime:
    """A time from ISO 8601, or from a number of units since the epoch. A time without a zone is in ``zone``, or in UTC.

    A whole number must be a whole number of microseconds; decimal places are rounded to microseconds.
    """
    if isinstance(value, WrittenNumber | int | float) and not isinstance(value, bool):
        return _EPOCH + timedelta(microseconds=_microseconds(value, unit_ms))
    if getattr(value, "nanosecond", 0):
        raise ValueError  # a timestamp has microseconds
    time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    return time if time.tzinfo else local_time(time, UTC if zone is None else ZoneInfo(zone))


def _microseconds(value: WrittenNumber | int | float, unit_ms: float) -> int:
    if isinstance(value, int) and unit_ms >= 0.001:
        return value * round(1000 * unit_ms)
    number = Decimal(value.text if isinstance(value, WrittenNumber) else repr(value))
    if number.adjusted() > _MOST_DIGITS:  # 1e999999 has a million of them as a whole number
        raise ValueError
    moment = number * Decimal(repr(1000 * unit_ms))
    if number == number.to_integral_value() and moment != moment.to_integral_value():
        raise ValueError  # a timestamp has microseconds
    return round(moment)


def _as_binary(value: Any) -> bytes:
    """Bytes; a text is decoded from base64, which sinks write."""
    return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(memoryview(value))


_CASTS: dict[str, Cast] = {
    "string": as_string, "double": _as_double, "bigint": _as_bigint, "boolean": _as_boolean,
    "timestamp": as_timestamp, "binary": _as_binary}


@lru_cache(maxsize=1_000)
def cast_to(kind: str) -> Cast:
    """A function that makes a value of a column's type of what came; it raises where that is none."""
    if kind in _CASTS:
        return _CASTS[kind]
    precision, scale = decimal_of(kind) or (0, 0)
    return partial(_as_decimal, precision=precision, scale=scale)
