"""Proposals to pause and resume, as the tests make them, and the slots in use."""

from __future__ import annotations

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    pause_dataflow,
    prepare_proposal,
)
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from tests.dashboard.building import World, approved, enacted


def prepared(proposal: Proposal) -> Proposal:
    return prepare_proposal(proposal_id=proposal.pk)


def status(record: DataflowRecord) -> str:
    return DataflowRecord.objects.get(pk=record.pk).status


def paused(world: World, record: DataflowRecord) -> Proposal:
    return enacted(approved(prepared(pause_dataflow(actor=world.carla, dataflow_id=record.pk)), world.ana))


def used() -> set[str]:
    return {bundle.slot for fragment in load_estate().fragments.values() for bundle in fragment.queries}
