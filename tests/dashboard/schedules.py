"""Dataflows that run by schedules, as the tests make them."""

from __future__ import annotations

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    prepare_proposal,
    propose_schedule,
    submit_dataflow,
)
from dashboard.catalog.models import DataflowRecord
from dashboard.plans.choices import ScheduleChoice
from tests.dashboard.building import World, approved, enacted
from tests.pages.scheduling import linear

SAM = ScheduleChoice.of(pair=("MBA", "SAM"))


def at(rate_per_s: float, pair=("MBA", "SAM"), routing: str = "slot_aware") -> ScheduleChoice:
    return ScheduleChoice.of(pair=pair, rate_per_s=rate_per_s, routing=routing)


def proposed(
    world: World, choice: ScheduleChoice | None, *, name: str = "linear", rate: float = 50, **extra
) -> Proposal:
    """A submission with this schedule, its plan before the reviewers."""
    proposal = submit_dataflow(
        actor=world.carla, team=world.city, text=linear(name, rate=rate, **extra), schedule=choice)
    return prepare_proposal(proposal_id=proposal.pk)


def scheduled(world: World, choice: ScheduleChoice = SAM, **extra) -> DataflowRecord:
    """A dataflow that runs by this schedule."""
    return enacted(approved(proposed(world, choice, **extra), world.ana)).dataflow


def rescheduled(world: World, record: DataflowRecord, choice: ScheduleChoice) -> Proposal:
    """Another schedule for it, its plan before the reviewers."""
    proposal = propose_schedule(actor=world.carla, dataflow_id=record.pk, choice=choice)
    return prepare_proposal(proposal_id=proposal.pk)
