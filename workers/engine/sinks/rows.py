"""Events as other systems take them: which columns, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from workers.library.arrow_types import rows_in
from workers.library.columns import STREAM
from workers.library.json_values import json_ready

from .contract import SinkRefused


def chosen(present: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns that are written: those that are named, else all but Weir's own.

    Raises
    ------
    SinkRefused
        The events lack one, or there is none.
    """
    missing = [name for name in columns if name not in present]
    if missing:
        raise SinkRefused(
            f"The events have no column {', '.join(missing)}.", remedy=f"They have {', '.join(present)}.")
    names = list(columns) or [name for name in present if name not in STREAM]
    if not names:
        raise SinkRefused("The events have no columns but Weir's own.", remedy="Name the ones to be written.")
    return names


def json_lines(rows: pa.Table) -> Iterator[bytes]:
    """Each event as one JSON object, without the newline."""
    for row in rows_in(rows):
        yield as_json(row)


def as_key(value: Any) -> bytes:
    """A value as a message's key: its text, bytes as they are; values that are equal have one key."""
    match value:
        case bytes():
            return value
        case float():
            return str(json_ready(value + 0.0)).encode()  # there is one zero
        case Decimal():
            return f"{value:f}".encode()
        case _:
            return str(value).encode()


def as_json(row: Mapping[str, Any]) -> bytes:
    """An event as a JSON object: times in ISO 8601, bytes in base64, decimals and what is not finite as text."""
    return json.dumps(
        json_ready(row), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(errors="replace")
