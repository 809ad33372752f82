"""Adaptation on the site: dataflows with goals, whose dynamic tasks a controller switches among what guards allow."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.policy_drafts import PolicyDraft
from dashboard.approvals.replays import replayed
from dashboard.approvals.services import prepare_proposal, switch_alternate
from dashboard.audit.models import AuditEntry
from dashboard.catalog.document_checks import InvalidGoals, goals_of
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_goals
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import GuardState
from dashboard.operations.policies.guard_watches import GuardWatches
from scheduler.guards.guard_values import InvalidGuard
from scheduler.history.series import QUERY, Series
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.errors import PermissionDenied
from scheduler.model.settings_of_fragments import USUAL
from tests.dashboard.building import World, approved, enacted, running
from tests.dashboard.controlling import Loop, measured, phases
from tests.dashboard.policies import NOW_S, in_force, rates, switched

pytestmark = pytest.mark.django_db
ADAPTATION = "adaptation"
GOALS = DataflowGoals(most_per_hour=0.1, least_per_hour=0.01)
BY_CONTROLLERS = PolicyDraft({"few": "", "all": ""}, source="controllers")


@pytest.fixture
def loop(world: World, monkeypatch: pytest.MonkeyPatch) -> Loop:
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())
    loop = Loop(world)
    loop.set("acts", controller=ADAPTATION)
    return loop


@pytest.fixture
def record(world: World) -> DataflowRecord:
    """A dataflow with goals, whose dynamic task is the controllers'."""
    record = running(world.carla, world.city, switched("air"), world.ana)
    choose_goals(actor=world.carla, dataflow_id=record.pk, goals=GOALS)
    in_force(world, record, BY_CONTROLLERS)
    return record


def overloaded(loop: Loop, record: DataflowRecord, *, per_s: float) -> None:
    """Two minutes in which far more came than a core does."""
    estate = load_estate()
    tasks = estate.submitted[str(record.pk)].running.values()
    queries = {estate.places[task][0] for task in tasks}
    end = loop.at
    measured(end - timedelta(seconds=120), end, dataflow=str(record.pk), queries=queries, tasks=tasks, cores=1.0,
             rate_per_s=per_s, behind={Series(QUERY, query, "trigger_ms"): 1000.0 for query in queries})


def on(record: DataflowRecord) -> str:
    estate = load_estate()
    task = estate.submitted[str(record.pk)].running["work"]
    return estate.settings.get(estate.places[task][0], USUAL).alternates.get(task, "")


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the task's alternates the one of most value takes ten times as much as the other."""
    from scheduler.controllers.evidence import adaptations

    figures = adaptations.alternate_figures
    monkeypatch.setattr(adaptations, "alternate_figures", lambda *args, **more: tuple(
        replace(way, event_s=4e-6 if way.name == "all" else 4e-7) for way in figures(*args, **more)))
    monkeypatch.setattr("scheduler.model.costs.Costs.task_event_us", lambda *_: 0.01)


@pytest.mark.usefixtures("dear")
def test_an_overload_is_met_by_the_cheap_way(loop: Loop, record: DataflowRecord) -> None:
    overloaded(loop, record, per_s=400_000.0)
    loop.run()
    [turn] = RoundRow.objects.filter(controller=ADAPTATION)
    proposal = prepare_proposal(proposal_id=Proposal.objects.get(round=turn).pk)
    options = proposal.plan.options
    assert (proposal.status, options["task"], options["alternate"], options["source"]) == (
        "executing", "work", "few", "controllers")
    assert "as in the last minute. Too little is known" in turn.decision["why"]
    looked_at = json.loads(turn.decision["arguments"]["looked_at"])
    assert [candidate["alternates"] for candidate in looked_at if candidate["is_chosen"]] == [{"work": "few"}]
    assert {} in [candidate["alternates"] for candidate in looked_at], "what runs is among what was looked at"
    enacted(proposal)
    assert on(record) == "few"
    loop.run()
    assert phases(ADAPTATION) == ["checking"]


