"""Running bundles held to their profiles: what is noted, what is left out, and when a new measurement is asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dashboard import jobs
from dashboard.controllers.used_profiles import played_profiles
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.nodes import current_machine
from dashboard.operations.live_view.telemetry import record_nodes
from dashboard.operations.models import NodeRow
from dashboard.profiles import observations, selectors
from dashboard.profiles.models import ObservationRow, ProfileRecord
from dashboard.profiles.observations import record_observations
from dashboard.profiles.services.importing import import_profiles
from dashboard.profiles.stored_profiles import profile_of
from scheduler.contracts.reports import Reports
from scheduler.model.fragment import Fragment
from tests.dashboard.building import World, document, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup
from workers.engine.observed import Flows, TaskFlow

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HEADER = "task,threads,peak_rate_tuples_s,cpu_pct,mem_pct,machine,config"


class NodeOfTasks:
    """What nodes report: the same of every fragment that runs one task, unless a test says otherwise."""

    def __init__(self) -> None:
        self.machine = "cpu-a"
        self.told = {"state": "running", "rate_per_s": 50.0, "cpu": 0.4, "memory": 0.1, "throttled_by": None}
        self.offered = 50.0
        self.beside = "stopped"  # whatever else is on their slots

    def read(self, fragments: list[Fragment], parents) -> jobs.LiveReading:
        slots: dict[str, dict] = {}
        for fragment in fragments:
            for bundle in fragment.queries:
                index = bundle.slot.rpartition("/")[2]
                query_report = self.told if len(fragment.active_tasks) == 1 else {"state": self.beside}
                slot = slots.setdefault(index, {"state": "running", "fragments": {}})["fragments"]
                slot |= {bundle.id: query_report, "f999-0": {"state": self.beside}}
        flow = TaskFlow(self.offered, 0, None, None)
        tasks = {task: flow for fragment in fragments for task in fragment.active_tasks}
        report = {"node": "n1", "machine": self.machine, "threads": 32, "slots": slots}
        return jobs.LiveReading(reports=Reports.of({"n1": report}), flows=Flows(tasks=tasks), measured=True)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> NodeOfTasks:
    node = NodeOfTasks()
    monkeypatch.setattr(jobs, "read_live", node.read)
    return node


@pytest.fixture
def branch(world: World) -> str:
    """The fragment of a task that is by itself between a fork and a join: a block average."""
    return run_forked(world, "a", "shared")


def run_forked(world: World, name: str, visibility: str, *, window: int = 3) -> str:
    tasks = [
        {"id": "sense", "type": "urban_sensing"}, {"id": "long", "type": "senml_parse"},
        {"id": "longer", "type": "range_filter", "config": {"ranges": {"temperature": [0, 1]}}},
        {"id": "longest", "type": "range_filter", "config": {"ranges": {"temperature": [0, 0.5]}}},
        {"id": "branch", "type": "block_average", "config": {"window": window}},
        {"id": "both", "type": "block_average", "config": {"window": 5}},
        {"id": "out", "type": "output", "config": {"name": f"{name}-out"}}]
    streams = [("sense", "long"), ("long", "branch"), ("long", "longer"), ("longer", "longest"),
               ("longest", "both"), ("branch", "both"), ("both", "out")]
    text = document(name, visibility=visibility, tasks=tasks, streams=[{"from": a, "to": b} for a, b in streams])
    running(world.carla, world.city, text, world.ana)
    return next(fragment.id for fragment in load_estate().fragments.values() if len(fragment.active_tasks) == 1)


def profile(world: World, *, cpu: float = 40.0, memory: float = 10.0, config: str = "", machine: str = "cpu-a"):
    text = f"{HEADER}\nblock_average,1,50,{cpu},{memory},{machine},{config}\n"
    return import_profiles(actor=world.carla, text=text)[0]


def seen(times: int) -> None:
    for minute in range(times):
        record_observations(at=NOW + timedelta(minutes=minute))


def test_a_bundle_that_does_what_its_profile_says_asks_for_nothing(world: World, reports: NodeOfTasks, branch: str):
    record = profile(world)
    seen(6)
    record.refresh_from_db()
    assert [row.bundle for row in record.observations.all()] == [branch] * 6
    assert [(drift["what"], drift["beyond"]) for drift in record.drifts] == [("cpu", False), ("memory", False)]
    assert not record.drifted


def test_replays_begin_with_the_profiles_that_tasks_are_held_to(
    world: World, reports: NodeOfTasks, branch: str
):
    record = profile(world)
    NodeRow.objects.update(machine="cpu-a")
    (played,) = played_profiles(load_estate())
    assert played.used.id == str(record.pk) and played.profile == profile_of(record)
    types = {load_estate().tasks[task].type for task in played.tasks}
    assert types == {"block_average"} and "n1" in played.nodes and "was imported" in played.why_not
    NodeRow.objects.update(machine="cpu-b")
    assert played_profiles(load_estate()) == (), "of other machines it says nothing"


def test_a_drift_beyond_the_bound_asks_for_a_new_measurement(
    world: World, reports: NodeOfTasks, branch: str, client_of: ClientOf
):
    record = profile(world, cpu=20.0)
    seen(4)
    record.refresh_from_db()
    assert record.drifts == []  # too few say nothing
    seen(6)
    record.refresh_from_db()
    assert ("cpu", True) in {(drift["what"], drift["beyond"]) for drift in record.drifts} and record.drifted
    drift = Markup(client_of("vera").get(f"/profiles/{record.pk}/").text).one("data-drift", "cpu")
    assert [drift.number(name) for name in ("observed", "expected")] == pytest.approx([0.4, 0.2])
    assert Markup(client_of("vera").get("/profiles/").text).having("data-drifted")
    cross = client_of("vera").get(f"/profiles/{record.pk}/plots.json").json()["cpu"]["data"][-1]
    assert (cross["name"], set(cross["y"])) == ("seen running", {40.0})


def test_what_is_told_apart_by_time_is_shown_and_holds_nothing_against_a_profile(
    world: World, reports: NodeOfTasks, branch: str, client_of: ClientOf
):
    """A bundle that waits beside a busy one is given as much of the slot's CPU."""
    record = profile(world, cpu=20.0)
    reports.beside = "running"
    seen(6)
    record.refresh_from_db()
    assert record.drifts == [] and set(record.observations.values_list("shared", flat=True)) == {True}
    client = client_of("vera")
    assert "6 of them on a slot that it shared" in client.get(f"/profiles/{record.pk}/").content.decode()
    figures = client.get(f"/profiles/{record.pk}/plots.json").json()
    shown = {name: figure["data"][-1]["name"] for name, figure in figures.items()}
    assert shown == {"rate": "seen running", "cpu": "seen on a shared slot", "memory": "seen on a shared slot"}
    assert client.get(f"/api/profiles/{record.pk}/seen").json()["items"][0]["shared"] is True
    reports.beside = "waiting"  # without a query it takes nothing
    seen(6)
    record.refresh_from_db()
    assert record.drifted


