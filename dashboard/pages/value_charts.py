"""Charts of the data's own values: a column of an output's newest events as a Plotly figure. Pure.

Numbers are lines over the event's time, everything else is counted in bars; either by the values of a second column.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from dashboard.pages.charts import iso_moment
from scheduler.contracts.moments import LATEST_MS

MOST_KEYS = 6  # lines or bars beside each other: as many as there are colours
MOST_BARS = 12
LONGEST = 40  # characters of a name in a chart
NUMBER, CATEGORY = "number", "category"
TIMES = ("_time", "_born")  # the event's own time, else when its source emitted it

Event = Mapping[str, Any]


def chart_columns(events: Sequence[Event]) -> dict[str, str]:
    """The columns that a chart can show, each a ``number`` or a ``category``, in the order in which events have them.

    Lists, records and Weir's own columns are none.
    """
    kinds: dict[str, str] = {}
    for event in events:
        for name, value in event.items():
            kind = NUMBER if _is_number(value) else CATEGORY if isinstance(value, (str, bool)) else ""
            if kind and not name.startswith("_") and kinds.get(name) != CATEGORY:
                kinds[name] = kind
    return kinds


def value_figure(events: Sequence[Event], *, value: str = "", by: str = "") -> dict[str, Any]:
    """The figure of a column.

    Parameters
    ----------
    value : str, optional
        The column that is shown; the first number, else the first column, where none is named.
    by : str, optional
        The column whose values have a line or bars each: the six with most events.

    Returns
    -------
    dict
        As `charts.chart_figure`, with ``columns`` to choose from, the ``value`` and ``by`` that it shows, and a
        ``note`` of what it leaves out.
    """
    columns = chart_columns(events)
    numbers = [name for name, kind in columns.items() if kind == NUMBER]
    value = value or next(iter([*numbers, *columns]), "")
    group = by if by in columns and by != value else ""
    groups = Counter(_key(event, group) for event in events)
    draw = _bars if columns.get(value) == CATEGORY else _lines
    traces, note = draw(events, value, group, [key for key, _ in groups.most_common(MOST_KEYS)])
    if len(groups) > MOST_KEYS:
        note = f"The {MOST_KEYS} values of {by} with most events, of {len(groups)}. {note}".strip()
    is_bars = draw is _bars
    return {
        "name": "values", "unit": "", "columns": [{"name": name, "kind": kind} for name, kind in columns.items()],
        "value": value, "by": by, "data": traces, "note": note,
        "layout": {
            "xaxis": {"fixedrange": True, **({"type": "category"} if is_bars else {})},
            "yaxis": {} if is_bars else {"rangemode": "normal"}, **({"barmode": "group"} if is_bars else {}),
            "hovermode": "x" if is_bars else "x unified"},
        "empty": "" if traces else _why_empty(events, value, columns), "summary": _summary(traces, value, len(events))}


def _lines(events: Sequence[Event], value: str, by: str, keys: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """A line for each key, through the events whose value is a finite number and whose time is one of a calendar."""
    traces = []
    for index, key in enumerate(keys):
        points = sorted(
            (_at_ms(event), float(event[value])) for event in events
            if _is_number(event.get(value)) and _key(event, by) == key)
        drawn = [(at, number) for at, number in points if math.isfinite(number) and 0 <= at <= LATEST_MS]
        if drawn:
            traces.append({
                "type": "scatter", "mode": "lines+markers", "name": key[:LONGEST] or value, "series": index,
                "x": [iso_moment(at / 1000) for at, _ in drawn], "y": [number for _, number in drawn],
                "hovertemplate": "%{y:.6~g}"})
    return traces, ""


def _bars(events: Sequence[Event], value: str, by: str, keys: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """The number of events for each value, the most frequent first."""
    counted = {key: Counter(
        _word(event[value]) for event in events
        if event.get(value) is not None and _key(event, by) == key) for key in keys}
    total = sum(counted.values(), Counter())
    names = [name for name, _ in total.most_common(MOST_BARS)]
    note = f"The {MOST_BARS} most frequent of {len(total)} values." if len(total) > MOST_BARS else ""
    return [
        {"type": "bar", "name": key[:LONGEST] or value, "series": index, "x": names,
         "y": [counts[name] for name in names], "hovertemplate": "%{y} events"}
        for index, (key, counts) in enumerate(counted.items()) if counts], note


def _key(event: Event, by: str) -> str:
    return _word(event.get(by)) if by else ""


def _word(value: Any) -> str:
    """A value as a chart names it; never empty, for that stands for no column."""
    if isinstance(value, bool):
        return str(value).lower()
    return ("none" if value is None else f"{value:.6g}" if _is_number(value) else str(value)) or "(empty)"


def _at_ms(event: Event) -> float:
    return next((event[name] for name in TIMES if _is_number(event.get(name))), 0.0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _why_empty(events: Sequence[Event], value: str, columns: Mapping[str, str]) -> str:
    if not events:
        return "No event yet. The chart starts within two seconds of the first."
    if not columns:
        return "These events have neither numbers nor texts to draw."
    return f"None of the newest {len(events)} events has a value in {value}."


def _summary(traces: Sequence[Mapping[str, Any]], value: str, count: int) -> str:
    """The chart in a sentence, for who does not see it."""
    if not traces:
        return f"{value or 'Values'}: nothing to draw."
    if traces[0]["type"] == "bar":
        parts = [f"{trace['name']}: {max(trace['y'])} events with {trace['x'][trace['y'].index(max(trace['y']))]}"
                 for trace in traces]
    else:
        parts = [f"{trace['name']}: last {trace['y'][-1]:.4g}, lowest {min(trace['y']):.4g}, highest "
                 f"{max(trace['y']):.4g}" for trace in traces]
    return f"{value} of the newest {count} events. {'; '.join(parts)}."
