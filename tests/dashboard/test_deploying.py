"""Deployment on the site: a slot that has too much to do gives a query to one with room, and takes it back."""

from __future__ import annotations

import json
import math
from datetime import timedelta

import pytest

from dashboard import jobs
from dashboard.approvals.lifecycle import EXECUTING, ROLLING_BACK
from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.site_world import StoredWorld
from dashboard.controllers.stored_rounds import round_of
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.deployment_reader import bytes_between_nodes
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.services import register_node
from dashboard.plans.selectors import plan_of
from scheduler.contracts.reports import Reports
from scheduler.controllers.deploying import TRAFFIC
from scheduler.controllers.evidence import deployments
from scheduler.controllers.loop_values import Round
from scheduler.history.series import DATAFLOW, QUERY, SLOT, TASK, Series
from scheduler.model.fragment import Slot, node_of
from tests.dashboard.building import World, document, enacted, running
from tests.dashboard.controlling import Loop, made_by_weir, measured, phases
from tests.dashboard.rearranging import prepared
from workers.engine.observed import Flows, TaskFlow


@pytest.fixture
def loop(world: World, monkeypatch: pytest.MonkeyPatch, settings) -> Loop:
    settings.DEPLOYMENT_LEAST_KB_S = 0.0
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading())
    monkeypatch.setattr(jobs, "event_bytes", lambda channels: dict.fromkeys(channels, 50.0))
    monkeypatch.setattr(jobs, "waiting_events", lambda *_: {})
    made = Loop(world)
    made.set("off")
    made.set("acts", controller="deployment")
    return made


def reading() -> jobs.LiveReading:
    nodes: dict[str, dict] = {}
    estate = load_estate()
    for fragment in estate.fragments.values():
        node = nodes.setdefault(node_of(fragment.slot), {"node": node_of(fragment.slot), "slots": {}})
        slot = node["slots"].setdefault(str(Slot.of(fragment.slot).index), {"state": "running", "fragments": {}})
        slot["fragments"][fragment.id] = {"state": "running", "cpu": 0.3}
    flows = Flows(tasks={task: TaskFlow(10.0, 100, 20.0, 30.0) for task in estate.tasks})
    return jobs.LiveReading(reports=Reports.of(nodes), flows=flows)


@pytest.fixture
def crowded(world: World, loop: Loop) -> list[DataflowRecord]:
    """Dataflows with sources of their own, two of which are on one slot of two."""
    return [
        running(world.carla, world.city, document(f"line-{seed}").replace(
            '"type": "urban_sensing"', f'"type": "urban_sensing", "config": {{"seed": {seed}}}'), world.ana)
        for seed in (1, 2, 3)]


def figures(loop: Loop, begin_s: float, end_s: float, *, cores: dict[str, float], hot: str) -> None:
    """Of each query so much CPU, and of the hot slot all of it, with half a core that its driver takes."""
    estate, history = load_estate(), DatabaseHistory()
    values = {Series(SLOT, hot, "cpu"): 0.5}
    for fragment in estate.fragments.values():
        taken = cores[fragment.tasks[0]]
        values[Series(SLOT, hot, "cpu")] += taken if fragment.slot == hot else 0.0
        values[Series(DATAFLOW, estate.users[fragment.tasks[0]][0], "latency_p50_ms")] = 200.0
        values[Series(QUERY, fragment.id, "cpu")] = taken
        values |= {Series(TASK, task, "rate_per_s"): 50.0 for task in fragment.tasks}
    begin, end = (int((loop.at + timedelta(seconds=at_s)).timestamp()) for at_s in (begin_s, end_s))
    for at_s in range(begin, end, 10):
        history.append(at_s, values)
    history.flush()


def heads_by_slot() -> dict[str, list[str]]:
    slots: dict[str, list[str]] = {}
    for fragment in load_estate().fragments.values():
        slots.setdefault(fragment.slot, []).append(fragment.tasks[0])
    return slots


def moved(loop: Loop, crowded: list[DataflowRecord]) -> tuple[str, dict[str, float]]:
    """Two queries take nearly a core together: one of them goes to the other slot. Which slot was hot."""
    hot, heads = next((slot, heads) for slot, heads in heads_by_slot().items() if len(heads) == 2)
    cores = {head: 0.1 for slot in heads_by_slot().values() for head in slot} | {heads[0]: 0.55, heads[1]: 0.4}
    figures(loop, -540, 0, cores=cores, hot=hot)
    loop.run()
    (proposal,) = made_by_weir()
    prepared(proposal)
    proposal.refresh_from_db()
    assert proposal.status == EXECUTING, "nobody else notices, and City lets it act"
    enacted(proposal)
    loop.run()
    return hot, cores


def test_a_slot_that_has_too_much_to_do_gives_a_query_to_the_other(
    loop: Loop, crowded: list[DataflowRecord]
) -> None:
    hot, cores = moved(loop, crowded)
    assert len(heads_by_slot()[hot]) == 1
    figures(loop, 0, 960, cores=cores, hot=hot)
    loop.run(later_s=960)
    assert phases("deployment") == ["kept"]
    loop.run(later_s=61)
    assert phases("deployment") == ["kept"], "nothing goes back"


