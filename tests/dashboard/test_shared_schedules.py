"""Schedules of dataflows that share what runs with others: of what is left of them, by what is known of it."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from dashboard.approvals.services import (
    prepare_proposal,
    propose_schedule,
    recompute_proposal,
    roll_back_proposal,
    submit_dataflow,
)
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from scheduler.model.errors import NotEnactable
from scheduler.model.prices import Prices
from scheduler.performance.declared import DECLARED_MEMORY
from scheduler.performance.pricing import query_cores
from tests.dashboard.building import World, approved, enacted, held_to_estate, planned, removal_planned, running
from tests.dashboard.checks import check_rows
from tests.pages.scheduling import linear

from .schedules import SAM, at, proposed, rescheduled, scheduled


def twin() -> str:
    """All of ``linear``, down to its output, under another name."""
    return json.dumps(json.loads(linear()) | {"name": "twin"})


def tapped() -> str:
    """The first two tasks of ``linear``, with an output of their own."""
    whole = json.loads(linear("tapped"))
    sense, parse, _, out = whole["tasks"]
    streams = [{"from": "sense", "to": "parse"}, {"from": "parse", "to": "out"}]
    return json.dumps(whole | {"tasks": [sense, parse, out], "streams": streams})


def test_no_schedule_is_proposed_of_what_runs_for_others_whole(profiled: World):
    running(profiled.carla, profiled.city, linear(), profiled.ana)
    with pytest.raises(NotEnactable, match="All tasks of twin run already, for others"):
        submit_dataflow(actor=profiled.carla, team=profiled.city, text=twin(), schedule=SAM)
    assert not DataflowRecord.objects.filter(name="twin").exists()
    waiting = planned(profiled.carla, profiled.city, twin())
    with pytest.raises(NotEnactable, match="All tasks of twin run already, for others"):
        propose_schedule(actor=profiled.carla, dataflow_id=waiting.dataflow_id, choice=SAM)
    waiting.refresh_from_db()
    assert waiting.status == "pending" and waiting.plan.options == {}


def test_what_comes_to_run_for_others_while_its_schedule_waits_goes_on_without(profiled: World, client):
    proposal = submit_dataflow(actor=profiled.carla, team=profiled.city, text=twin(), schedule=SAM)
    assert prepare_proposal(proposal_id=proposal.pk).status == "pending"
    running(profiled.carla, profiled.city, linear(), profiled.ana)
    held_to_estate(proposal)
    recompute_proposal(actor=profiled.carla, proposal_id=proposal.pk)
    failed = prepare_proposal(proposal_id=proposal.pk)
    assert (failed.status, failed.plan.error["code"]) == ("unplannable", "not_enactable")
    assert "All tasks of twin run already, for others" in failed.plan.error["message"]
    client.force_login(profiled.carla)
    page = client.get(reverse("schedule", args=[proposal.dataflow_id])).content.decode()
    assert "All tasks of twin run already" in page and 'name="without" value="1"' in page
    client.post(reverse("schedule_propose", args=[proposal.dataflow_id]), {"without": "1"})
    prepared = prepare_proposal(proposal_id=proposal.pk)
    assert prepared.status == "pending" and plan_of(prepared.plan).promise is None


def test_a_removal_is_taken_back_without_its_schedule_where_all_of_it_goes_on_for_others(profiled: World):
    record = scheduled(profiled)
    running(profiled.carla, profiled.city, twin(), profiled.ana)
    removal = approved(removal_planned(profiled.carla, record), profiled.ana)
    rolled = enacted(roll_back_proposal(actor=profiled.ana, proposal_id=removal.pk))
    assert rolled.status == "rolled_back" and plan_of(rolled.rollback_plan).promise is None
    check_rows()
    assert str(record.pk) in load_estate().submitted


def test_a_query_that_goes_on_for_others_keeps_its_room_on_the_slot(profiled: World, settings):
    running(profiled.carla, profiled.city, linear(), profiled.ana)
    [chain] = (estate := load_estate()).fragments.values()
    record = running(profiled.carla, profiled.city, tapped(), profiled.ana)
    question = problem_of(record)
    assert question.running["sense"].id == question.running["parse"].id == chain.id
    [taken_of_slot] = [taken for slot, taken in question.supply.taken.items() if slot.name == chain.slot]
    work = sum(estate.tasks[task].cores for task in chain.tasks[2:])
    assert (taken_of_slot.queries, taken_of_slot.memory) == (1, DECLARED_MEMORY)
    assert taken_of_slot.cpu == pytest.approx(work + query_cores(Prices(trigger_ms=settings.TRIGGER_MS)), abs=1e-6)
    enacted(approved(rescheduled(profiled, record, at(18)), profiled.ana))
    [later] = [taken for slot, taken in problem_of(record).supply.taken.items() if slot.name == chain.slot]
    assert later == taken_of_slot, "what others leave is the same before and after"


def test_what_is_new_is_scheduled_by_what_was_measured_of_what_it_joins(profiled: World, monkeypatch):
    record = running(profiled.carla, profiled.city, linear(), profiled.ana)
    second = planned(profiled.carla, profiled.city, linear("second")).dataflow
    declared = problem_of(second).job(18).rates_per_s
    parse = load_estate().submitted[str(record.pk)].running["parse"]
    monkeypatch.setattr("dashboard.jobs.selectivities", lambda fragments, least: {parse: 12.58})
    assert set(declared) == {"out"}, "all else runs"
    assert problem_of(second).job(18).rates_per_s["out"] == pytest.approx(13 / 5 * declared["out"])
    promise = plan_of(proposed(profiled, at(18), name="third").plan).promise
    assert promise.rates_per_s["out"] == pytest.approx(13 / 5 * declared["out"])
