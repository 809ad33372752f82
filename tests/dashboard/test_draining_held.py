"""What holds a query on a drained node: it is named, tried again with pauses that grow, and stops no other plan."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard import jobs
from dashboard.approvals import drains
from dashboard.approvals.drains import TAKEN_BACK_S, drain_of
from dashboard.approvals.lifecycle import FAILED, ROLLING_BACK, STALE
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    cancel_proposal,
    move_query,
    prepare_proposal,
    record_progress,
)
from dashboard.approvals.services.enacting import PATIENCE_S
from dashboard.catalog.lifecycle import REMOVING, RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.offered_slots import SILENT_AFTER
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.models import EstateState, FragmentRow, NodeRow, SlotRow
from dashboard.operations.services import drain_node, register_node, undrain_node
from dashboard.plans.selectors import plan_of
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import InvalidTransition
from scheduler.plan_progress import PlanProgress
from tests.dashboard.building import World, approved, document, enacted, planned, running
from tests.dashboard.draining import done, drained, on, turn


@pytest.fixture(autouse=True)
def nothing_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())


@pytest.fixture
def line(world: World, sent) -> DataflowRecord:
    """A dataflow of one query on n1, which has to be drained; n2 has room."""
    record = running(world.carla, world.city, document("line"), world.ana)
    register_node(name="n2", slots=1)
    drain_node(name="n1")
    return record


def waits(user: User | None = None) -> tuple[str, str | None]:
    """What holds the query on n1, and the proposal that it is about; the page and the command tell the same."""
    [query] = drain_of("n1", viewer_of(user) if user else EVERYTHING).queries
    out, client = StringIO(), Client()
    call_command("node", "drain", "n1", stdout=out)
    assert not query.held or query.id in out.getvalue()
    client.force_login(User.objects.get(username="root"))
    page = client.get("/estate/nodes/n1").content.decode()
    assert bool(query.held) == ('data-part="waiting"' in page)
    answer = client.get("/api/nodes/n1/drain").json()["queries"][0]
    if user is None:
        assert (answer["held"], answer["proposal"]) == (query.held, query.proposal)
        assert not query.proposal or (f"/proposals/{query.proposal}/" in page and query.proposal in out.getvalue())
    return query.held, query.proposal


def test_a_proposal_of_people_to_move_the_query_holds_it_and_is_named(world: World, line: DataflowRecord) -> None:
    [query] = on("n1")
    undrain_node(name="n1")
    proposal = move_query(actor=world.carla, dataflow_id=line.pk, query=query, slot="n1/1")
    drain_node(name="n1")
    assert turn() is None
    held, named = waits()
    assert "A proposal to move it is open" in held and named == str(proposal.pk)
    cancel_proposal(actor=world.carla, proposal_id=proposal.pk)
    assert waits() == ("", None)
    drained(world)
    assert not on("n1")


def test_another_proposal_of_the_same_dataflow_holds_nothing(world: World, sent) -> None:
    text = json.loads(document("halves"))
    text["tasks"] = [task | {"chain": "never"} for task in text["tasks"]]
    record = running(world.carla, world.city, json.dumps(text), world.ana)
    first, *others = sorted(on("n1"))
    slot = load_estate().fragments[first].slot
    away = "n1/1" if slot == "n1/0" else "n1/0"
    proposal = move_query(actor=world.carla, dataflow_id=record.pk, query=first, slot=away)
    register_node(name="n2", slots=2)
    drain_node(name="n1")
    drained(world)
    assert others and on("n1") == {first}
    assert waits() == (drain_of("n1").waiting[0].held, str(proposal.pk))


def test_a_plan_that_cannot_be_made_is_tried_again_with_pauses_that_grow(
    world: World, line: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise InvalidTransition("f1-0 cannot be moved: not today.", remedy="Wait.")

    with monkeypatch.context() as patched:
        patched.setattr("dashboard.plans.site_plan_kinds.move_kind.plan_move", refuses)
        first = turn()
        assert "is being planned" in waits()[0]
        prepare_proposal(proposal_id=first.pk)
        held, named = waits()
        assert "not today" in held and named == str(first.pk)
        for attempt, pause in ((2, 10), (3, 20), (4, 40)):
            assert turn(seconds=pause - 5) is None, "not at once"
            again = turn(seconds=pause + 1)
            assert again.pk == first.pk and again.plan.options["attempt"] == attempt
            prepare_proposal(proposal_id=first.pk)
    assert turn(seconds=60) is None and turn(seconds=81).pk == first.pk
    prepare_proposal(proposal_id=first.pk)
    done(first)
    assert not on("n1")


def failing(proposal: Proposal, cause: str) -> Proposal:
    """The heir does not start for longer than anybody waits for."""
    begun = timezone.now()
    for seconds in (0, PATIENCE_S + 1):
        plan = plan_of(proposal.plan)
        proposal = record_progress(
            proposal_id=proposal.pk, at=begun + timedelta(seconds=seconds), plan_id=proposal.plan_id,
            progress=PlanProgress(done=(), failing={step.fragment: cause for step in plan.steps}))
    assert proposal.status == FAILED
    return proposal


def test_a_move_whose_heir_cannot_start_is_taken_back_and_others_go_meanwhile(
    world: World, line: DataflowRecord
) -> None:
    undrain_node(name="n1")
    running(world.carla, world.city, document("second").replace(
        '"type": "urban_sensing"', '"type": "urban_sensing", "config": {"seed": 5}'), world.ana)
    for name in on("n2"):
        FragmentRow.objects.filter(pk=name).update(slot="n1/1")
    EstateState.objects.update(changed=timezone.now())
    drain_node(name="n1")
    assert len(on("n1")) == 2
    first = turn()
    tasks = load_estate().fragments[first.plan.options["query"]].tasks
    prepare_proposal(proposal_id=first.pk)
    failing(Proposal.objects.get(pk=first.pk), "No module named 'theirs'")
    held, named = waits()
    assert "cannot finish" in held and "theirs" in held and named == str(first.pk)

    assert turn() is None, "it is taken back first"
    first.refresh_from_db()
    assert first.status == ROLLING_BACK and first.rollback_plan.options["why"] == "No module named 'theirs'"
    assert "being rolled back" in drain_of("n1").waiting[0].held
    enacted(first)
    second = turn()
    assert second.pk != first.pk, "the other query goes"
    prepare_proposal(proposal_id=second.pk)
    done(second)
    assert [load_estate().fragments[name].tasks for name in on("n1")] == [tasks]
    held, named = waits()
    assert "rolled back" in held and "theirs" in held and named == str(first.pk) and turn() is None

    register_node(name="n3", slots=1)
    assert turn(seconds=TAKEN_BACK_S - 20) is None
    third = turn(seconds=TAKEN_BACK_S + 5)
    assert third.plan.options["slot"] == "n3/0", "where it was not tried yet"
    prepare_proposal(proposal_id=third.pk)
    done(third)
    assert not on("n1")


def test_a_move_to_a_node_that_fell_silent_is_not_taken_back(world: World, line: DataflowRecord) -> None:
    first = turn()
    prepare_proposal(proposal_id=first.pk)
    NodeRow.objects.filter(name="n1").update(seen=timezone.now())
    NodeRow.objects.filter(name="n2").update(seen=timezone.now() - 2 * SILENT_AFTER)
    failing(Proposal.objects.get(pk=first.pk), "n2 does not report")
    assert turn() is None and Proposal.objects.get(pk=first.pk).status == FAILED


def test_what_people_move_is_not_taken_back_by_a_drain(world: World, line: DataflowRecord) -> None:
    [query] = on("n1")
    proposal = move_query(actor=world.carla, dataflow_id=line.pk, query=query, slot="n2/0")
    failing(approved(prepare_proposal(proposal_id=proposal.pk), world.ana), "boom")
    assert turn() is None and Proposal.objects.get(pk=proposal.pk).status == FAILED


def test_nothing_leaves_a_silent_node(world: World, line: DataflowRecord) -> None:
    NodeRow.objects.filter(name="n2").update(seen=timezone.now())
    NodeRow.objects.filter(name="n1").update(seen=timezone.now() - 2 * SILENT_AFTER)
    assert turn() is None and "n1 does not report" in waits()[0]
    [query] = on("n1")
    proposal = move_query(actor=world.carla, dataflow_id=line.pk, query=query, slot="n2/0")
    assert "does not report" in prepare_proposal(proposal_id=proposal.pk).plan.error["message"]


def test_a_move_is_not_begun_once_the_node_that_it_leaves_is_silent(world: World, line: DataflowRecord) -> None:
    [query] = on("n1")
    undrain_node(name="n1")
    proposal = prepare_proposal(
        proposal_id=move_query(actor=world.carla, dataflow_id=line.pk, query=query, slot="n2/0").pk)
    NodeRow.objects.filter(name="n2").update(seen=timezone.now())
    NodeRow.objects.filter(name="n1").update(seen=timezone.now() - 2 * SILENT_AFTER)
    assert approved(proposal, world.ana).status == STALE
    proposal.plan.refresh_from_db()
    assert "n1, where something would move from, does not report" in proposal.plan.error["message"]


def test_what_else_holds_a_query(world: World, line: DataflowRecord) -> None:
    SlotRow.objects.filter(node="n2").update(reserved_for="a measurement")
    assert "No other node has a slot" in waits()[0] and turn() is None
    SlotRow.objects.filter(node="n2").update(reserved_for="")
    DataflowRecord.objects.update(status=REMOVING)
    assert "None of its dataflows" in waits()[0] and turn() is None
    DataflowRecord.objects.update(status=RUNNING)
    other = approved(planned(world.carla, world.city, document("hush", visibility="private", window=4)), world.ana)
    held, named = waits()
    assert "Another plan is being enacted" in held and named == str(other.pk)
    assert waits(world.mo) == (held, None), "not to those who may not know of it"


@given(st.integers(1, 200), st.integers(1, 100), st.integers(1, 5000))
def test_pauses_double_up_to_the_longest(attempts: int, first_s: int, most_s: int) -> None:
    now, then = (drains.pause_s(count, first_s=first_s, most_s=most_s) for count in (attempts, attempts + 1))
    assert then == min(2 * now, most_s) or now == most_s == then
    assert drains.pause_s(1, first_s=first_s, most_s=most_s) == min(first_s, most_s)
