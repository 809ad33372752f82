"""Approving a schedule: by somebody else than who chose it, and by the profiles that it was made from."""

from __future__ import annotations

import pytest

from dashboard.approvals.selectors import awaiting, review_of
from dashboard.approvals.services import choose_joining, prepare_proposal, propose_schedule, recompute_proposal
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.plans.selectors import plan_of
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.services.choosing import set_aside_profile, use_profile
from dashboard.profiles.services.importing import import_profiles
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import InvalidTransition, PermissionDenied
from tests.dashboard.building import World, approved, planned
from tests.dashboard.schedules import at, proposed, rescheduled, scheduled
from tests.pages.scheduling import linear

PI_AT_HALF = """task,threads,peak_rate_tuples_s,cpu_pct,mem_pct,origin
pi_viete,1,50,92,2,measured later
"""


def test_who_chose_the_schedule_does_not_approve_it(profiled: World):
    record = scheduled(profiled, at(18))
    proposal = rescheduled(profiled, record, at(50))
    changed = prepare_proposal(
        proposal_id=propose_schedule(actor=profiled.ana, dataflow_id=record.pk, choice=at(40, ("LSA", "DSM"))).pk)
    assert changed.pk == proposal.pk and (changed.author, changed.chosen_by) == (profiled.carla, profiled.ana)
    review = review_of(viewer_of(profiled.ana), changed)
    assert not review["may_approve"] and "You chose how it is to run" in review["why_not"] and review["may_cancel"]
    with pytest.raises(PermissionDenied):
        approved(changed, profiled.ana)
    assert changed not in awaiting(viewer_of(profiled.ana)) and changed in awaiting(viewer_of(profiled.abe))
    back = prepare_proposal(
        proposal_id=propose_schedule(actor=profiled.carla, dataflow_id=record.pk, choice=at(50)).pk)
    assert back.chosen_by is None
    assert approved(back, profiled.ana).status == "executing"


def test_who_chose_how_a_submission_joins_does_not_approve_it(profiled: World):
    proposal = planned(profiled.carla, profiled.city, linear())
    chosen = prepare_proposal(proposal_id=choose_joining(actor=profiled.ana, proposal_id=proposal.pk, fresh=True).pk)
    with pytest.raises(PermissionDenied):
        approved(chosen, profiled.ana)
    assert approved(chosen, profiled.abe).status == "executing"


def test_a_plan_made_from_a_profile_that_has_changed_since_is_not_approved(profiled: World):
    proposal = proposed(profiled, at(50))
    assert review_of(viewer_of(profiled.carla), proposal)["outdated"] == ()
    with pytest.raises(InvalidTransition, match="as it would be computed now"):
        recompute_proposal(actor=profiled.carla, proposal_id=proposal.pk)
    slots = len(plan_of(proposal.plan).promise.slots)
    import_profiles(actor=profiled.carla, text=PI_AT_HALF)
    review = review_of(viewer_of(profiled.carla), proposal)
    assert review["outdated"] == ("pi",) and review["may_recompute"]
    before = load_estate()
    assert approved(proposal, profiled.ana).status == "stale" and load_estate() == before
    recompute_proposal(actor=profiled.carla, proposal_id=proposal.pk)
    anew = prepare_proposal(proposal_id=proposal.pk)
    assert len(plan_of(anew.plan).promise.slots) > slots
    assert approved(anew, profiled.ana).status == "executing"


@pytest.mark.parametrize("undone", ["the earlier one is used", "it is set aside"])
def test_a_plan_made_from_a_profile_that_is_no_longer_in_use_is_not_approved(profiled: World, undone: str):
    earlier = ProfileRecord.objects.get(task_type="pi_viete")
    [mistake] = import_profiles(actor=profiled.carla, text=PI_AT_HALF)
    proposal = proposed(profiled, at(50))
    slots = len(plan_of(proposal.plan).promise.slots)
    if undone == "it is set aside":
        set_aside_profile(actor=profiled.carla, profile_id=mistake.pk)
    else:
        use_profile(actor=profiled.carla, profile_id=earlier.pk)
    review = review_of(viewer_of(profiled.carla), proposal)
    assert review["outdated"] == ("pi",) and review["may_recompute"]
    assert approved(proposal, profiled.ana).status == "stale"
    recompute_proposal(actor=profiled.carla, proposal_id=proposal.pk)
    anew = prepare_proposal(proposal_id=proposal.pk)
    if undone == "it is set aside":
        assert any("Nobody has measured pi_viete here" in note for note in plan_of(anew.plan).notes)
    else:
        assert len(plan_of(anew.plan).promise.slots) < slots and approved(anew, profiled.ana).status == "executing"


def test_the_same_choice_again_is_planned_from_the_profiles_of_now(profiled: World):
    proposal = proposed(profiled, at(50))
    same = propose_schedule(actor=profiled.carla, dataflow_id=proposal.dataflow_id, choice=at(50))
    assert same.plan_id == proposal.plan_id, "nothing has changed"
    import_profiles(actor=profiled.carla, text=PI_AT_HALF)
    anew = propose_schedule(actor=profiled.carla, dataflow_id=proposal.dataflow_id, choice=at(50))
    assert anew.pk == proposal.pk and anew.plan_id != proposal.plan_id and anew.status == "computing"


def test_a_profile_that_no_task_of_a_plan_has_changes_nothing(profiled: World):
    proposal = proposed(profiled, at(50))
    import_profiles(actor=profiled.carla, text=PI_AT_HALF.replace("pi_viete", "http_get"))
    assert approved(proposal, profiled.ana).status == "executing"
