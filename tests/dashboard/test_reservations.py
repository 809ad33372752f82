"""Slots that a measurement has to itself: nothing comes to them, by whatever way."""

from __future__ import annotations

import pytest

from dashboard.approvals.services import resume_dataflow, roll_back_proposal
from dashboard.audit.trail import audited
from dashboard.operations.estate_store import reservations
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.reservations import SlotTaken
from dashboard.operations.live_reader import live_estate
from dashboard.operations.models import EstateState, SlotRow
from dashboard.operations.services import register_node
from dashboard.teams.permissions import viewer_of
from tests.dashboard.building import World, approved, document, enacted, running
from tests.dashboard.checks import check_rows
from tests.dashboard.rearranging import paused, prepared, status, used
from tests.dashboard.schedules import at, rescheduled, scheduled
from tests.pages.scheduling import measured


def reserve(slot: str) -> None:
    with audited(actor=None, verb="sweep.advance") as audit:
        reservations.reserve(slot, holder="measuring pi")
        audit.subject = EstateState.objects.get(pk=1)


def release(slot: str) -> None:
    with audited(actor=None, verb="sweep.advance") as audit:
        reservations.release(slot, holder="measuring pi")
        audit.subject = EstateState.objects.get(pk=1)


def test_what_is_taken_back_does_not_come_to_a_slot_that_is_measured_on_meanwhile(world: World):
    measured(world)
    record = scheduled(world, at(18, pair=("MBA", "DSM")))
    before = used()
    proposal = approved(rescheduled(world, record, at(50, pair=("LSA", "RSM"))), world.ana)
    freed = min(before - used())
    reserve(freed)
    estate = load_estate()
    with pytest.raises(SlotTaken, match="measuring pi") as caught:
        roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    assert caught.value.facts["slot"] == freed and load_estate() == estate
    proposal.refresh_from_db()
    assert proposal.status == "executing", "nothing is half taken back"
    release(freed)
    assert roll_back_proposal(actor=world.ana, proposal_id=proposal.pk).status == "rolling_back"
    check_rows()


def test_what_a_node_no_longer_has_slots_for_moves_past_those_that_are_reserved(world: World):
    register_node(name="n1", slots=4)
    for number in range(4):
        running(world.carla, world.city, document(f"d{number}", window=20 + number), world.ana)
    assert used() == {"n1/0", "n1/1", "n1/2", "n1/3"}
    SlotRow.objects.filter(name="n1/0").update(reserved_for="measuring pi")
    on_first = {fragment_id for fragment_id, fragment in load_estate().fragments.items() if fragment.slot == "n1/0"}
    register_node(name="n1", slots=2)
    after = load_estate().fragments
    assert {fragment_id for fragment_id, fragment in after.items() if fragment.slot == "n1/0"} == on_first
    assert used() == {"n1/0", "n1/1"} and set(after) > on_first
    SlotRow.objects.update(reserved_for="")  # what is kept is compared with what is counted, which knows nothing of it
    check_rows()


def test_where_every_slot_that_is_left_is_reserved_what_runs_goes_on_all_the_same(world: World):
    for number in range(2):
        running(world.carla, world.city, document(f"d{number}", window=20 + number), world.ana)
    assert used() == {"n1/0", "n1/1"}
    SlotRow.objects.filter(name="n1/0").update(reserved_for="measuring pi")
    register_node(name="n1", slots=1)
    assert used() == {"n1/0"}


def test_a_slot_is_told_to_be_reserved_until_it_is_given_back(world: World):
    viewer = viewer_of(world.vera)

    def reserved() -> dict[str, bool]:
        return {name: slot["reserved"] for name, slot in live_estate(viewer)["slots"].items()}

    assert reserved() == {"n1/0": False, "n1/1": False}
    reserve("n1/0")
    assert reserved() == {"n1/0": True, "n1/1": False}
    generation = EstateState.objects.get(pk=1).generation
    release("n1/0")
    assert reserved() == {"n1/0": False, "n1/1": False}
    assert EstateState.objects.get(pk=1).generation == generation, "no plan is overtaken"


def test_a_slot_on_which_something_rests_is_measured_on_and_it_is_resumed_afterwards(world: World):
    record = running(world.carla, world.city, document("d"), world.ana)
    [slot] = used()
    with pytest.raises(SlotTaken, match="runs"):
        reserve(slot)
    paused(world, record)
    reserve(slot)
    proposal = prepared(resume_dataflow(actor=world.carla, dataflow_id=record.pk))
    with pytest.raises(SlotTaken, match="measuring pi"):
        approved(proposal, world.ana)
    assert status(record) == "paused"
    release(slot)
    assert enacted(approved(proposal, world.ana)).status == "done"
    assert status(record) == "running" and used() == {slot}
