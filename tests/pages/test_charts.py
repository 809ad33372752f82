"""Charts over time: figures of kept history, the range in the address, marks, and an earlier time over it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import plotly.graph_objects as plotly
import pytest
from django.test import Client

from dashboard.catalog.services import choose_latency
from dashboard.controllers.adaptation_told import RECORDED
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.chart_marks import MOST_MARKS, Mark, marks_of
from dashboard.operations.live_view.estate_history import InvalidRange, KeptHistory
from dashboard.pages.charts import CHARTS, LANE, MOST_GROUPS, Earlier, chart_figure, group_marks, mark_rows
from dashboard.pages.ranges import RANGES, chosen
from dashboard.teams.permissions import viewer_of
from scheduler.history.series import DATAFLOW, KINDS, METRICS, MINUTE, SECOND, TEN_SECONDS, Annotation, Series, of_limit
from scheduler.model.errors import NotFound
from scheduler.model.latency_limits import LatencyLimit
from tests.dashboard.building import World, document, running
from tests.pages.conftest import ClientOf

DAY_S = 24 * 3600
NOW_S = 1_790_000_000


def past(values: dict[str, list[float | None]], *, begin_s: int = 10, step_s: int = 2) -> KeptHistory:
    return KeptHistory(SECOND, step_s, [begin_s, begin_s + step_s, begin_s + 2 * step_s], values, ())


def mark(at_s: int, what: str, tone: str = "change") -> Mark:
    return Mark(at_s, what, "query", "f1-0", "Why.", tone)


def figure(kind: str, name: str, kept_history: KeptHistory, **others: Any) -> dict[str, Any]:
    [chart] = [chart for chart in CHARTS[kind] if chart.name == name]
    return chart_figure(chart, kept_history, **{"begin_s": 10, "end_s": 16, "now_s": 20} | others)


def names(drawn: dict[str, Any]) -> list[str]:
    """The traces' names, after Plotly has read the figure, which raises on what it does not know."""
    data = [{key: value for key, value in trace.items() if key not in ("series", "faint")} for trace in drawn["data"]]
    shapes = [{key: value for key, value in shape.items() if key != "tone"} for shape in drawn["layout"]["shapes"]]
    return [trace.name for trace in plotly.Figure({"data": data, "layout": drawn["layout"] | {"shapes": shapes}}).data]


def test_every_kind_has_charts_of_its_own_metrics_and_of_all_of_them() -> None:
    assert set(CHARTS) == set(KINDS)
    for kind, charts in CHARTS.items():
        drawn = {metric for chart in charts for metric in chart.lines}
        drawn |= set(RECORDED) if kind == "dataflow" else set()  # on the page of adaptation
        assert drawn == {metric.name for metric in METRICS.values() if kind in metric.kinds}, kind
        for chart in charts:
            assert len({METRICS[metric].unit for metric in chart.lines}) == 1, chart.name


def test_each_limit_is_on_the_chart_of_its_sequence_by_its_name(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    limits = (LatencyLimit(2.0), LatencyLimit(0.3, along=("parse", "average")), LatencyLimit(5.0, percentile=99))
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=limits)
    now_s, line = int(time.time()), Series("dataflow", str(record.pk), "latency_min_ms")
    lines = {of_limit("latency_limit_ms", number): 1000 * limit.limit_s for number, limit in enumerate(limits)}
    lines |= {"latency_waiting_ms": 800.0, "latency_waiting_2_ms": 100.0, "latency_min_ms": 5.0}
    history = DatabaseHistory()
    history.append(now_s - 20, {replace(line, metric=metric): value for metric, value in lines.items()})
    history.flush()

    page = client_of("vera").get(f"/dataflows/{record.pk}/").content.decode()
    query = {"kind": "dataflow", "subject": record.pk, "range": "5m", "only": ["latency_parts", "latency_parts_2"]}
    whole, part = client_of("vera").get("/charts.json", query).json()["charts"]

    assert "Where mean latency goes, parse to average" in page
    assert names(whole) == [
        "waiting for batches", "limit: mean of at most 2 s", "limit: p99 of at most 5 s", "min"]
    assert names(part) == ["waiting for batches", "limit"]
    assert [trace["line"] for trace in whole["data"] if "limit" in trace["name"]] == [{"dash": "dash"}] * 2
    assert (whole["unit"], part["unit"]) == ("s", "ms")
    units = client_of("vera").get("/api/history", {"kind": "dataflow", "subject": record.pk}).json()["units"]
    assert units["latency_limit_3_ms"] == "ms"
    assert client_of("vera").get("/api/history", {
        "kind": "dataflow", "subject": record.pk, "metric": "latency_limit_21_ms"}).status_code == 422
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=())
    assert "parse to average" not in client_of("vera").get(f"/dataflows/{record.pk}/").content.decode()


