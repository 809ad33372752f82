"""Isolation on the site: a slow task is cut out of a query of which others need a part, by the loop of controllers."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal, roll_back_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers.collecting import COLLECTORS
from dashboard.controllers.models import ReasonRow
from dashboard.controllers.site_world import StoredWorld
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.diagnosis.fragmentation_reader import fragmentation_of
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_reader import live_estate
from dashboard.operations.models import CutTask, SlowQuery
from dashboard.plans.selectors import plan_of
from dashboard.tasks.planning import see_to_slow_ones
from dashboard.teams.permissions import viewer_of
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.controllers.dry_run import dry_run
from scheduler.history.series import DATAFLOW, Series
from tests.dashboard.building import World, approved, document, enacted, running
from tests.dashboard.controlling import Loop, phases
from tests.dashboard.test_slow_readers import observe, wanted
from workers.engine.observed import TaskFlow

ISOLATION = "isolation"
SLOW_MS = [100, 150, 12_000, 12_050]


@pytest.fixture
def record(world: World) -> DataflowRecord:
    """City's dataflow, whose first two tasks Mobility's shares; its third is slow."""
    return running(world.carla, world.city, document("traffic"), world.ana)


@pytest.fixture
def other(world: World, record: DataflowRecord) -> DataflowRecord:
    """Mobility's dataflow, which waits."""
    return running(world.mo, world.mobility, document("speeds", window=9), world.ana, world.ben)


def look(at: datetime) -> list[Proposal]:
    """What is done every few seconds; what it proposed that was not there before."""
    before = set(Proposal.objects.values_list("pk", flat=True))
    see_to_slow_ones(at=at)
    return list(Proposal.objects.exclude(pk__in=before))



def slow_chain(monkeypatch: pytest.MonkeyPatch, *, latencies_ms: list[float]) -> None:
    """The batches of all queries take twelve seconds, and this is the latency behind each task of a chain."""
    observe(monkeypatch, query={"batch_ms": 12_000})
    monkeypatch.setattr(jobs, "meters", lambda names: (1, {name: {} for name in names}))
    monkeypatch.setattr(jobs, "flows_since", lambda at_ms, counts, fragment: {
        task: TaskFlow(1.0, 100, latency, latency)
        for task, latency in zip(fragment.tasks, latencies_ms, strict=False)})


