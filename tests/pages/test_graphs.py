"""Graphs and figures as JSON: what is shared is marked, a plan's difference is told, plots are Plotly's."""

from __future__ import annotations

import time

import plotly.graph_objects as plotly
import pytest

from dashboard import jobs
from dashboard.approvals.difference import difference
from dashboard.approvals.models import Proposal
from dashboard.history.store import DatabaseHistory
from dashboard.operations.history import KeptHistory
from dashboard.pages.figures import latency_figure, rate_figure
from dashboard.pages.graphs import dataflow_graph, difference_graph
from dashboard.pages.ranges import RANGES
from dashboard.teams.permissions import viewer_of
from scheduler.history.series import SECOND, Annotation, Series
from tests.dashboard.building import World, document, planned, removal_planned, running
from tests.pages.conftest import ClientOf

GRAPH = {
    "tasks": [{"id": "a", "type": "t", "kind": "source", "config": {}},
              {"id": "b", "type": "u", "kind": "sink", "config": {}}],
    "streams": [{"source": "a", "target": "b", "selectivity": None}],
}


def other(name: str) -> dict[str, str]:
    return {"id": name, "name": name, "team": "City"}


def test_a_task_of_one_dataflow_only_has_no_mark() -> None:
    graph = dataflow_graph(GRAPH, shared_with={"a": [], "b": []})
    assert [(task["note"], task["marks"]) for task in graph["tasks"]] == [("", []), ("", [])]
    assert [stream["id"] for stream in graph["streams"]] == ["a>b"]


@pytest.mark.parametrize(("names", "note"), [(["jams"], "with jams"), (["jams", "x", "y"], "+2 with jams")])
def test_a_shared_task_says_by_whom(names: list[str], note: str) -> None:
    task = dataflow_graph(GRAPH, shared_with={"a": [other(name) for name in names]})["tasks"][0]
    assert (task["note"], task["marks"]) == (note, ["shared"])
    assert [user["name"] for user in task["users"]] == names


def test_the_topology_names_the_shape_and_nothing_else() -> None:
    changed = {**GRAPH, "tasks": [{**task, "config": {"window": 3}} for task in GRAPH["tasks"]]}
    longer = {**GRAPH, "tasks": [*GRAPH["tasks"], {"id": "c", "type": "t", "kind": "sink", "config": {}}]}
    shapes = [dataflow_graph(graph, shared_with={})["topology"] for graph in (GRAPH, changed, longer)]
    assert shapes[0] == shapes[1] != shapes[2]


def test_a_submission_starts_and_reuses(world: World) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    graph = graph_of(world, planned(world.mo, world.mobility, document("jams", window=20)))
    status = {task["label"]: (task["marks"], task["before"], task["after"]) for task in graph["tasks"]}
    assert status["sense"] == (["shared"], True, True)
    assert status["average"] == (["starts"], False, True)
    assert status["block_average"] == (["other"], True, True)  # traffic's own average, which stays as it is
    marks = {tuple(stream["marks"]) for stream in graph["streams"]}
    assert marks == {(), ("starts",)}
    assert {task["kind"] for task in graph["tasks"]} == {"source", "transform", "sink"}


def test_a_removal_stops_what_nobody_else_needs(world: World) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    running(world.mo, world.mobility, document("jams", window=20), world.ana, world.ben)
    graph = graph_of(world, removal_planned(world.carla, traffic))
    status = {task["label"]: (task["marks"], task["before"], task["after"]) for task in graph["tasks"]}
    assert status["parse"] == (["shared"], True, True)
    assert status["average"] == (["stops"], True, False)


def test_the_graph_of_a_dataflow_is_served(world: World, client_of: ClientOf) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    jams = running(world.mo, world.mobility, document("jams", window=20), world.ana, world.ben)
    graph = client_of("carla").get(f"/dataflows/{traffic.pk}/graph.json").json()
    shared = {task["id"]: [user["id"] for user in task["users"]] for task in graph["tasks"]}
    assert shared == {"sense": [str(jams.pk)], "parse": [str(jams.pk)], "average": [], "out": []}