def test_a_figure_is_plotlys_with_its_range_and_unit() -> None:
    drawn = figure("dataflow", "rate", past({"events_in_per_s": [40.0, None, 41.0], "events_out_per_s": [39.0] * 3}))
    assert names(drawn) == ["in", "out"]
    assert drawn["data"][0]["y"] == [40.0, None, 41.0] and drawn["data"][0]["dx"] == 2000
    assert drawn["layout"]["yaxis"]["ticksuffix"] == "/s" and drawn["unit"] == "/s"
    assert drawn["layout"]["xaxis"]["range"] == ["1970-01-01T00:00:10+00:00", "1970-01-01T00:00:16+00:00"]
    assert "in: last 41/s, lowest 40/s, highest 41/s" in drawn["summary"] and drawn["empty"] == ""


@pytest.mark.parametrize(("metric", "kind", "name", "value", "shown", "unit"), [
    ("latency_p99_ms", "task", "latency", 1999.0, 1999.0, "ms"),
    ("latency_p99_ms", "task", "latency", 5000.0, 5.0, "s"),
    ("memory_mb", "slot", "memory", 8192.0, 8.0, "GB"), ("memory", "query", "memory", 0.25, 25.0, "%")])
def test_values_are_drawn_in_the_unit_that_suits_them(
    metric: str, kind: str, name: str, value: float, shown: float, unit: str
) -> None:
    drawn = figure(kind, name, past({metric: [value, None, None]}))
    assert drawn["data"][0]["y"][0] == pytest.approx(shown) and drawn["unit"] == unit
    assert drawn["data"][0]["mode"] == "lines+markers"  # one value alone would be no line


@pytest.mark.parametrize(("values", "end_s", "why"), [
    ({}, 16, "Nothing is recorded of this yet"), ({"rate_per_s": [None] * 3}, 16, "Nothing was measured in this time"),
    ({"latency_p50_ms": [1.0] * 3}, 16, "never measured"), ({}, -100 * DAY_S, "kept for 90 days")])
def test_a_chart_without_values_says_why(values: dict[str, list[float | None]], end_s: int, why: str) -> None:
    drawn = figure("task", "rate", past(values), end_s=end_s, begin_s=end_s - 6, marks=[mark(12, "submit")])
    assert drawn["data"] == [] and drawn["layout"]["shapes"] == [] and why in drawn["empty"]
    assert "share its query" not in drawn["empty"]
    if "latency_p50_ms" in values:
        assert "shares its query with others" in figure("task", "cpu", past(values))["empty"]


def test_an_earlier_time_lies_over_it_at_the_same_place() -> None:
    earlier = Earlier(past({"rate_per_s": [5.0, 6.0, 7.0]}, begin_s=10 - DAY_S, step_s=60), DAY_S, "a day before")
    drawn = figure("task", "rate", past({"rate_per_s": [1.0, 2.0, 3.0]}), earlier=earlier)
    assert names(drawn) == ["rate", "rate, a day before"]
    assert drawn["data"][1]["x0"] == drawn["data"][0]["x0"] and drawn["data"][1]["dx"] == 60_000
    assert drawn["data"][1]["faint"] and drawn["data"][1]["series"] == drawn["data"][0]["series"]
    alone = figure("task", "rate", past({}), earlier=earlier)
    assert names(alone) == ["rate, a day before"]  # also where nothing is there now


def test_marks_that_would_lie_on_each_other_are_one_line_with_the_worst_tone_and_one_number() -> None:
    marks = [mark(11, "submit"), mark(11, "alarm", "bad"), mark(15, "over", "ok")]
    drawn = figure("task", "rate", past({"rate_per_s": [1.0, 2.0, 3.0]}), marks=marks)
    shapes = drawn["layout"]["shapes"]
    assert [(shape["tone"], shape["label"]["text"]) for shape in shapes] == [("bad", "1"), ("ok", "2")]
    assert names(drawn) == ["rate"]
    rows = mark_rows(group_marks(marks, 10, 16))
    assert [(row["number"], row["what"]) for row in rows] == [(2, "resolved"), (1, "problem"), (1, "merge")]


