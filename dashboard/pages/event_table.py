"""Events as a table: the data's own columns, then Weir's, each column with its type where that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from scheduler.model.columns import number_of

MOMENTS = {"_time", "_born"}


def event_table(
    events: Sequence[Mapping[str, Any]], types: Mapping[str, str | None] = MappingProxyType({})
) -> dict[str, Any]:
    """``columns`` (``name``, ``type``) and ``rows`` of values as cells show them; columns also where there is no event.
    """
    names = list(dict.fromkeys([*types, *(name for event in events for name in event)]))
    names.sort(key=lambda name: (name.startswith("_"), name != "_seq"))
    if events:  # a recording has none of Weir's own yet
        names = [name for name in names if not name.startswith("_") or any(name in event for event in events)]
    return {
        "columns": [{"name": name, "type": types.get(name) or ""} for name in names],
        "rows": [[_cell_value(name, event.get(name)) for name in names] for event in events]}


def _cell_value(column: str, value: Any) -> Any:
    """A value as its cell shows it: Weir's own moments as times of day, an event's number without its partition, other
    numbers without their binary tail."""
    if column == "_seq" and isinstance(value, int):
        return number_of(value)
    if column in MOMENTS and isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, tz=UTC).strftime("%H:%M:%S.%f")[:-3]
    if isinstance(value, datetime):
        return str(value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None))
    if isinstance(value, (date, Decimal)):
        return str(value)
    return f"{value:.8g}" if isinstance(value, float) else value
