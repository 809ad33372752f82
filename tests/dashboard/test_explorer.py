"""Exploring overlap: figures against counting by hand, limits, and nothing of other teams' private dataflows."""

from __future__ import annotations

import pytest
from django.utils import timezone

from dashboard.explorer import merged, overlap_reader, task
from dashboard.operations.live_view.task_meters import TaskReading, note_meters
from dashboard.operations.models import RunningTaskRow, Use
from dashboard.teams.permissions import Viewer, viewer_of
from scheduler.model.errors import NotFound
from tests.cases import each
from tests.dashboard.building import World, document, running


@pytest.fixture
def shared(world: World) -> dict:
    """Two dataflows that share sensing and parsing, and a private one of City that looks the same."""
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    jams = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    hush = running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    return {"traffic": traffic, "jams": jams, "hush": hush}


def viewer(world: World, name: str) -> Viewer:
    return viewer_of(world.users[name])


def overlap_by_hand(map_: overlap_reader.OverlapMap) -> dict[frozenset[str], int]:
    size = range(len(map_.dataflows))
    names = [dataflow.name for dataflow in map_.dataflows]
    return {frozenset((names[i], names[j])): int(map_.shared[i, j]) for i in size for j in size if map_.shared[i, j]}


# The heat map --------------------------------------------------------------------------------------------------------


def test_the_map_counts_what_two_share(world: World, shared: dict) -> None:
    shown = overlap_reader.overlap_map(viewer(world, "mo"))
    assert overlap_by_hand(shown) == {
        frozenset({"traffic"}): 4, frozenset({"jams"}): 4, frozenset({"traffic", "jams"}): 2}
    assert (shown.running, shown.matching, shown.left_out) == (2, 2, 0)
    (one, other), = shown.pairs()
    assert shown.share[one, other] == 0.5


@each("name, sees", [("carla", True), ("root", True), ("mo", False), ("outsider", False)])
def test_a_private_dataflow_is_in_no_figure_of_others(world: World, shared: dict, name: str, sees: bool) -> None:
    shown = overlap_reader.overlap_map(viewer(world, name))
    assert ("hush" in {compared.name for compared in shown.dataflows}) is sees
    assert shown.running == (3 if sees else 2)
    sheet = merged.sheet(viewer(world, name))
    assert sheet["tasks_running"] == len(sheet["tasks"]) == (10 if sees else 6)
    assert ("hush" in {dataflow["name"] for dataflow in sheet["dataflows"]}) is sees
    assert bool(merged.found_in_estate(viewer(world, name), "hush")) is sees
    private = Use.objects.filter(dataflow=shared["hush"]).first().running_task_id
    reads = (lambda: task.running_task(viewer(world, name), private), lambda: task.around(viewer(world, name), private),
             lambda: overlap_reader.overlap_pair(viewer(world, name), shared["hush"].pk, shared["jams"].pk),
             lambda: merged.sheet(viewer(world, name), dataflow_id=shared["hush"].pk))
    for read in reads:
        if sees:
            read()
        else:
            with pytest.raises(NotFound):
                read()


def test_a_team_is_compared_with_its_neighbours_but_they_not_with_each_other(world: World, shared: dict) -> None:
    running(world.carla, world.city, document("more", window=30), world.ana, world.ben)
    shown = overlap_reader.overlap_map(viewer(world, "mo"), team="mobility")
    assert {(compared.name, compared.matches) for compared in shown.dataflows} == {
        ("jams", True), ("traffic", False), ("more", False)}
    pairs = {pair for pair in overlap_by_hand(shown) if len(pair) == 2}
    assert pairs == {frozenset({"jams", "traffic"}), frozenset({"jams", "more"})}
    assert shown.matching == 1


def test_what_is_kept_of_one_generation_is_not_shown_at_the_next(world: World, shared: dict) -> None:
    before = overlap_reader.overlap_map(viewer(world, "mo"))
    running(world.carla, world.city, document("more", window=30), world.ana, world.ben)
    assert len(overlap_reader.overlap_map(viewer(world, "mo")).dataflows) == len(before.dataflows) + 1


