"""Events as other systems take them: which columns, and as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from workers.library.columns import STREAM

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
    for row in rows.to_pylist():
        yield as_json(row)


def as_json(row: Mapping[str, Any]) -> bytes:
    """An event as a JSON object: times in ISO 8601, bytes in base64; what JSON has no number for is null."""
    return json.dumps(_plain(row), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(errors="replace")


def _plain(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case Mapping():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _:
            return value
