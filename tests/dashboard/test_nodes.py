"""Nodes of other machines: they join when their agents report, and leave when nothing is there any more."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dashboard import jobs
from dashboard.audit.models import AuditEntry
from dashboard.operations.estate_store.estate_loader import load_estate, stored_estate
from dashboard.operations.live_view.nodes import take_in_nodes
from dashboard.operations.live_view.schedulable_slots import supply
from dashboard.operations.live_view.telemetry import record_nodes
from dashboard.operations.models import NodeRow, SlotRow
from dashboard.operations.services import register_node
from scheduler.contracts.reports import Reports
from tests.dashboard.building import World, document, planned, running
from tests.pages.scheduling import linear, measured


def report(slots: int) -> dict:
    return {"machine": "cpu-b", "slots": {str(index): {"state": "running", "fragments": {}} for index in range(slots)}}


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict]:
    """What nodes report; tests fill it."""
    by_node: dict[str, dict] = {}
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=Reports.of(by_node)))
    return by_node


def node(*arguments: str) -> str:
    out = StringIO()
    call_command("node", *arguments, stdout=out)
    return out.getvalue()


def test_a_node_that_reports_joins_with_its_slots(world: World, reports, sent):
    generation = load_estate().generation
    reports["n2"] = report(2)
    record_nodes(at=timezone.now())
    assert [slot.name for slot in load_estate().slots] == ["n1/0", "n1/1", "n2/0", "n2/1"]
    assert load_estate().generation == generation + 1, "plans that were made before do not know it"
    assert SlotRow.objects.filter(node="n2").count() == 2
    row = NodeRow.objects.get(name="n2")
    assert row.machine == "cpu-b" and row.seen is not None
    assert AuditEntry.objects.filter(verb="node.register", subject_id="n2").count() == 1
    record_nodes(at=timezone.now())
    assert load_estate().generation == generation + 1, "once it is known nothing changes"


def test_what_runs_moves_with_the_slots_of_its_node(world: World, reports):
    reports["n2"] = report(3)
    assert take_in_nodes(Reports.of(reports)) == ["n2"]
    for window in range(2, 7):
        running(world.carla, world.city, document(f"d{window}", window=window), world.ana)
    slots = {fragment.slot for fragment in load_estate().fragments.values()}
    assert slots & {"n2/1", "n2/2"}, "new ones run there"
    reports["n2"] = report(1)
    assert take_in_nodes(Reports.of(reports)) == ["n2"]
    after = {fragment.slot for fragment in load_estate().fragments.values()}
    assert "n2/0" in after and not after & {"n2/1", "n2/2"}


def test_this_machines_own_node_is_not_what_an_earlier_start_left(world: World, reports, settings):
    assert settings.LOCAL_NODE == "n1"
    reports["n1"] = report(7)
    assert take_in_nodes(Reports.of(reports)) == [] and NodeRow.objects.get(name="n1").slots == 2


@pytest.mark.parametrize("name", ["n2/0", "", "a b", "x" * 61])
def test_a_name_that_no_slot_can_have_is_left_alone(world: World, reports, name: str):
    reports[name] = report(1)
    assert take_in_nodes(Reports.of(reports)) == [] and NodeRow.objects.count() == 1


def test_a_node_that_is_still_starting_is_not_taken_for_one_without_slots(world: World, reports):
    reports["n2"] = report(2)
    take_in_nodes(Reports.of(reports))
    reports["n2"] = report(0)
    assert take_in_nodes(Reports.of(reports)) == [] and NodeRow.objects.get(name="n2").slots == 2


def test_a_supply_knows_the_racks_of_its_nodes(world: World, reports, settings):
    reports |= {"n1": report(2), "n2": report(4)}
    take_in_nodes(Reports.of(reports))
    assert {node.name: node.rack for node in supply(stored_estate(), team="city").free} == {"n1": "", "n2": ""}
    settings.NODE_RACKS = {"n2": "b"}
    assert {node.name: node.rack for node in supply(stored_estate(), team="city").free} == {"n1": "", "n2": "b"}


def test_nothing_new_is_placed_on_a_node_that_is_silent_while_others_report(world: World, reports):
    reports |= {"n1": report(2), "n2": report(4)}
    at = timezone.now()
    record_nodes(at=at)
    record_nodes(at=at)  # the first one made n2 known
    assert {slot.node for slot, _ in stored_estate().least_loaded(9, query_cores=0.1)} == {"n1", "n2"}
    assert [node.name for node in supply(stored_estate(), team="city").free] == ["n1", "n2"]
    silent = reports.pop("n2")
    record_nodes(at=at + timedelta(seconds=50))
    assert {slot.node for slot, _ in stored_estate().least_loaded(9, query_cores=0.1)} == {"n1"}
    assert [node.name for node in supply(stored_estate(), team="city").free] == ["n1"]
    running(world.carla, world.city, document("d"), world.ana)
    assert {fragment.slot.partition("/")[0] for fragment in load_estate().fragments.values()} == {"n1"}
    reports["n2"] = silent
    record_nodes(at=at + timedelta(seconds=60))
    assert [node.name for node in supply(stored_estate(), team="city").free] == ["n1", "n2"]
    reports.clear()
    record_nodes(at=at + timedelta(hours=1))
    assert len(stored_estate().least_loaded(9, query_cores=0.1)) == 6, "where nobody is heard of, all count"


@pytest.mark.parametrize("speed", [float("inf"), float("nan"), -25.0, 1e-9, 1e9])
def test_a_figure_that_no_node_can_have_is_none_and_keeps_no_other_node_from_being_seen(
    world: World, reports, speed: float
):
    reports |= {name: report(2) | {"speed": 25.0, "threads": 4} for name in ("n1", "n2")}
    record_nodes(at=timezone.now())
    record_nodes(at=timezone.now())
    reports["n1"] = report(2) | {"speed": speed, "threads": 10**30}
    record_nodes(at=(at := timezone.now()))
    assert list(NodeRow.objects.values_list("name", "speed", "threads", "seen")) == [
        ("n1", 25.0, None, at), ("n2", 25.0, 4, at)]


def test_nodes_are_listed_and_taken_out(world: World, reports):
    reports["n2"] = report(2)
    record_nodes(at=timezone.now())
    assert "n2: 2 slots, cpu-b, reports" in node("list")
    with pytest.raises(CommandError, match="reports still"):
        node("remove", "n2")
    del reports["n2"]
    assert "n2: 2 slots, cpu-b, last reported" in node("list")
    assert "no slots" in node("remove", "n2")
    assert {slot.node for slot in load_estate().slots} == {"n1"}
    with pytest.raises(CommandError, match="no node n3"):
        node("remove", "n3")


def test_the_list_says_where_slots_have_no_cores_of_their_own(world: World, reports):
    reports["n1"] = report(2) | {"pinning": "few_cores"}
    assert "slots not held to cores of their own: it has no more cores than slots" in node("list")
    reports["n1"] = report(2) | {"pinning": "own"}
    assert "held to" not in node("list")


def test_a_node_on_which_something_runs_stays(world: World, reports):
    reports["n2"] = report(1)
    take_in_nodes(Reports.of(reports))
    for window in range(2, 5):
        running(world.carla, world.city, document(f"d{window}", window=window), world.ana)
    del reports["n2"]
    with pytest.raises(CommandError, match="still runs"):
        node("remove", "n2")
    assert NodeRow.objects.get(name="n2").slots == 1


def test_while_the_broker_is_away_no_node_is_taken_out(world: World):
    with pytest.raises(CommandError, match="does not answer"):
        node("remove", "n1")


def test_what_crosses_between_nodes_is_compared(world: World, client, reports):
    """One machine of eight slots: nothing crosses. Two of four: that differs by mapping, and ours is least."""
    measured(world)

    def traffic(**slots: int) -> dict[str, float]:
        for name, count in slots.items():
            register_node(name=name, slots=count)
        client.force_login(world.carla)
        options = {"rate_per_s": 50, "routing": "shuffle"}  # even parts, by which the exact mapping counts
        answer = client.get(f"/api/dataflows/{proposal.dataflow_id}/schedules", options).json()
        for row in answer["schedules"]:
            nodes = {bundle["slot"].partition("/")[0] for bundle in row["bundles"]}
            assert nodes == ({"n2"} if row["pair"][1] == "exact" and "n2" in slots else set(slots))
        # What crosses is told at the rate that is kept: a pair that keeps less carries less over.
        return {
            "-".join(row["pair"]): row["between_nodes_per_s"] / min(1, row["sustained_per_s"] / 50)
            for row in answer["schedules"]}

    proposal = planned(world.carla, world.city, linear())
    assert set(traffic(n1=12).values()) == {0}
    NodeRow.objects.all().delete()
    by_pair = traffic(n1=2, n2=10)
    assert len(by_pair) == 8 and len(set(by_pair.values())) > 2, "mappings differ"
    assert {pair for pair, crossing in by_pair.items() if not crossing} == {"LSA-exact", "MBA-exact"}
