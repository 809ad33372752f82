"""Adopting a near miss: a new version of the dataflow, with a running task's values, in place of the one proposed."""

from __future__ import annotations

from uuid import UUID

from dashboard.approvals.lifecycle import CANCELLED
from dashboard.approvals.models import Proposal
from dashboard.approvals.near_miss_search import changed_text, near_misses_of, version_of
from dashboard.approvals.permissions import proposal_for
from dashboard.approvals.proposal_states import move_proposal
from dashboard.approvals.services.submission import submit_dataflow
from dashboard.audit.trail import audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.dataflow_states import move_dataflow
from dashboard.catalog.document_checks import parse_document
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role
from scheduler.model.errors import WeirError


class NoSuchNearMiss(WeirError):
    """The offer of a near miss is no longer valid."""

    code = "no_such_near_miss"


def adopt_near_miss(*, actor: User, proposal_id: UUID | str, key: str) -> Proposal:
    """Submit a new version that takes over what a near miss offers; the proposal for the old one is cancelled.

    Parameters
    ----------
    actor : User
        At least engineer in the dataflow's team.
    key : str
        ``NearMiss.key`` of the offer.

    Raises
    ------
    NoSuchNearMiss
        The estate moved on, and it is no longer offered; nothing is changed.
    """
    with audited(actor=actor, verb="proposal.adopt_near_miss") as audit:
        lock_generation()
        viewer = audit.viewer
        old = proposal_for(viewer, proposal_id, for_update=True)
        record = old.dataflow
        require_role(viewer, record.team, Role.ENGINEER)
        miss = next((miss for miss in near_misses_of(old) if miss.key == key), None)
        if miss is None:
            raise NoSuchNearMiss(
                "What runs has changed: this is no longer offered.", remedy="Reload the page to see what is.", key=key)
        version = version_of(old)
        format = "json" if version.format == "json" else "yaml"
        edited = changed_text(
            version.text, parse_document(version.text, format=format), miss, format=format)
        move_proposal(old, CANCELLED)
        move_dataflow(record, dataflows.WITHDRAWN)
        proposal = submit_dataflow(actor=actor, team=record.team, text=edited.text, format=format)
        audit.subject, audit.team = old, record.team
        audit.details = {
            "adopted": miss.text, "proposal": str(proposal.pk), "version": proposal.dataflow.version,
            "text_kept": edited.in_place}
        return proposal
