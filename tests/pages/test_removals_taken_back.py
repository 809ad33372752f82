"""A removal that is rolled back brings the dataflow back by the schedule that it ran by, and the pages say that one."""

from __future__ import annotations

import pytest

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal, propose_schedule, remove_dataflow, roll_back_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.selectors import plan_of
from dashboard.schedules.promises import in_force
from tests.dashboard.building import World, approved, enacted, running
from tests.pages.conftest import ClientOf
from tests.pages.observed import Observed
from tests.pages.outcomes import page_of, schedule_on
from tests.pages.scheduling import linear, measured


def rescheduled(world: World, record: DataflowRecord, *, rate: float) -> Proposal:
    proposal = propose_schedule(
        actor=world.carla, dataflow_id=record.pk, choice=ScheduleChoice.of(pair=("MBA", "SAM"), rate_per_s=rate))
    return enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana))


def taken_back(world: World, record: DataflowRecord) -> Proposal:
    """A removal that was begun and rolled back."""
    removal = prepare_proposal(proposal_id=remove_dataflow(actor=world.carla, dataflow_id=record.pk).pk)
    approved(removal, world.ana)
    return enacted(roll_back_proposal(actor=world.ana, proposal_id=removal.pk))


def bundles(record: DataflowRecord) -> set[str]:
    """Those that run of its tasks."""
    estate = load_estate()
    return {
        bundle.id for running_task in estate.submitted[str(record.pk)].running.values()
        for bundle in estate.fragments[estate.places[running_task][0]].queries}


def test_it_comes_back_by_the_schedule_that_it_was_given_last(
    world: World, client_of: ClientOf, observed: Observed
) -> None:
    record = observed.record
    second = rescheduled(world, record, rate=90)
    removal = taken_back(world, record)
    in_effect = in_force([record.pk])[str(record.pk)]
    assert (in_effect.proposal_id, in_effect.promise.rate_per_s) == (removal.pk, 90)
    assert {bundle.id for bundle in in_effect.promise.bundles} == bundles(record), "what is promised is what runs"
    page = page_of(client_of, record)
    assert schedule_on(page) == ("MBA-SAM", 90) and "too-soon" in page.notes
    assert "replaced" in page_of(client_of, record, proposal=second).notes
    runs = client_of("carla").get(f"/api/dataflows/{record.pk}/schedule/runs").json()
    assert [(run["proposal"], run["rate_per_s"], run["in_force"]) for run in runs] == [
        (str(removal.pk), 90, True), (str(second.pk), 90, False),
        (str(Proposal.objects.get(dataflow=record, plan__kind="submit").pk), 190, False)]
    back = Observed(record, in_effect.promise, observed.patch, at=observed.at)
    back.keep()
    for proposal in (None, removal):
        assert "keeps" in page_of(client_of, record, proposal=proposal).notes


def test_one_that_was_submitted_without_a_schedule_comes_back_by_its_first(world: World) -> None:
    measured(world, slots=16)
    record = running(world.carla, world.city, linear(), world.ana)
    rescheduled(world, record, rate=90)
    taken_back(world, record)
    assert in_force([record.pk])[str(record.pk)].promise.rate_per_s == 90
    assert {bundle.id for bundle in in_force([record.pk])[str(record.pk)].promise.bundles} == bundles(record)


@pytest.mark.parametrize("removed_before", [False, True])
def test_one_that_ran_without_a_schedule_comes_back_without(world: World, removed_before: bool) -> None:
    measured(world, slots=16)
    record = running(world.carla, world.city, linear(), world.ana)
    if removed_before:
        taken_back(world, record)
    removal = taken_back(world, record)
    assert in_force([record.pk]) == {} and plan_of(removal.rollback_plan).promise is None


@pytest.mark.long  # the test of one that was given a schedule last takes one back
def test_it_may_be_removed_and_taken_back_again(world: World, observed: Observed) -> None:
    record = observed.record
    rescheduled(world, record, rate=90)
    taken_back(world, record)
    again = taken_back(world, record)
    in_effect = in_force([record.pk])[str(record.pk)]
    assert (in_effect.proposal_id, in_effect.promise.rate_per_s) == (again.pk, 90)
