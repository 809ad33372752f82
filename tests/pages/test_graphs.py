"""Graphs and figures as JSON: what is shared is marked, and a plan's difference is told."""

from __future__ import annotations

import pytest

from dashboard import jobs
from dashboard.approvals.difference import difference
from dashboard.approvals.models import Proposal
from dashboard.pages.graphs import dataflow_graph, difference_graph
from dashboard.teams.permissions import viewer_of
from tests.dashboard.building import World, document, planned, removal_planned, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup

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


def status_of(graph: dict) -> dict[str, list[tuple[list[str], bool, bool]]]:
    """By label what becomes of the tasks that are called so."""
    status: dict[str, list[tuple[list[str], bool, bool]]] = {}
    for task in graph["tasks"]:
        status.setdefault(task["label"], []).append((task["marks"], task["before"], task["after"]))
    return status


def test_a_submission_starts_and_reuses(world: World) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    graph = graph_of(world, planned(world.mo, world.mobility, document("jams", window=20)))
    status = status_of(graph)
    assert status["sense"] == [(["shared"], True, True)]
    # Traffic's own average stays as it is.
    assert sorted(status["average"]) == [(["other"], True, True), (["starts"], False, True)]
    marks = {tuple(stream["marks"]) for stream in graph["streams"]}
    assert marks == {(), ("starts",)}
    assert {task["kind"] for task in graph["tasks"]} == {"source", "transform", "sink"}


def test_a_removal_stops_what_nobody_else_needs(world: World) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    running(world.mo, world.mobility, document("jams", window=20), world.ana, world.ben)
    graph = graph_of(world, removal_planned(world.carla, traffic))
    status = status_of(graph)
    assert status["parse"] == [(["shared"], True, True)]
    assert sorted(status["average"]) == [(["other"], True, True), (["stops"], True, False)]


def test_the_graph_of_a_dataflow_is_served(world: World, client_of: ClientOf) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    jams = running(world.mo, world.mobility, document("jams", window=20), world.ana, world.ben)
    graph = client_of("carla").get(f"/dataflows/{traffic.pk}/graph.json").json()
    shared = {task["id"]: [user["id"] for user in task["users"]] for task in graph["tasks"]}
    assert shared == {"sense": [str(jams.pk)], "parse": [str(jams.pk)], "average": [], "out": []}


def graph_of(world: World, proposal: Proposal) -> dict:
    return difference_graph(difference(viewer_of(world.root), proposal), task_types=jobs.task_types())


def test_a_task_of_a_dataflow_is_shown_beside_its_graph(world: World, client_of: ClientOf) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    jams = running(world.mo, world.mobility, document("jams", window=20), world.ana, world.ben)
    client = client_of("carla")
    panel = Markup(client.get(f"/dataflows/{traffic.pk}/tasks/parse").text)
    assert panel.every("h3")[0].text == "parse" and panel.links(f"/dataflows/{jams.pk}/")
    sense, parse = (traffic.uses.get(task_id=name).running_task_id for name in ("sense", "parse"))
    assert panel.values("data-output") == [
        *(f"/estate/tasks/{running_id}/events" for running_id in (parse, sense)),
        f"/dataflows/{traffic.pk}/log/lines?task=parse"]
    assert "sensor_id" in panel.one("data-part", "columns").text
    sink = Markup(client.get(f"/dataflows/{traffic.pk}/tasks/out").text)
    assert f"/dataflows/{traffic.pk}/outputs/out" in sink.values("data-output")
    assert client.get(f"/dataflows/{traffic.pk}/tasks/nothing").status_code == 404
    table = Markup(client.get(f"/dataflows/{traffic.pk}/tasks/").text)
    assert [row.text for row in table.every("th") if row.attributes["scope"] == "row"][:4] == [
        "sense", "parse", "average", "out"]