def test_a_slow_task_is_cut_out_of_a_query_that_others_need(
    world: World, record: DataflowRecord, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_chain(monkeypatch, latencies_ms=[100, 150, 12_000, 12_050])
    began = timezone.now()
    assert look(began) == [] and SlowQuery.objects.count() == 1, "it may be slow for a while"
    [proposal] = look(began + timedelta(seconds=11))
    assert look(began + timedelta(seconds=12)) == []
    proposal = prepare_proposal(proposal_id=proposal.pk)
    assert (proposal.status, proposal.author, proposal.plan.kind) == ("executing", None, "isolate")
    before = plan_of(proposal.plan).fragments_before
    proposal = enacted(proposal)
    assert proposal.status == "done" and "block_average adds 11.8 s" in plan_of(proposal.plan).why
    estate = load_estate()
    upper, lower = (estate.fragments[step.fragment] for step in plan_of(proposal.plan).steps)
    chain = next(fragment for fragment in before.values() if fragment.active == 4)
    assert upper.tasks + lower.tasks == chain.tasks and len(upper.tasks) == 2
    assert [item.shared for item in wanted()[lower.id].inputs] == [True], "what reads slowly holds nobody back"
    assert CutTask.objects.get().pk == lower.tasks[0]
    assert fragmentation_of(viewer_of(world.carla), record.pk)["steps"] == 0, "nobody offers to fuse it again"
    slow_chain(monkeypatch, latencies_ms=[100, 12_000])
    for seconds in (20, 40):
        assert look(began + timedelta(seconds=seconds)) == []


def test_a_cut_can_be_taken_back_and_is_not_made_again(
    world: World, record: DataflowRecord, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_chain(monkeypatch, latencies_ms=[100, 150, 12_000, 12_050])
    began, tasks = timezone.now(), {fragment.tasks for fragment in load_estate().fragments.values()}
    look(began)
    [proposal] = look(began + timedelta(seconds=11))
    enacted(prepare_proposal(proposal_id=proposal.pk))
    assert {fragment.tasks for fragment in load_estate().fragments.values()} != tasks
    back = enacted(roll_back_proposal(actor=world.ben, proposal_id=proposal.pk))
    assert back.status == "rolled_back"
    assert {fragment.tasks for fragment in load_estate().fragments.values()} == tasks
    slow_chain(monkeypatch, latencies_ms=[100, 150, 12_000, 12_050])
    assert look(began + timedelta(seconds=30)) == look(began + timedelta(seconds=50)) == []
    assert Proposal.objects.filter(plan__kind="isolate").count() == 1


@pytest.mark.long  # tests/scheduler/controllers/test_isolating.py and test_isolation.py decide it
@pytest.mark.parametrize("latencies_ms", [
    [100, 12_000, 12_050, 12_100],  # slow for all of them
    [11_000, 11_050, 11_900, 12_000],  # the slot has too much to do
    [100, 150, 160, 170],
])
def test_nothing_is_cut_where_that_would_help_nobody(
    world: World, record: DataflowRecord, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch,
    latencies_ms: list[float]
) -> None:
    slow_chain(monkeypatch, latencies_ms=latencies_ms)
    began = timezone.now()
    assert look(began) == look(began + timedelta(seconds=11)) == []


def test_what_cannot_be_cut_is_told_with_the_reason(
    world: World, record: DataflowRecord, other: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.reuse.isolation.why_fused", lambda *_, **__: "the state of windows cannot be moved")
    slow_chain(monkeypatch, latencies_ms=[100, 150, 12_000, 12_050])
    began = timezone.now()
    assert look(began) == look(began + timedelta(seconds=11)) == []
    [finding] = [row for row in live_estate(viewer_of(world.carla))["health"].values() if row["state"] == "holds_up"]
    assert "the state of windows cannot be moved" in finding["cause"]
    assert {user["name"] for user in finding["dataflows"]} == {"traffic", "speeds"}
    observe(monkeypatch)
    look(began + timedelta(seconds=15))
    assert live_estate(viewer_of(world.carla))["health"] == {}


# -- as a controller ---------------------------------------------------------------------------------------------------


@pytest.fixture
def loop(world: World) -> Loop:
    made = Loop(world)
    for controller in ("defragmentation", "chaining", "deployment"):
        made.set("off", controller=controller)
    return made


def late(other: DataflowRecord, begin: datetime, end: datetime, *, latency_ms: float) -> None:
    """What was measured of the dataflow that waits."""
    history = DatabaseHistory()
    for at_s in range(int(begin.timestamp()), int(end.timestamp()), 10):
        history.append(at_s, {Series(DATAFLOW, str(other.pk), "latency_p50_ms"): latency_ms})
    history.flush()


def cut(loop: Loop) -> Proposal:
    """The slow task is cut out, and the loop has seen it."""
    look(loop.at)
    loop.at += timedelta(seconds=11)
    [proposal] = look(loop.at)
    proposal = enacted(prepare_proposal(proposal_id=proposal.pk))
    loop.run()
    loop.run()
    return proposal


@pytest.mark.long  # tests/scheduler/controllers/test_isolating.py has for whom it is cut
def test_who_waits_decides_and_who_is_slow_does_not(
    world: World, record: DataflowRecord, other: DataflowRecord, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_chain(monkeypatch, latencies_ms=SLOW_MS)
    loop.set("off", controller=ISOLATION, team=world.mobility)
    look(loop.at)
    assert look(loop.at + timedelta(seconds=11)) == [] and phases(ISOLATION) == []
    loop.set("off", controller=ISOLATION)  # City's, whose task is slow
    loop.set("acts", controller=ISOLATION, team=world.mobility)
    [proposal] = look(loop.at + timedelta(seconds=15))
    assert prepare_proposal(proposal_id=proposal.pk).status == "executing" and proposal.dataflow_id == other.pk


@pytest.mark.long  # test_controllers.py has recommendations
def test_where_it_recommends_people_are_asked(
    world: World, record: DataflowRecord, other: DataflowRecord, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_chain(monkeypatch, latencies_ms=SLOW_MS)
    loop.set("recommends", controller=ISOLATION, team=world.mobility)
    look(loop.at)
    [proposal] = look(loop.at + timedelta(seconds=11))
    proposal = prepare_proposal(proposal_id=proposal.pk)
    assert proposal.status == "pending" and {team.slug for team in proposal.teams.all()} == {"city", "mobility"}
    approved(proposal, world.ben)
    proposal.refresh_from_db()
    assert proposal.status == "pending"
    assert enacted(approved(proposal, world.ana)).status == "done"


@pytest.mark.long  # test_controllers.py keeps what helps
def test_a_cut_that_helped_is_kept(
    world: World, record: DataflowRecord, other: DataflowRecord, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_chain(monkeypatch, latencies_ms=SLOW_MS)
    late(other, loop.at - timedelta(minutes=2), loop.at + timedelta(seconds=30), latency_ms=12_000)
    cut(loop)
    observe(monkeypatch)
    late(other, loop.at, loop.at + timedelta(minutes=5), latency_ms=300)
    loop.run(later_s=300)
    assert phases(ISOLATION) == ["kept"] and Proposal.objects.filter(plan__kind="isolate").get().status == "done"


@pytest.mark.long  # the test above takes one back, test_controllers.py by itself
def test_a_cut_that_did_not_help_is_taken_back_and_not_made_again(
    world: World, record: DataflowRecord, other: DataflowRecord, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_chain(monkeypatch, latencies_ms=SLOW_MS)
    late(other, loop.at - timedelta(minutes=2), loop.at + timedelta(seconds=30), latency_ms=12_000)
    tasks = {fragment.tasks for fragment in load_estate().fragments.values()}
    proposal = cut(loop)
    late(other, loop.at, loop.at + timedelta(minutes=16), latency_ms=11_000)
    loop.run(later_s=930)
    proposal.refresh_from_db()
    assert phases(ISOLATION) == ["rolling_back"] and enacted(proposal).status == "rolled_back"
    loop.run()
    assert phases(ISOLATION) == ["rolled_back"]
    assert {fragment.tasks for fragment in load_estate().fragments.values()} == tasks
    slow_chain(monkeypatch, latencies_ms=SLOW_MS)
    look(loop.at)
    assert look(loop.at + timedelta(seconds=20)) == []
    assert ReasonRow.objects.filter(controller=ISOLATION, why__contains="taken back").exists()


def test_a_dry_run_tells_when_it_would_have_cut(
    world: World, record: DataflowRecord, other: DataflowRecord, loop: Loop
) -> None:
    history, estate = DatabaseHistory(), load_estate()
    chain = next(fragment for fragment in estate.fragments.values() if len(fragment.tasks) == 4)
    end = loop.at
    for at_s in range(int(end.timestamp()) - 1800, int(end.timestamp()), 10):
        values = {Series("task", task, "latency_p50_ms"): ms for task, ms in zip(chain.tasks, SLOW_MS, strict=True)}
        history.append(at_s, {Series("query", chain.id, "batch_ms"): 12_000.0, **values})
    history.flush()
    frames = COLLECTORS["slow_tasks"].frames(StoredWorld(end), end.timestamp() - 1200, end.timestamp())
    run = dry_run(CONTROLLERS[ISOLATION], frames, {})
    assert [turn.decision.target for turn in run.rounds] == [str(other.pk)]
    assert run.rounds[0].decision.arguments["slow"] == chain.tasks[2]