@pytest.mark.long  # test_controllers.py takes back what did not come
def test_what_was_promised_and_does_not_come_is_taken_back(loop: Loop, crowded: list[DataflowRecord]) -> None:
    hot, cores = moved(loop, crowded)
    (left,) = heads_by_slot()[hot]
    figures(loop, 0, 960, cores=cores | {left: 0.97}, hot=hot)
    loop.run(later_s=960)
    (proposal,) = made_by_weir()
    proposal.refresh_from_db()
    assert proposal.status == ROLLING_BACK
    enacted(proposal)
    assert len(heads_by_slot()[hot]) == 2


def test_where_cpu_lacks_its_price_is_told(loop: Loop, crowded: list[DataflowRecord], settings) -> None:
    settings.CORE_HOUR_PRICE = 0.05
    hot = next(iter(heads_by_slot()))
    figures(loop, -540, 0, cores={head: 0.95 for heads in heads_by_slot().values() for head in heads}, hot=hot)
    loop.run()
    assert not made_by_weir() and not RoundRow.objects.exists()
    assert "more slot" in ReasonRow.objects.filter(controller="deployment").latest("pk").why


def scattered(world: World) -> DataflowRecord:
    """A dataflow of four queries on two nodes."""
    register_node(name="n2", slots=2)
    text = json.loads(document("line"))
    text["tasks"] = [task | {"chain": "never"} for task in text["tasks"]]
    return running(world.carla, world.city, json.dumps(text), world.ana)


def nodes() -> list[str]:
    return sorted(node_of(fragment.slot) for fragment in load_estate().fragments.values())


def moved_together(loop: Loop, record: DataflowRecord) -> tuple[str, Proposal]:
    """Two queries of a dataflow go to the other node, where two of it are; its id, and the proposal."""
    assert nodes() == ["n1", "n1", "n2", "n2"]
    took(loop, record.pk, -540, 0, latency_ms=200.0)
    loop.run()
    (proposal,) = made_by_weir()
    prepared(proposal)
    proposal.refresh_from_db()
    assert proposal.status == EXECUTING
    assert len(plan_of(proposal.plan).steps) == 2 == 1 + len(proposal.plan.options["along"])
    return str(record.pk), proposal


def took(loop: Loop, dataflow: object, begin_s: float, end_s: float, *, latency_ms: float, rate: float = 10.0) -> None:
    estate = load_estate()
    measured(loop.at + timedelta(seconds=begin_s), loop.at + timedelta(seconds=end_s), dataflow=str(dataflow),
             queries=list(estate.fragments), tasks=list(estate.tasks), cores=0.4, latency_ms=latency_ms,
             rate_per_s=rate)


def test_several_queries_go_to_another_node_by_one_plan_and_come_back_by_one(loop: Loop, world: World) -> None:
    dataflow, proposal = moved_together(loop, scattered(world))
    enacted(proposal)
    assert len(set(nodes())) == 1
    loop.run()
    turn = RoundRow.objects.get()
    assert len(turn.decision["changes"]) == 2 and "bytes a second less" in turn.decision["promise"]["text"]

    took(loop, dataflow, 0, 960, latency_ms=900.0)
    loop.run(later_s=960)
    (proposal,) = made_by_weir()
    assert proposal.status == ROLLING_BACK, "what was promised of latency did not come"
    enacted(proposal)
    assert nodes() == ["n1", "n1", "n2", "n2"]


def test_a_little_traffic_moves_nothing(loop: Loop, world: World, settings) -> None:
    settings.DEPLOYMENT_LEAST_KB_S = 10.0
    record = scattered(world)
    took(loop, record.pk, -540, 0, latency_ms=200.0)
    loop.run()
    assert not made_by_weir() and nodes() == ["n1", "n1", "n2", "n2"]


def traffic_seen(loop: Loop, turn: Round) -> set[float]:
    """What is measured of a promise's traffic in the sixteen minutes that come."""
    effect = deployments.effect(round_of(RoundRow.objects.get()), StoredWorld(loop.at + timedelta(seconds=960)))
    return {round(sample.values[TRAFFIC], 6) for sample in effect.samples if math.isfinite(sample.load)}


def test_traffic_between_nodes_is_promised_and_measured(loop: Loop, world: World, monkeypatch) -> None:
    record = scattered(world)
    view = view_for(EVERYTHING)
    dataflow, proposal = moved_together(loop, record)
    turn = round_of(RoundRow.objects.get())
    (promised,) = (bound for bound in turn.decision.promise.bounds if bound.measure == TRAFFIC)
    tasks = turn.decision.arguments["tasks"].split()
    sent = bytes_between_nodes(view, tasks)
    assert promised.before == sum(sent.values()) * 10.0 and promised.at_most < promised.before

    enacted(proposal)
    loop.run()
    assert not bytes_between_nodes(view_for(EVERYTHING), tasks)
    took(loop, dataflow, 0, 960, latency_ms=200.0, rate=11.0)
    assert traffic_seen(loop, turn) == {0.0}
    with monkeypatch.context() as patched:
        patched.setattr(StoredWorld, "bytes_between_nodes", lambda world, tasks: sent)  # as if they had never moved
        assert traffic_seen(loop, turn) == {promised.before}, "at the load of before"
    loop.run(later_s=960)
    assert phases("deployment") == ["kept"]
