"""Proposing another version of a running dataflow: a new or an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from dashboard.approvals.lifecycle import CANCELLED
from dashboard.approvals.models import Proposal
from dashboard.approvals.proposal_states import move_proposal
from dashboard.approvals.services.submission import open_proposal, require_at_rest, require_begins_from, saved_states
from dashboard.audit.trail import Audit, audited
from dashboard.catalog.document_checks import format_of, parse_document, stored_dataflow
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.catalog.selectors import current_version, version
from dashboard.catalog.services import store_version
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.plans.joining_options import options_of
from dashboard.plans.site_plan_kinds import SITE_PLAN_KINDS
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import Viewer, require_role, viewer_of
from dashboard.teams.team_secrets import require_secrets
from scheduler.model.dataflow import Dataflow
from scheduler.model.documents import to_document
from scheduler.model.errors import NothingToGain, WeirError
from scheduler.model.plan_kinds import CHANGE


class OtherDataflow(WeirError):
    """The document is of a dataflow of another name or visibility: it is no version of this one."""

    code = "other_dataflow"


def change_dataflow(
    *, actor: User, dataflow_id: UUID | str, text: str, format: str | None = None, fresh: bool = False,
    begin: str = "now", begin_from: str = "",
) -> Proposal:
    """Store a new version of a dataflow that runs, and propose that it takes the place of the one that does.

    What is the same in both goes on untouched. A change that is proposed and not decided yet gives way to this one.

    Parameters
    ----------
    actor : User
        At least engineer in the dataflow's team.
    dataflow_id : UUID | str
        The dataflow's id; it runs, and nothing of it is being enacted.
    text, format
        The document, as for a submission. Its name and visibility are the dataflow's.
    fresh, begin
        The way in which new tasks join what is under way (`joining_options.options_of`).
    begin_from : str, optional
        The name of the team's savepoint from which the new version begins; its document may be the one that runs.

    Raises
    ------
    InvalidDataflow
        All problems of the document; nothing was stored.
    OtherDataflow
        Its name or visibility is another.
    NothingToGain
        It says what the version says that runs.
    InvalidTransition
        The dataflow does not run, or a plan for it is being enacted.
    NoSuchSavepoint, SavepointDiffers
        It cannot begin from that savepoint; nothing was stored.
    """
    viewer = viewer_of(actor)
    record = dataflow_for(viewer, dataflow_id)
    require_role(viewer, record.team, Role.ENGINEER)
    saved, dataflow = saved_states(record.team, begin_from), parse_document(text, format=format)
    options = options_of(fresh=fresh, begin=begin, begin_from=saved.id if saved else "")
    require_secrets(record.team, dataflow)
    if saved is not None:
        require_begins_from(saved, dataflow, record.team)
    with audited(actor=actor, verb="dataflow.propose_change") as audit:
        lock_generation()
        record = _changeable(audit.viewer, dataflow_id)
        _require_version_of(record, dataflow, again=saved is not None)
        stored = store_version(
            actor=actor, record=record, dataflow=dataflow, text=text, format=format or format_of(text))
        return _propose(audit, record, stored.number, options)


def propose_version(*, actor: User, dataflow_id: UUID | str, number: int) -> Proposal:
    """Propose that a dataflow that runs goes back, or forward, to a version that it has.

    Parameters
    ----------
    actor : User
        At least engineer in the dataflow's team.
    """
    with audited(actor=actor, verb="dataflow.propose_change") as audit:
        lock_generation()
        viewer = audit.viewer
        record = _changeable(viewer, dataflow_id)
        _require_version_of(record, stored_dataflow(version(record, number).document))
        return _propose(audit, record, number, options_of())


def _changeable(viewer: Viewer, dataflow_id: UUID | str) -> DataflowRecord:
    """The dataflow, locked, where the viewer may change it now."""
    record = dataflow_for(viewer, dataflow_id)
    require_role(viewer, record.team, Role.ENGINEER)
    record = DataflowRecord.objects.select_for_update(of=("self",)).select_related("team", "author").get(pk=record.pk)
    require_at_rest(record, SITE_PLAN_KINDS[CHANGE.name].proposed_from, CHANGE.name)
    return record


def _require_version_of(record: DataflowRecord, dataflow: Dataflow, *, again: bool = False) -> None:
    if dataflow.name != record.name:
        raise OtherDataflow(
            f"The document is of {dataflow.name!r}, and this dataflow is {record.name!r}.",
            remedy="Keep the name, or submit it as another dataflow.", name=dataflow.name)
    if dataflow.visibility != record.visibility:
        raise OtherDataflow(
            f"{record.name} is {record.visibility}, and its new version would be {dataflow.visibility}: none of its "
            "tasks could go on, and other people would see it.",
            remedy="Keep the visibility, or remove the dataflow and submit it again.", visibility=dataflow.visibility)
    if not again and to_document(dataflow) == current_version(record).document:
        raise NothingToGain(
            f"Version {record.version}, which runs, says the same.", remedy="There is nothing to change.",
            dataflow=str(record.pk))


def _propose(audit: Audit, record: DataflowRecord, number: int, options: Mapping[str, Any]) -> Proposal:
    for older in Proposal.objects.open().filter(dataflow=record, plan__kind=CHANGE.name).select_related(
            "dataflow__team"):
        move_proposal(older, CANCELLED)
        audit.also(verb="proposal.give_up", subject=older, team=record.team)
    proposal = open_proposal(audit, record, CHANGE.name, options=options, version=number)
    audit.subject, audit.team = record, record.team
    audit.details = {"proposal": str(proposal.pk), "version": number, "former": record.version}
    return proposal