def test_of_too_many_those_that_share_the_most_are_compared(
    world: World, shared: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = document("apart", window=5, rates={"sense": 7})
    running(world.carla, world.city, apart, world.ana)
    monkeypatch.setattr(overlap_reader, "MOST_DATAFLOWS", 2)
    shown = overlap_reader.overlap_map(viewer(world, "mo"))
    assert {compared.name for compared in shown.dataflows} == {"traffic", "jams"}
    assert shown.left_out == 1


def test_pairs_are_sorted_by_the_measure_asked_for(world: World, shared: dict) -> None:
    # The same four tasks and more: shares all of the smaller one, and as many tasks as traffic has.
    longer = document("longer", window=10, tasks=[
        {"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
        {"id": "average", "type": "block_average", "config": {"window": 10}},
        {"id": "out", "type": "output", "config": {"name": "traffic-out"}},
        {"id": "again", "type": "output", "config": {"name": "again"}}],
        streams=[{"from": "sense", "to": "parse"}, {"from": "parse", "to": "average"},
                 {"from": "average", "to": "out"}, {"from": "parse", "to": "again"}])
    running(world.carla, world.city, longer, world.ana, world.ben)
    shown = overlap_reader.overlap_map(viewer(world, "root"))
    for by, figures in (("shared", shown.shared), ("share", shown.share)):
        values = [figures[one, other] for one, other in shown.pairs(by=by)]
        assert values == sorted(values, reverse=True)
        assert len(values) == 3
    one, other = shown.pairs(by="share")[0]
    assert {shown.dataflows[one].name, shown.dataflows[other].name} == {"traffic", "longer"}
    assert shown.share[one, other] == 1


def test_a_pair_is_both_graphs_and_the_shared_part(world: World, shared: dict) -> None:
    pair = overlap_reader.overlap_pair(viewer(world, "mo"), shared["traffic"].pk, shared["jams"].pk)
    assert (pair["shared"], pair["share"], pair["tasks_one"], pair["tasks_other"]) == (2, 0.5, 4, 4)
    names = {(task["one"], task["other"]) for task in pair["tasks"]}
    assert names == {("sense", "sense"), ("parse", "parse"), ("average", ""), ("out", ""), ("", "average"), ("", "out")}
    both = [task["id"] for task in pair["tasks"] if task["one"] and task["other"]]
    assert pair["cost"].cores == pytest.approx(
        sum(task.running_task(viewer(world, "mo"), key)["cost"].cores for key in both))
    assert pair["cost"].cores > sum(row.cores for row in RunningTaskRow.objects.filter(pk__in=both)), "with its query"


def test_a_dataflow_makes_no_pair_with_itself_or_with_what_does_not_run(world: World, shared: dict) -> None:
    for other in (shared["traffic"].pk, "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(NotFound):
            overlap_reader.overlap_pair(viewer(world, "mo"), shared["traffic"].pk, other)


# The merged graph ----------------------------------------------------------------------------------------------------


def test_the_merged_graph_has_every_task_once_with_its_dataflows(world: World, shared: dict) -> None:
    sheet = merged.sheet(viewer(world, "mo"))
    users = {task["name"]: [] for task in sheet["tasks"]}
    for row in sheet["tasks"]:
        assert row["users"] == len(row["of"])
        users[row["name"]].append(sorted(sheet["dataflows"][position]["name"] for position in row["of"]))
    assert users["sense"] == [["jams", "traffic"]]
    assert sorted(users["average"]) == [["jams"], ["traffic"]]
    assert {dataflow["name"]: dataflow["tasks"] for dataflow in sheet["dataflows"]} == {"jams": 4, "traffic": 4}
    assert (sheet["number"], sheet["sheets"], sheet["running_dataflows"]) == (1, 1, 1)


def test_a_dataflow_is_found_on_its_sheet(world: World, shared: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = running(world.carla, world.city, document("apart", window=5, rates={"sense": 7}), world.ana)
    monkeypatch.setattr(merged, "MOST_TASKS", 6)
    assert merged.sheet(viewer(world, "mo"))["sheets"] == 2
    sheet = merged.sheet(viewer(world, "mo"), dataflow_id=apart.pk)
    assert (sheet["number"], sheet["lit"]) == (2, str(apart.pk))
    assert {dataflow["name"] for dataflow in sheet["dataflows"]} == {"apart"}
    assert [row["id"] for row in merged.found_in_estate(viewer(world, "mo"), "apart city")] == [str(apart.pk)]


def test_a_graph_that_is_too_large_shows_its_trunk_and_what_is_left_out(
    world: World, shared: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merged, "MOST_TASKS", 3)
    sheet = merged.sheet(viewer(world, "mo"))
    assert {"sense", "parse"} <= {task["name"] for task in sheet["tasks"]}
    assert len(sheet["tasks"]) == 3
    assert sum(branch["tasks"] for branch in sheet["branches"]) == 3
    lit = merged.sheet(viewer(world, "mo"), dataflow_id=shared["jams"].pk)
    position = next(i for i, dataflow in enumerate(lit["dataflows"]) if dataflow["name"] == "jams")
    assert sum(position in task["of"] for task in lit["tasks"]) == 4, "all of the part that was asked for"


@each("number", [-1, 0, 2, 99])
def test_a_sheet_that_is_not_there_is_the_nearest(world: World, shared: dict, number: int) -> None:
    assert merged.sheet(viewer(world, "mo"), number=number)["number"] == 1


def test_an_empty_estate_has_an_empty_sheet(world: World) -> None:
    sheet = merged.sheet(viewer(world, "mo"))
    assert (sheet["tasks"], sheet["dataflows"], sheet["sheets"]) == ([], [], 0)
    assert len(overlap_reader.overlap_map(viewer(world, "mo")).dataflows) == 0


# One task ------------------------------------------------------------------------------------------------------------


def test_a_task_tells_its_users_and_what_stops_without_it(world: World, shared: dict, settings) -> None:
    parse = Use.objects.get(dataflow=shared["traffic"], task_id="parse").running_task
    shown = task.running_task(viewer(world, "mo"), parse.pk)
    assert [(user["name"], user["team"], user["task"], user["outputs"]) for user in shown["users"]] == [
        ("jams", "Mobility", "parse", ["out"]), ("traffic", "City", "parse", ["out"])]
    assert all(user["since"] is not None for user in shown["users"])
    assert (shown["upstream"], shown["downstream"]) == (1, 4)
    assert shown["stops"] == {"tasks": 5, "dataflows": 2, "outputs": 2}
    assert shown["cost"].per_hour == pytest.approx(shown["cost"].cores * settings.CORE_HOUR_PRICE)
    assert shown["cost"].basis == "estimated"
    assert shown["live"]["task"] == "parse"


def test_a_cost_that_was_measured_takes_the_place_of_the_expected(world: World, shared: dict) -> None:
    use = Use.objects.get(dataflow=shared["traffic"], task_id="parse")
    now = timezone.now()
    for _ in range(20):
        note_meters([TaskReading(use.running_task_id, 0.25, 0.003, 15.0, has_settled=True)], billed={}, at=now)
    shown = task.running_task(viewer(world, "mo"), use.running_task_id)
    assert shown["cost"].basis == "measured"
    assert (shown["cost"].cores, shown["cost"].per_hour) == (pytest.approx(0.25), pytest.approx(0.003))


def test_what_is_around_a_task(world: World, shared: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = Use.objects.get(dataflow=shared["traffic"], task_id="parse").running_task_id
    around = task.around(viewer(world, "mo"), parse)
    assert {(task["name"], task["side"]) for task in around["tasks"]} == {
        ("parse", "here"), ("sense", "up"), ("average", "down"), ("out", "down")}
    assert len(around["tasks"]) == 6 and around["left_out"] == 0
    monkeypatch.setattr(task, "MOST_AROUND", 2)
    nearest = task.around(viewer(world, "mo"), parse)
    assert {task["name"] for task in nearest["tasks"]} == {"parse", "sense", "average"}
    assert nearest["left_out"] == 2
