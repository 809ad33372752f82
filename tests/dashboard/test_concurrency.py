"""Two people at once, on real transactions of two connections."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from dashboard.approvals.lifecycle import EXECUTING, PENDING, STALE
from dashboard.approvals.models import Proposal, Review
from dashboard.approvals.services import approve_proposal, prepare_proposal, submit_dataflow
from dashboard.approvals.services.reviewing import AlreadyReviewed
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import NameTaken
from dashboard.operations.estate import load_estate
from dashboard.operations.models import EstateState
from scheduler.model.errors import InvalidTransition, StalePlan
from tests.dashboard.building import World, document, planned

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Run all at the same moment, each on a connection of its own; results and exceptions in order."""
    barrier = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return act()
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def test_of_two_approved_at_once_one_goes_stale(committed_world: World):
    world = committed_world
    one = planned(world.carla, world.city, document("traffic"))
    two = planned(world.mo, world.mobility, document("jams", window=20))
    outcomes = at_once(
        lambda: approve_proposal(actor=world.ana, proposal_id=one.pk, digest=one.plan.digest),
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
        *(lambda one=one: prepare_proposal(proposal_id=one.pk) for one in waiting),
    )
    generation = EstateState.objects.get().generation
    for proposal in Proposal.objects.exclude(pk=first.pk).select_related("plan"):
        assert proposal.status in {PENDING, STALE}
        assert (proposal.plan.generation == generation) is (proposal.status == PENDING)
