"""Charts of an output's own values: every event is drawn or counted where it belongs, whatever events hold."""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from dashboard import jobs
from dashboard.pages.value_charts import MOST_BARS, MOST_KEYS, chart_columns, value_figure
from scheduler.contracts.moments import LATEST_MS
from tests.dashboard.building import World, document, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup

TIMES = st.integers(-10, 10**13) | st.sampled_from([2**62, None])
WORDS = st.sampled_from([*"abcdefgh", "", "none", "x" * 60])
NUMBERS = st.floats() | st.integers(-(2**63), 2**63 - 1) | st.decimals(allow_nan=False, allow_infinity=False, places=3)
EVENTS = st.lists(st.fixed_dictionaries({}, optional={
    "_time": TIMES, "_born": TIMES, "number": st.none() | NUMBERS, "word": st.none() | WORDS, "flag": st.booleans(),
    "mixed": NUMBERS | WORDS, "whole": st.integers(0, 30), "list": st.lists(st.integers(), max_size=2)}), max_size=40)
COLUMNS = st.sampled_from(["", "number", "word", "flag", "mixed", "whole", "list", "gone", "_time"])


def named(value: Any) -> str:
    """A key as a line is named; written without the module."""
    if value is True or value is False:
        return "true" if value else "false"
    if value is None:
        return "none"
    return (format(value, ".6g") if isinstance(value, (int, float, Decimal)) else value) or "(empty)"


@given(EVENTS, COLUMNS, COLUMNS)
def test_each_event_is_drawn_once_under_its_key(events: list[dict[str, Any]], value: str, by: str) -> None:
    figure = value_figure(events, value=value, by=by)
    json.dumps(figure, allow_nan=False)
    columns = {column["name"]: column["kind"] for column in figure["columns"]}
    assert not {"list", "_time", "_born"} & columns.keys()
    value, group = figure["value"], by if by in columns and by != figure["value"] else ""
    sizes = Counter(named(event.get(group)) for event in events) if group else Counter({value: len(events)})
    traces = {trace["name"]: trace for trace in figure["data"]}
    assert len(traces) <= MOST_KEYS and bool(figure["empty"]) is (not traces)
    for key, trace in traces.items():
        of_key = [event for event in events if not group or named(event.get(group))[:40] == key]
        if trace["type"] == "bar":
            counts = Counter(named(event[value]) for event in of_key if event.get(value) is not None)
            assert all(counts[name] == count for name, count in zip(trace["x"], trace["y"], strict=True))
            assert len(trace["x"]) <= MOST_BARS
        else:
            drawn = sorted(float(event[value]) for event in of_key if is_drawn(event, value))
            assert sorted(trace["y"]) == drawn
            moments = [datetime.fromisoformat(moment) for moment in trace["x"]]
            assert moments == sorted(moments)
    left_out = [key for key in sizes if key[:40] not in traces and any(
        event.get(value) is not None if columns.get(value) == "category" else is_drawn(event, value)
        for event in events if not group or named(event.get(group)) == key)]
    assert not left_out or (len(sizes) > MOST_KEYS and "of" in figure["note"])


def is_drawn(event: dict[str, Any], value: str) -> bool:
    number = event.get(value)
    if isinstance(number, bool) or not isinstance(number, (int, float, Decimal)) or not math.isfinite(number):
        return False
    at = next((event[name] for name in ("_time", "_born") if event.get(name) is not None), 0)
    return 0 <= at <= LATEST_MS


def test_a_column_with_numbers_and_texts_is_counted() -> None:
    assert chart_columns([{"a": 1.5, "b": True}, {"a": "n/a", "c": None}]) == {"a": "category", "b": "category"}


def test_numbers_come_first_and_the_choice_stays_where_no_event_has_it() -> None:
    events = [{"_time": 1000, "city": "Bonn", "t": 4.5}, {"_time": 500, "city": "Köln", "t": 3.5}]
    figure = value_figure(events, by="city")
    assert figure["value"] == "t" and [trace["name"] for trace in figure["data"]] == ["Bonn", "Köln"]
    gone = value_figure(events, value="humidity")
    assert (gone["value"], gone["data"]) == ("humidity", []) and "None of the newest 2 events" in gone["empty"]


def test_the_chart_is_of_the_newest_events_and_for_who_may_see_the_dataflow(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = running(world.carla, world.city, document("traffic", visibility="private"), world.ana)
    counts = []
    monkeypatch.setattr(jobs, "output_tail", lambda channel, count: counts.append(count) or [
        {"_time": 1000 * number, "speed": number} for number in range(5)])
    address = reverse("output_chart", args=[record.pk, "out"])
    figure = client_of("carla").get(address, {"value": "speed"}).json()
    assert figure["data"][0]["y"] == [0, 1, 2, 3, 4] and counts == [200]
    assert figure["data"][0]["x"][0].startswith("1970-01-01T00:00:00")
    assert client_of("mo").get(address).status_code == 404
    page = Markup(client_of("carla").get(reverse("dataflow", args=[record.pk])).text)
    assert page.values("data-values") == [address]


def test_a_broker_that_is_away_is_said_in_the_charts_place(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    figure = client_of("carla").get(reverse("output_chart", args=[record.pk, "out"])).json()
    assert figure["data"] == [] and "broker" in figure["empty"]
