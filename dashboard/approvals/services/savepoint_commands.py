"""Named savepoints: taking one of a dataflow that runs, and deleting one."""

from __future__ import annotations

import secrets
from uuid import UUID

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services.submission import require_status
from dashboard.audit.trail import audited
from dashboard.catalog.document_checks import stored_dataflow
from dashboard.catalog.lifecycle import RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.catalog.selectors import current_version
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.estate_store.generation import lock_generation, revise
from dashboard.savepoint_records.models import SavepointRow
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role
from dashboard.teams.team_limits import SAVEPOINTS, require_room
from scheduler.exact_savepoints import savepoint_of
from scheduler.model.errors import InvalidTransition, NotFound, WeirError
from scheduler.model.fragment import node_of
from scheduler.model.names import require_plain
from scheduler.model.saved_states import SavedIdentity
from scheduler.model.secrets import with_scoped_secrets

LONGEST_NAME, LONGEST_NOTE = 80, 300


class SavepointNameTaken(WeirError):
    """The team has a savepoint of that name."""

    code = "savepoint_name_taken"


def take_savepoint(*, actor: User, dataflow_id: UUID | str, name: str, note: str = "") -> SavepointRow:
    """Ask the query of a running dataflow for its states, under a name, while it works on; by an engineer of its team.

    Parameters
    ----------
    name : str
        Of 1 to 80 characters; the team has no other savepoint of that name.

    Raises
    ------
    NoExactSavepoint
        Its states would not be of one moment (`scheduler.exact_savepoints`).
    InvalidTransition
        The dataflow does not run.
    TeamLimitReached
        The team has as many savepoints as it may have.
    SavepointNameTaken, NameNotPlain
        The name is in use, or cannot be one.
    """
    name = require_plain(name.strip(), what="The savepoint's name", most=LONGEST_NAME)
    note = note.strip() and require_plain(note.strip(), what="The note", most=LONGEST_NOTE)
    with audited(actor=actor, verb="savepoint.take") as audit:
        lock_generation()
        viewer = audit.viewer
        record = dataflow_for(viewer, dataflow_id)
        require_role(viewer, record.team, Role.ENGINEER)
        savepoints = SavepointRow.objects.filter(team=record.team)
        if savepoints.filter(name=name).exists():
            raise SavepointNameTaken(
                f"{record.team.name} has a savepoint {name} already.", remedy="Give another name, or delete that one.")
        require_room(SAVEPOINTS, owner=record.team.name, taken=savepoints.count())
        fragment, node, tasks = exact_savepoint(record)
        row = SavepointRow.objects.create(
            id=f"{node}-{secrets.token_hex(4)}", team=record.team, name=name, note=note, dataflow=record,
            version=record.version, taken_by=actor, node=node, fragment=fragment, tasks=tasks)
        revise()
        jobs.republish()
        audit.subject, audit.team = row, record.team
        audit.details = {"name": name, "dataflow": str(record.pk), "version": record.version, "query": fragment}
        return row


def exact_savepoint(record: DataflowRecord) -> tuple[str, str, dict[str, SavedIdentity]]:
    """The query that would leave a savepoint of a dataflow, its node, and what its tasks are; raises where none would
    be exact (`take_savepoint`)."""
    require_status(record, {RUNNING}, "take a savepoint of")
    types, estate = jobs.task_types(), stored_estate()
    dataflow = with_scoped_secrets(
        stored_dataflow(current_version(record).document), team=record.team.slug, task_types=types)
    fragment, tasks = savepoint_of(estate, dataflow, dataflow_id=str(record.pk), task_types=types)
    return fragment, node_of(estate.fragments[fragment].slot), tasks


def delete_savepoint(*, actor: User, dataflow_id: UUID | str, savepoint_id: str) -> None:
    """Delete a named savepoint, by an engineer of its team; its node deletes the part as soon as it hears of it.

    Raises
    ------
    NotFound
        The dataflow has no such savepoint.
    InvalidTransition
        A submission that waits, or is being enacted, begins from it.
    """
    with audited(actor=actor, verb="savepoint.delete") as audit:
        lock_generation()
        viewer = audit.viewer
        record = dataflow_for(viewer, dataflow_id)
        require_role(viewer, record.team, Role.ENGINEER)
        row = SavepointRow.objects.filter(dataflow=record, pk=savepoint_id).first()
        if row is None:
            raise NotFound("There is no such savepoint.", remedy="See the dataflow's list of savepoints.")
        begins = Proposal.objects.filter(plan__options__begin_from=row.pk)
        needed = begins.open().first() or begins.under_way().first()
        if needed is not None:
            raise InvalidTransition(
                f"A proposal of {needed.dataflow.name} begins from savepoint {row.name}, and has not begun.",
                remedy="Cancel it, or wait until it runs.", proposal=str(needed.pk))
        audit.subject, audit.team = row, record.team
        audit.details = {"name": row.name, "node": row.node, "query": row.fragment}
        revise()
        jobs.republish()
        SavepointRow.objects.filter(pk=row.pk).delete()