@pytest.mark.long  # tests/pages/test_adaptation.py carries a recommendation out
@pytest.mark.usefixtures("dear")
def test_what_is_recommended_waits_for_people(world: World, loop: Loop, record: DataflowRecord) -> None:
    loop.set("recommends", controller=ADAPTATION)
    overloaded(loop, record, per_s=400_000.0)
    loop.run()
    proposal = prepare_proposal(proposal_id=Proposal.objects.get(round__controller=ADAPTATION).pk)
    assert proposal.status == "pending" and on(record) == ""
    enacted(approved(proposal, world.ana))
    assert on(record) == "few"


@pytest.mark.usefixtures("dear")
def test_what_somebody_holds_or_guards_forbid_is_left_as_it_is(
    world: World, loop: Loop, record: DataflowRecord
) -> None:
    held = prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate="all", hold_s=7200).pk)
    enacted(approved(held, world.ana))
    overloaded(loop, record, per_s=400_000.0)
    loop.run()
    assert not RoundRow.objects.filter(controller=ADAPTATION).exists()
    assert "carla holds it" in ReasonRow.objects.get(controller=ADAPTATION).why


def test_guards_say_what_a_controller_may_choose_among(world: World, record: DataflowRecord) -> None:
    in_force(world, record, PolicyDraft({"all": "rate < 50"}, source="controllers"))
    watches = GuardWatches()
    assert watches.look(load_estate(), rates(20.0), NOW_S) == [], "both are allowed: the controller chooses"
    [wanted] = watches.look(load_estate(), rates(200.0), NOW_S + 1)
    assert (wanted.alternate, wanted.source) == ("few", "controllers")
    assert "all is not allowed any more" in wanted.because
    watches.store()
    assert GuardState.objects.get().verdicts["all"]["guard"] is False


def test_activation_guards_leave_a_controller_nothing(world: World, record: DataflowRecord) -> None:
    with pytest.raises(InvalidGuard, match="leave a controller nothing to choose"):
        in_force(world, record, PolicyDraft({"all": "rate < 50"}, kind="activation", source="controllers"))


def test_goals_are_chosen_in_place_of_the_documents(world: World) -> None:
    whole = json.loads(switched("air")) | {"goals": {"most_per_hour": 0.5, "throughput": 0.9}}
    record = running(world.carla, world.city, json.dumps(whole), world.ana)
    stated = DataflowGoals(0.5, throughput=0.9)
    assert record.goals_in_force == stated
    with pytest.raises(PermissionDenied):
        choose_goals(actor=world.vera, dataflow_id=record.pk, goals=GOALS)
    assert choose_goals(actor=world.carla, dataflow_id=record.pk, goals=GOALS).goals_in_force == GOALS
    assert choose_goals(actor=world.carla, dataflow_id=record.pk, goals=None).goals_in_force is None
    as_stated = choose_goals(actor=world.carla, dataflow_id=record.pk, goals=None, as_document=True)
    assert as_stated.goals_in_force == stated
    assert AuditEntry.objects.filter(verb="dataflow.choose_goals").count() == 3


@pytest.mark.parametrize(("value", "match"), [
    ({"throughput": 0.8}, "need most_per_hour"), ({"most_per_hour": "1"}, "no number"),
    ({"most_per_hour": 1, "least_per_hour": 2}, "cannot be"), ({"most_per_hour": 1, "speed": 2}, "no key"),
    ({"most_per_hour": 1, "throughput": 1.5}, "cannot be"), ({"most_per_hour": float("nan")}, "cannot be")])
def test_goals_that_cannot_be_are_refused(value: dict, match: str) -> None:
    with pytest.raises(InvalidGoals, match=match):
        goals_of(value)


def test_a_replay_plays_adaptation_by_the_goals_that_hold(world: World, loop: Loop, record: DataflowRecord) -> None:
    overloaded(loop, record, per_s=50.0)

    def decided_by(at: datetime) -> set[str]:
        played = replayed(hours=1, at=at).now
        return {turn.controller for turn in played.rounds} | {controller for _, controller, _ in played.why_not}

    assert ADAPTATION in decided_by(loop.at)
    choose_goals(actor=world.carla, dataflow_id=record.pk, goals=None)
    assert ADAPTATION not in decided_by(loop.at)