def test_a_bundle_that_does_not_keep_up_contradicts_the_rate(world: World, reports: NodeOfTasks, branch: str):
    record = profile(world)
    reports.told |= {"rate_per_s": 30.0, "cpu": 0.24, "memory": 0.06}
    seen(6)
    record.refresh_from_db()
    rate = next(drift for drift in record.drifts if drift["what"] == "rate")
    assert (rate["observed"], rate["expected"], rate["beyond"]) == (30.0, 50.0, True)


def test_a_profile_that_bundles_mostly_keep_to_asks_for_nothing(world: World, reports: NodeOfTasks, branch: str):
    record = profile(world)
    seen(20)
    reports.offered = 60.0
    reports.told |= {"rate_per_s": 30.0, "cpu": 0.24, "memory": 0.06}
    for minute in range(20, 25):
        record_observations(at=NOW + timedelta(minutes=minute))
    record.refresh_from_db()
    assert record.observations.filter(stable=False).count() == 5
    assert "rate" not in {drift["what"] for drift in record.drifts} and not record.drifted


@pytest.mark.parametrize("changed", [
    {"state": "starting"}, {"throttled_by": "f1-0.0"}, {"rate_per_s": None}, {"cpu": None}])
def test_what_says_nothing_of_the_bundle_is_left_out(world: World, reports: NodeOfTasks, branch: str, changed):
    profile(world)
    reports.told |= changed
    seen(2)
    assert not ObservationRow.objects.exists()


def test_memory_that_nobody_can_tell_is_compared_with_nothing(
    world: World, reports: NodeOfTasks, branch: str, client_of
):
    record = profile(world)
    reports.told |= {"memory": None}
    seen(6)
    record.refresh_from_db()
    assert [drift["what"] for drift in record.drifts] == ["cpu"]
    figures = client_of("vera").get(f"/profiles/{record.pk}/plots.json").json()
    assert figures["cpu"]["data"][-1]["name"] == "seen running" != figures["memory"]["data"][-1]["name"]


def test_a_bundle_is_held_to_the_profile_that_is_planned_with(world: World, reports: NodeOfTasks, branch: str):
    profile(world)
    special = profile(world, config='"{""window"":3}"')
    profile(world, config='"{""window"":5}"')
    profile(world, machine="cpu-b")
    seen(1)
    assert [row.profile for row in ObservationRow.objects.all()] == [special]
    reports.machine = "cpu-b"
    seen(1)
    assert ObservationRow.objects.last().profile.machine == "cpu-b"


def test_a_private_dataflows_bundles_are_compared_with_its_teams_profiles_alone(world: World, reports: NodeOfTasks):
    run_forked(world, "own", "private")
    record = profile(world)
    seen(2)
    assert not ObservationRow.objects.exists()
    ProfileRecord.objects.filter(pk=record.pk).update(team=world.city)
    seen(2)
    assert record.observations.count() == 2


def test_of_many_bundles_some_are_noted_each_time_and_all_in_turn(
    world: World, reports: NodeOfTasks, branch: str, monkeypatch: pytest.MonkeyPatch
):
    run_forked(world, "b", "shared", window=4)
    monkeypatch.setattr(observations, "MOST_AT_ONCE", 1)
    profile(world)
    seen(2)
    assert len({row.bundle for row in ObservationRow.objects.all()}) == ObservationRow.objects.count() == 2


def test_old_observations_are_forgotten(world: World, reports: NodeOfTasks, branch: str):
    profile(world)
    seen(2)
    record_observations(at=NOW + timedelta(days=3))
    assert ObservationRow.objects.count() == 1


def test_profiles_of_other_machines_are_stale_as_soon_as_a_node_reports(
    world: World, reports: NodeOfTasks, branch: str
):
    profile_pk = profile(world, machine="cpu-z").pk
    record = ProfileRecord.objects.get(pk=profile_pk)
    assert selectors.staleness(profile_of(record)) == ""
    record_nodes(at=NOW)
    row = NodeRow.objects.get()
    assert row.machine == current_machine() == "cpu-a" and row.threads == 32
    assert "measured on cpu-z; here is cpu-a" in selectors.staleness(profile_of(record))
