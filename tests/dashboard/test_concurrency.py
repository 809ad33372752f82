"""Two people at once, on real transactions of two connections."""

from __future__ import annotations

from contextlib import suppress

import pytest

from dashboard.approvals.lifecycle import DONE, EXECUTING, PENDING, ROLLED_BACK, STALE
from dashboard.approvals.models import Proposal, Review
from dashboard.approvals.services import (
    approve_proposal,
    carry_over_waiting,
    prepare_proposal,
    recompute_proposal,
    remove_dataflow,
    roll_back_proposal,
    submit_dataflow,
)
from dashboard.approvals.services.reviewing import AlreadyReviewed, DigestMismatch
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import NameTaken
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import EstateState
from dashboard.teams.models import User
from scheduler.model.errors import InvalidTransition, StalePlan
from tests.dashboard.building import World, approved, document, enacted, planned, removal_planned, running
from tests.dashboard.checks import check_rows
from tests.dashboard.concurrency import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_two_approved_at_once_one_goes_stale(committed_world: World):
    world = committed_world
    first = planned(world.carla, world.city, document("traffic"))
    two = planned(world.mo, world.mobility, document("jams", window=20))
    outcomes = at_once(
        lambda: approve_proposal(actor=world.ana, proposal_id=first.pk, digest=first.plan.digest),
        lambda: approve_proposal(actor=world.ben, proposal_id=two.pk, digest=two.plan.digest),
    )
    assert sum(isinstance(outcome, StalePlan) for outcome in outcomes) == 1, outcomes
    assert sorted(Proposal.objects.values_list("status", flat=True)) == sorted([EXECUTING, STALE])
    estate = load_estate()
    assert (estate.generation, len(estate.submitted), len(estate.tasks)) == (2, 1, 4)


def test_two_approvers_at_once_execute_once(committed_world: World):
    world = committed_world
    proposal = planned(world.carla, world.city, document("traffic"))
    outcomes = at_once(*(
        lambda who=who: approve_proposal(actor=who, proposal_id=proposal.pk, digest=proposal.plan.digest)
        for who in (world.ana, world.abe)
    ))
    refused = [outcome for outcome in outcomes if isinstance(outcome, InvalidTransition | AlreadyReviewed)]
    assert len(refused) == 1, outcomes
    assert (Review.objects.count(), load_estate().generation) == (1, 2)


def test_two_submissions_of_one_name_at_once_store_one(committed_world: World):
    world = committed_world
    outcomes = at_once(*(
        lambda who=who: submit_dataflow(actor=who, team=world.city, text=document("traffic"))
        for who in (world.carla, world.ana)
    ))
    assert sum(isinstance(outcome, NameTaken) for outcome in outcomes) == 1, outcomes
    assert DataflowRecord.objects.count() == 1


def test_two_workers_with_one_plan_keep_one(committed_world: World):
    world = committed_world
    proposal = submit_dataflow(actor=world.carla, team=world.city, text=document("traffic"))
    outcomes = at_once(*(lambda: prepare_proposal(proposal_id=proposal.pk) for _ in range(3)))
    assert {outcome.status for outcome in outcomes} == {PENDING}, outcomes
    assert len({outcome.plan.digest for outcome in outcomes}) == 1


def test_many_plans_at_once_are_all_for_the_generation_that_stands(committed_world: World):
    world = committed_world
    waiting = [
        submit_dataflow(actor=world.carla, team=world.city, text=document(f"d{window}", window=window))
        for window in range(2, 8)
    ]
    first = planned(world.carla, world.city, document("traffic"))
    at_once(
        lambda: approve_proposal(actor=world.ana, proposal_id=first.pk, digest=first.plan.digest),
        *(lambda proposal=proposal: prepare_proposal(proposal_id=proposal.pk) for proposal in waiting),
    )
    carry_over_waiting()
    generation = EstateState.objects.get().generation
    for proposal in Proposal.objects.exclude(pk=first.pk).select_related("plan"):
        assert proposal.status in {PENDING, STALE}
        assert (proposal.plan.generation == generation) is (proposal.status == PENDING)


def enact_until_done(proposal: Proposal, *reviewers: User) -> Proposal:
    """Approve, recompute where the estate has moved on, and approve again, as people would; then it is enacted."""
    for _ in range(30):
        proposal = Proposal.objects.select_related("plan", "dataflow").get(pk=proposal.pk)
        if proposal.status == STALE:
            with suppress(InvalidTransition):  # somebody else's click was first
                recompute_proposal(actor=proposal.author, proposal_id=proposal.pk)
            proposal = prepare_proposal(proposal_id=proposal.pk)
        with suppress(StalePlan, InvalidTransition, DigestMismatch, AlreadyReviewed):
            proposal = approved(proposal, *reviewers)
        if proposal.status == EXECUTING:
            return enacted(proposal)
    raise AssertionError(f"{proposal.dataflow.name} is {proposal.status} for ever")


