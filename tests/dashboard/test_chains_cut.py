"""Queries that people or defragmentation have fused are cut again where they come to take a core."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dashboard import jobs
from dashboard.approvals.lifecycle import DONE, EXECUTING, PENDING
from dashboard.approvals.models import Proposal
from dashboard.approvals.selectors import awaiting
from dashboard.approvals.services import (
    approve_proposal,
    defragment_dataflow,
    prepare_proposal,
    reject_proposal,
)
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import Reports
from scheduler.model.errors import PermissionDenied
from scheduler.model.fragment import Slot
from tests.dashboard.building import World, approved, document, enacted, removal_planned, running
from tests.dashboard.controlling import Loop, measured, phases
from tests.dashboard.rearranging import prepared

TAKES = 0.95  # cores of the query that was fused


@pytest.fixture
def loop(world: World, monkeypatch: pytest.MonkeyPatch) -> Loop:
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading(TAKES))
    made = Loop(world)
    made.set("off")
    made.set("off", controller="deployment")
    made.set("acts", controller="chaining")
    return made


def reading(cores: float) -> jobs.LiveReading:
    """What the node reports: of each query so much CPU."""
    slots: dict[str, dict] = {}
    for fragment in load_estate().fragments.values():
        slot = slots.setdefault(str(Slot.of(fragment.slot).index), {"state": "running", "fragments": {}})
        slot["fragments"][fragment.id] = {"state": "running", "cpu": cores}
    return jobs.LiveReading(reports=Reports.of({"n1": {"node": "n1", "slots": slots}}))


@pytest.fixture
def fused(world: World, loop: Loop, settings) -> Proposal:
    """A fusion that somebody asked for, and that is done."""
    settings.DEFRAGMENT_RATIO = 0.0
    first = running(world.carla, world.city, document("traffic"), world.ana)
    record = running(world.carla, world.city, document("jams", window=20), world.ana)
    enacted(approved(removal_planned(world.carla, first), world.ana))
    proposal = enacted(approved(prepared(defragment_dataflow(actor=world.carla, dataflow_id=record.pk)), world.ana))
    assert (proposal.status, proposal.round, len(load_estate().fragments)) == (DONE, None, 1)
    return proposal


def figures(loop: Loop, record: DataflowRecord, *, cores: float = TAKES, seconds: int = 200) -> None:
    """What its queries take from now on for so long."""
    estate = load_estate()
    tasks = set(estate.submitted[str(record.pk)].running.values())
    measured(loop.at, loop.at + timedelta(seconds=seconds), dataflow=str(record.pk), cores=cores, tasks=tasks,
             queries={estate.places[task][0] for task in tasks})
    loop.at += timedelta(seconds=seconds)


def cut() -> Proposal:
    """The proposal of a cut, with its plan."""
    proposal = Proposal.objects.get(round__controller="chaining")
    return prepare_proposal(proposal_id=proposal.pk) or Proposal.objects.get(pk=proposal.pk)


def test_a_chain_that_people_made_is_cut_where_it_takes_a_core_for_two_minutes(loop: Loop, fused: Proposal) -> None:
    figures(loop, fused.dataflow, cores=0.85)
    loop.run()
    assert phases("chaining") == [], "its median is below 0.9 of a core"

    figures(loop, fused.dataflow)
    loop.run()
    loop.run()

    proposal = cut()
    assert (proposal.status, proposal.plan.kind) == (EXECUTING, "defragment")
    enacted(proposal)
    loop.run()
    assert phases("chaining") == ["checking"]
    assert len(load_estate().fragments) == 2
    (turn,) = RoundRow.objects.filter(controller="chaining")
    (change,) = turn.decision["changes"]
    assert (change["before"], change["after"]) == ("within a query", "in a channel")
    assert turn.decision["urgent"]


@pytest.mark.long  # tests/scheduler/controllers/test_chaining_decisions.py has it
def test_what_was_cut_is_not_fused_again_for_a_day_by_whichever_controller(
    loop: Loop, fused: Proposal, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures(loop, fused.dataflow)
    loop.run()
    loop.run()
    enacted(cut())
    loop.run()
    loop.set("acts")
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading(0.1))
    figures(loop, fused.dataflow, cores=0.2, seconds=3_600)
    loop.run()
    assert phases("chaining") == ["unchecked"]
    loop.run(later_s=310)

    assert phases("defragmentation") == []
    assert any("within the last day" in why for why in
               ReasonRow.objects.filter(controller="defragmentation").values_list("why", flat=True))


def test_a_team_that_does_not_let_chaining_act_is_asked_and_the_question_is_withdrawn_where_load_falls(
    world: World, loop: Loop, fused: Proposal, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.set("recommends", controller="chaining")
    figures(loop, fused.dataflow)
    loop.run()
    loop.run()
    proposal = cut()
    loop.run()
    (turn,) = RoundRow.objects.filter(controller="chaining")
    assert (turn.phase, [team.slug for team in proposal.teams.all()]) == ("asked", ["city"])
    assert proposal in awaiting(viewer_of(world.ana))
    with pytest.raises(PermissionDenied):
        approve_proposal(actor=world.carla, proposal_id=proposal.pk, digest=proposal.plan.digest)

    monkeypatch.setattr(jobs, "read_live", lambda *_: reading(0.3))
    loop.run()
    loop.run()
    turn.refresh_from_db()
    assert (turn.phase, "less than 0.7 cores" in turn.why) == ("declined", True)


def test_an_approval_cuts_the_chain(world: World, loop: Loop, fused: Proposal) -> None:
    loop.set("recommends", controller="chaining")
    figures(loop, fused.dataflow)
    loop.run()
    loop.run()
    proposal = cut()
    approve_proposal(actor=world.ana, proposal_id=proposal.pk, digest=proposal.plan.digest)
    loop.run()
    assert phases("chaining") == ["enacting"]
    proposal.refresh_from_db()
    enacted(proposal)
    loop.run()
    assert (phases("chaining"), len(load_estate().fragments)) == (["checking"], 2)


@pytest.mark.long  # test_open_batches.py has what people turn down
def test_a_rejection_leaves_the_chain_in_peace_for_a_day(world: World, loop: Loop, fused: Proposal) -> None:
    loop.set("recommends", controller="chaining")
    figures(loop, fused.dataflow)
    loop.run()
    loop.run()
    proposal = cut()
    reject_proposal(actor=world.ana, proposal_id=proposal.pk, comment="not now")
    loop.run()
    figures(loop, fused.dataflow, seconds=3_600)
    loop.run()

    assert phases("chaining") == ["declined"]
    assert len(load_estate().fragments) == 1


@pytest.mark.long  # test_controllers.py has other teams that are asked
def test_teams_that_use_the_chain_are_asked_where_they_do_not_let_it_act(
    world: World, loop: Loop, fused: Proposal
) -> None:
    running(world.mo, world.mobility, document("others", window=20), world.ben, world.ana)
    figures(loop, fused.dataflow)
    loop.run()
    loop.run()

    proposal = cut()
    assert (proposal.status, [team.slug for team in proposal.teams.all()]) == (PENDING, ["mobility"])


def test_a_query_that_was_one_from_the_beginning_is_left_as_it_is(world: World, loop: Loop) -> None:
    record = running(world.carla, world.city, document("whole"), world.ana)
    figures(loop, record)
    loop.run()

    assert phases("chaining") == []