def history_of(values: dict[str, list[float | None]], *notes: Annotation) -> KeptHistory:
    return KeptHistory(SECOND, 2, [10, 12, 14], values, notes)


def test_figures_are_plotlys() -> None:
    history = history_of({
        "events_in_per_s": [40.0, None, 41.0], "events_out_per_s": [39.0, None, 38.0],
        "latency_p50_ms": [None] * 3, "latency_p99_ms": [120.0, None, 130.0]})
    for figure, names in ((rate_figure(history), ["in", "out"]), (latency_figure(history), ["p50", "p95", "p99"])):
        assert [trace.name for trace in plotly.Figure(figure_of(figure)).data] == names  # raises on what is unknown
        assert [len(trace["x"]) for trace in figure["data"]] == [3] * len(names)


@pytest.mark.parametrize(("highest_ms", "drawn", "unit"), [(1999.0, 1999.0, " ms"), (5000.0, 5.0, " s")])
def test_long_latencies_are_drawn_in_seconds(highest_ms: float, drawn: float, unit: str) -> None:
    figure = latency_figure(history_of({"latency_p50_ms": [None] * 3, "latency_p99_ms": [highest_ms, None, None]}))
    assert figure["data"][0]["y"] == [None] * 3
    assert figure["data"][2]["y"][0] == pytest.approx(drawn)
    assert figure["layout"]["yaxis"]["ticksuffix"] == unit


def test_a_range_in_which_nothing_was_measured_has_no_line_and_says_so() -> None:
    for figure in (rate_figure(history_of({})), latency_figure(history_of({"latency_p50_ms": [None] * 3}))):
        assert figure["data"] == [] and "Nothing was measured" in figure["empty"]
        assert figure["layout"]["shapes"] == []


def test_what_happened_is_a_line_across_the_chart_and_the_newest_have_words() -> None:
    notes = [Annotation(10, "submit", "dataflow", "d"), Annotation(11, "fragment_failed", "dataflow", "d"),
             Annotation(14, "alarm", "dataflow", "d")]
    shapes = rate_figure(history_of({"events_in_per_s": [1.0, 2.0, 3.0]}, *notes))["layout"]["shapes"]
    assert [shape["label"]["text"] for shape in shapes] == ["submit, fragment failed", "alarm"]
    assert shapes[0]["x0"] == shapes[0]["x1"] == "1970-01-01T00:00:10+00:00"


@pytest.mark.parametrize(("chosen", "points"), [("", 450), ("15m", 450), ("24h", 720), ("90d", 1080), ("<b>", 450)])
def test_the_range_is_in_the_address(world: World, client_of, chosen: str, points: int) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    name, now_s = chosen if chosen in RANGES else "15m", int(time.time())
    history = DatabaseHistory()
    history.append(now_s - 30, {Series("dataflow", str(record.pk), "events_in_per_s"): 7.0})
    history.flush()
    page = client_of("carla").get(f"/dataflows/{record.pk}/", {"range": chosen}).content.decode()
    assert f'href="?range={name}#plots" aria-current="true"' in page
    assert f"plots.json?range={name}" in page and "<b>" not in page
    figures = client_of("carla").get(f"/dataflows/{record.pk}/plots.json", {"range": chosen}).json()
    line = figures["rate"]["data"][0]
    assert points - 1 <= len(line["x"]) <= points + 1
    assert [value for value in line["y"] if value is not None] == [7.0]


def figure_of(figure: dict) -> dict:
    return {name: figure[name] for name in ("data", "layout")}


def graph_of(world: World, proposal: Proposal) -> dict:
    return difference_graph(difference(viewer_of(world.root), proposal), task_types=jobs.task_types())