def test_small_changes_that_come_every_few_seconds_lie_in_a_lane_below() -> None:
    marks = [mark(10 + 10 * number, "repaced") for number in range(90)]
    drawn = figure("task", "rate", past({"rate_per_s": [1.0] * 900}), marks=marks, begin_s=10, end_s=910, now_s=911)
    shapes = drawn["layout"]["shapes"]
    assert 1 < len(shapes) <= MOST_GROUPS + 1 and {shape["y1"] for shape in shapes} == {LANE}
    with_plan = figure(
        "task", "rate", past({"rate_per_s": [1.0] * 900}), marks=[*marks, mark(905, "submit")], begin_s=10, end_s=910,
        now_s=911)["layout"]["shapes"]
    assert [shape["y1"] for shape in with_plan] == [LANE] * (len(with_plan) - 1) + [1], "a plan is a line"


def test_small_changes_of_one_subject_share_a_row_that_counts_them() -> None:
    marks = [mark(10 + 10 * number, "repaced") for number in range(9)] + [mark(95, "alarm", "bad")]
    rows = mark_rows(group_marks(marks, 10, 1_210))
    assert [row["what"] for row in rows] == ["problem", "interval"]
    assert rows[1]["text"].endswith("9 such changes since 00:00:10.") and rows[1]["at"].endswith("00:01:30+00:00")
    assert rows[1]["number"] == rows[0]["number"] == 1


def test_what_matters_is_shown_however_many_small_changes_came_since(world: World) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    recorded(at_s=NOW_S, notes=[
        Annotation(NOW_S, "submit", DATAFLOW, str(record.pk), "It began."),
        *(Annotation(NOW_S + 1 + number, "repaced", DATAFLOW, str(record.pk), f"{number}.")
          for number in range(3 * MOST_MARKS))])
    marks = marks_of(viewer_of(world.carla), DATAFLOW, str(record.pk), begin_s=NOW_S, end_s=NOW_S + 9_999)
    assert len(marks) == MOST_MARKS and [marks[0].what, marks[-1].text] == ["submit", f"{3 * MOST_MARKS - 1}."]
    assert [mark.at_s for mark in marks] == sorted(mark.at_s for mark in marks)


# The range in the address ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*RANGES, ""])
def test_a_live_range_ends_now_and_its_points_are_still_kept(name: str) -> None:
    span = chosen({"range": name}, now_s=NOW_S)
    wanted = span.span(now_s=NOW_S)
    assert span.end_s == NOW_S and span.every_s > 0 and span.name == (name or "15m")
    assert wanted.grain.keep_s >= NOW_S - wanted.begin_s
    assert (wanted.end_s - wanted.begin_s) / wanted.grain.step_s >= 0.9 * min(wanted.most_points, 300)
    for over, offset_s in (("day", DAY_S), ("week", 7 * DAY_S), ("before", span.end_s - span.begin_s)):
        earlier = chosen({"range": name, "over": over}, now_s=NOW_S).earlier(now_s=NOW_S)
        assert (earlier.begin_s, earlier.end_s) == (wanted.begin_s - offset_s, wanted.end_s - offset_s)
        assert earlier.grain is MINUTE or earlier.grain.keep_s >= NOW_S - earlier.begin_s


def test_an_absolute_range_stands_still_in_the_finest_grain_that_has_it() -> None:
    span = chosen({"from": "2026-09-20T10:00", "to": "2026-09-20T11:00:00Z"}, now_s=NOW_S)
    assert (span.end_s - span.begin_s, span.every_s, span.name) == (3600, 0, "")
    assert span.span(now_s=span.end_s).grain is TEN_SECONDS and span.span(now_s=span.end_s + 40 * DAY_S).grain is MINUTE
    assert chosen(dict(part.split("=") for part in span.query.replace("%3A", ":").split("&")), now_s=0) == span


@pytest.mark.parametrize("address", [
    {"from": "yesterday", "to": "2026-09-20T11:00"}, {"from": "2026-09-20T11:00", "to": "2026-09-20T10:00"},
    {"from": "2026-01-01T00:00", "to": "2026-09-20T10:00"}, {"to": "2026-09-20T10:00"}, {"from": "0001-01-01T00:00"}])
def test_a_range_that_cannot_be_shown_is_refused(address: dict[str, str]) -> None:
    with pytest.raises(InvalidRange):
        chosen(address, now_s=NOW_S)


# Over HTTP ------------------------------------------------------------------------------------------------------------


def recorded(*lines: Series, at_s: int, values: Sequence[float] = (7.0,), notes: Sequence[Annotation] = ()) -> None:
    history = DatabaseHistory()
    for second, value in enumerate(values):
        history.append(at_s + second, dict.fromkeys(lines, value))
        if second % 30 == 29:
            history.flush()
    history.flush()
    history.annotate(notes)