def test_of_overlapping_submissions_at_once_no_task_runs_twice_and_none_is_lost(committed_world: World):
    world = committed_world
    people = [(world.carla, world.city), (world.mo, world.mobility)] * 3
    proposals = [
        planned(author, team, document(f"d{number}", window=2 + number // 2))
        for number, (author, team) in enumerate(people)
    ]
    outcomes = at_once(*(lambda proposal=proposal: enact_until_done(proposal, world.dev) for proposal in proposals))
    assert {getattr(outcome, "status", outcome) for outcome in outcomes} == {DONE}, outcomes
    estate = check_rows()
    assert set(estate.submitted) == {str(proposal.dataflow_id) for proposal in proposals}
    # Two tasks that all share; an average that two share, three times; a named output for each.
    assert len(estate.tasks) == 2 + 3 + 6


def test_the_same_dataflow_submitted_twice_at_once_under_two_names_runs_once(committed_world: World):
    world = committed_world
    proposals = at_once(*(
        lambda who=who, team=team: planned(who, team, document("same", window=4))
        for who, team in ((world.carla, world.city), (world.mo, world.mobility))
    ))
    at_once(*(lambda proposal=proposal: enact_until_done(proposal, world.dev) for proposal in proposals))
    estate = check_rows()
    assert (len(estate.submitted), len(estate.tasks)) == (2, 4)


def test_a_removal_and_a_merge_onto_it_at_once_lose_nothing(committed_world: World):
    world = committed_world
    first = running(world.carla, world.city, document("traffic"), world.ana)
    removal = removal_planned(world.carla, first)
    merge = planned(world.mo, world.mobility, document("jams", window=20))
    outcomes = at_once(
        lambda: enact_until_done(removal, world.dev), lambda: enact_until_done(merge, world.dev))
    assert {getattr(outcome, "status", outcome) for outcome in outcomes} == {DONE}, outcomes
    estate = check_rows()
    assert list(estate.submitted) == [str(merge.dataflow_id)] and len(estate.tasks) == 4


def test_a_removal_while_a_merge_is_being_enacted_keeps_what_the_merge_needs(committed_world: World):
    world = committed_world
    first = running(world.carla, world.city, document("traffic"), world.ana)
    merge = approved(planned(world.mo, world.mobility, document("jams", window=20)), world.dev)
    with pytest.raises(InvalidTransition, match="nothing to remove yet"):
        remove_dataflow(actor=world.mo, dataflow_id=merge.dataflow_id)
    outcomes = at_once(
        lambda: enacted(merge), lambda: enact_until_done(removal_planned(world.carla, first), world.dev))
    assert {getattr(outcome, "status", outcome) for outcome in outcomes} == {DONE}, outcomes
    estate = check_rows()
    assert list(estate.submitted) == [str(merge.dataflow_id)] and len(estate.tasks) == 4


def test_a_merge_rolled_back_while_what_it_reuses_is_removed_leaves_nothing(committed_world: World):
    world = committed_world
    first = running(world.carla, world.city, document("traffic"), world.ana)
    merge = approved(planned(world.mo, world.mobility, document("jams", window=20)), world.dev)
    removal = removal_planned(world.carla, first)
    outcomes = at_once(
        lambda: enacted(roll_back_proposal(actor=world.dev, proposal_id=merge.pk)),
        lambda: enact_until_done(removal, world.dev))
    assert {getattr(outcome, "status", outcome) for outcome in outcomes} == {DONE, ROLLED_BACK}, outcomes
    estate = check_rows()
    assert (estate.submitted, estate.tasks, estate.fragments) == ({}, {}, {})


def test_a_dataflow_is_removed_once_however_often_it_is_asked_for(committed_world: World):
    world = committed_world
    record = running(world.carla, world.city, document("traffic"), world.ana)
    proposals = at_once(*(lambda: remove_dataflow(actor=world.carla, dataflow_id=record.pk) for _ in range(3)))
    assert len({proposal.pk for proposal in proposals}) == 1, proposals
    enact_until_done(prepare_proposal(proposal_id=proposals[0].pk), world.ana)
    assert check_rows().submitted == {}
    with pytest.raises(InvalidTransition, match="nothing to remove"):
        remove_dataflow(actor=world.carla, dataflow_id=record.pk)