def test_charts_of_a_dataflow_come_with_marks_and_a_table_with_few_rows(world: World, client_of: ClientOf) -> None:
    record, now_s = running(world.carla, world.city, document("traffic"), world.ana), int(time.time())
    recorded(Series("dataflow", str(record.pk), "events_in_per_s"), at_s=now_s - 200, values=[7.0] * 180)
    query = {"kind": "dataflow", "subject": record.pk, "range": "5m", "over": "day"}
    answer = client_of("vera").get("/charts.json", query).json()
    assert [chart["name"] for chart in answer["charts"]] == [
        "rate", "latency", "latency_parts", "limits", "watermark", "backlog", "cpu", "memory", "tasks"]
    assert sum(value == 7.0 for value in answer["charts"][0]["data"][0]["y"]) == 180
    assert answer["range"]["name"] == "5m" and answer["range"]["over_empty"]
    assert [row["what"] for row in answer["marks"]] == ["merge"]  # once, though its queries have it too
    [table] = client_of("vera").get("/charts.json", query | {"only": "rate", "rows": ""}).json()["charts"]
    assert len(table["data"][0]["y"]) <= 61
    still = {"from": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s - 150)),
             "to": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s - 140))}
    answer = client_of("vera").get("/charts.json", {"kind": "dataflow", "subject": record.pk, **still}).json()
    assert len(answer["charts"][0]["data"][0]["y"]) == 10 and answer["range"]["every_s"] == 0
    assert client_of("vera").get("/charts.json", query | {"from": "never"}, headers={"accept": "application/json"}
                                 ).json()["code"] == "invalid_range"
    beyond = {"from": "9999-12-31T00:00:00", "to": "9999-12-31T23:59:59-23:59"}  # its end is in the year 10000
    assert client_of("vera").get("/charts.json", query | beyond, headers={"accept": "application/json"}
                                 ).json()["code"] == "invalid_range"
    assert client_of("vera").get(f"/dataflows/{record.pk}/", beyond).status_code == 200, "with the default range"
    assert client_of("vera").get("/charts.json", {"kind": "magic"}).status_code == 404


def test_marks_of_what_something_runs_on_are_its_own_but_not_those_of_others(world: World) -> None:
    hush = running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    estate = load_estate()
    task = estate.submitted[str(hush.pk)].running["parse"]
    query = estate.places[task][0]
    slot = estate.fragments[query].slot
    recorded(at_s=NOW_S, values=(), notes=[
        Annotation(NOW_S, "fragment_failed", "query", query, f"ValueError in {task}"),
        Annotation(NOW_S + 1, "slot_died", "slot", slot, "killed"),
        Annotation(NOW_S + 2, "alarm", "node", "elsewhere")])

    def seen(who: str, kind: str, subject: str) -> list[tuple[str, str]]:
        marks = marks_of(viewer_of(world.users[who]), kind, subject, begin_s=NOW_S, end_s=NOW_S + 9)
        return [(mark.what, mark.tone) for mark in marks]

    failed, died = ("fragment_failed", "bad"), ("slot_died", "bad")
    for kind, subject in (("dataflow", str(hush.pk)), ("task", task), ("query", query), ("slot", slot), ("node", "n1")):
        assert seen("vera", kind, subject) == [failed, died], kind
    assert seen("mo", "slot", slot) == [died]  # what fails there is nobody else's
    with pytest.raises(NotFound):
        seen("mo", "query", query)
    assert seen("mo", "estate", "") == [died]
    assert failed not in seen("vera", "dataflow", str(traffic.pk))
    [first, _] = marks_of(viewer_of(world.vera), "query", query, begin_s=NOW_S, end_s=NOW_S + 9)
    assert first.text == "ValueError in parse of hush"


def test_the_frame_of_a_page_says_which_range_is_chosen(world: World, client_of: ClientOf) -> None:
    for query, current in (("?range=7d&over=week", "7d"), ("", "15m"), ("?range=<b>", "15m")):
        page = client_of("vera").get(f"/estate/time{query}").content.decode()
        assert f'data-range="{current}" data-ms="{RANGES[current].length_s}000" aria-current="true"' in page
        assert page.count("aria-current=\"true\"") == 1 and "<b>" not in page
    assert 'value="week" selected' in client_of("vera").get("/estate/time?over=week").content.decode()


@pytest.mark.parametrize(("query", "ahead"), [("", True), ("?range=7d", False), ("?from=2026-01-01T00:00:00", False)])
def test_figures_are_asked_for_ahead_by_the_address_that_the_script_asks_for(
    world: World, client: Client, query: str, ahead: bool
) -> None:
    client.force_login(world.vera)
    page = client.get(f"/estate/time{query}").content.decode()
    asked_for = re.search(r'data-charts="([^"]+)"', page)[1]
    assert (f'<link rel="preload" href="{asked_for}" as="fetch" crossorigin>' in page) is ahead
