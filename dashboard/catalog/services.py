"""Storing dataflows. Submission as a whole, with its plan and proposal, is in ``dashboard.approvals.services``."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Sum

from dashboard.audit.trail import Audit, audited
from dashboard.catalog.dataflow_states import move_dataflow
from dashboard.catalog.lifecycle import AT_REST, SUBMITTED
from dashboard.catalog.models import DataflowRecord, DataflowVersion
from dashboard.catalog.permissions import dataflow_for
from dashboard.core.state_words import words
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import require_role, viewer_of
from dashboard.teams.services import InvalidValue
from dashboard.teams.team_limits import TASKS, require_room
from scheduler.model.dataflow import Dataflow
from scheduler.model.dataflow_goals import DataflowGoals, goals_json
from scheduler.model.documents import to_document
from scheduler.model.errors import InvalidDataflow, Problem, WeirError
from scheduler.model.latency_limits import Limits, to_json
from scheduler.model.latency_reading import EACH_TASK, gap_in


class NameTaken(WeirError):
    """The team has a dataflow of that name which is in use."""

    code = "name_taken"


def store_dataflow(*, actor: User, team: Team, dataflow: Dataflow, text: str, format: str) -> DataflowRecord:
    """Store a validated dataflow, or a new version of one of that name which is at rest."""
    with audited(actor=actor, verb="dataflow.store", team=team) as audit:
        # Two of one name at once queue here; other rows may go on referring to the team.
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        record = DataflowRecord.objects.select_for_update().filter(team=team, name=dataflow.name).first()
        record = _create(actor, team, dataflow) if record is None else _renew(record, dataflow)
        _require_tasks(record, more=0)  # its own are counted
        DataflowVersion.objects.create(
            dataflow=record, number=record.version, text=text, format=format, document=to_document(dataflow),
            author=actor,
        )
        _close(audit, record)
        return record


def store_version(
    *, actor: User, record: DataflowRecord, dataflow: Dataflow, text: str, format: str
) -> DataflowVersion:
    """Store a document as the next version of a dataflow; which version counts stays as it is."""
    with audited(actor=actor, verb="dataflow.store_version", subject=record, team=record.team) as audit:
        _require_tasks(record, more=len(dataflow.tasks) - record.tasks)
        version = DataflowVersion.objects.create(
            dataflow=record, number=_next_number(record), text=text, format=format, document=to_document(dataflow),
            author=actor)
        audit.details = {"version": version.number, "tasks": len(dataflow.tasks)}
        return version


def take_version(*, actor: User | None, record: DataflowRecord, number: int) -> DataflowRecord:
    """Let a version of a dataflow's document be the one that counts: it is the one that runs."""
    with audited(actor=actor, verb="dataflow.take_version", subject=record, team=record.team) as audit:
        document = DataflowVersion.objects.get(dataflow=record, number=number).document
        audit.details = {"before": record.version, "version": number}
        record.version = number
        record.description, record.tasks = document.get("description", ""), len(document["tasks"])
        record.latency_chosen, record.latency = record.chosen_after(document), document.get("latency")
        if document.get("goals") != record.goals:
            record.goals, record.goals_chosen = document.get("goals"), None
        record.save(update_fields=[
            "version", "description", "tasks", "latency", "latency_chosen", "goals", "goals_chosen"])
        return record


def choose_latency(*, actor: User, dataflow_id: UUID | str, limits: Limits | None) -> DataflowRecord:
    """Say how late a dataflow's events may be, in place of what its document says; by an engineer of its team.

    Nothing of it is restarted, and no other dataflow gets its events later: who asks for less pays for it.

    Parameters
    ----------
    limits : Limits, optional
        Empty for no limit; None for what its document says, or its team.
    """
    viewer = viewer_of(actor)
    with audited(actor=actor, verb="dataflow.choose_latency") as audit:
        record = dataflow_for(viewer, dataflow_id)
        require_role(viewer, record.team, Role.ENGINEER)
        _require_paths(record, limits or ())
        chosen = None if limits is None else to_json(limits)
        audit.subject, audit.team = record, record.team
        audit.choose(record, "latency_chosen", chosen)
        return record


def choose_goals(
    *, actor: User, dataflow_id: UUID | str, goals: DataflowGoals | None, as_document: bool = False
) -> DataflowRecord:
    """Say what adaptation is to reach for a dataflow, in place of what its document says; by an engineer of its team.

    Nothing changes by it at once: the controller of adaptation goes by it from its next decision on, as far as its team
    lets it.

    Parameters
    ----------
    goals : DataflowGoals, optional
        None for none: adaptation leaves the dataflow alone.
    as_document : bool
        True if its document's goals hold, whatever ``goals`` are.
    """
    viewer = viewer_of(actor)
    with audited(actor=actor, verb="dataflow.choose_goals") as audit:
        record = dataflow_for(viewer, dataflow_id)
        require_role(viewer, record.team, Role.ENGINEER)
        chosen = None if as_document else {} if goals is None else goals_json(goals)
        audit.subject, audit.team = record, record.team
        audit.choose(record, "goals_chosen", chosen)
        return record


def _require_paths(record: DataflowRecord, limits: Limits) -> None:
    """Raise InvalidValue where a limit is along tasks and streams that are no path of the dataflow."""
    if not any(limit.along for limit in limits):
        return
    document = record.versions.values_list("document", flat=True).get(number=record.version)
    tasks = {task["id"] for task in document["tasks"]}
    streams = {(stream["from"], stream["to"]) for stream in document["streams"]}
    for limit in limits:
        missing = [task for task in limit.path if task not in tasks]
        apart = gap_in(limit.along, streams)
        if missing:
            raise InvalidValue(f"The dataflow has no task {missing[0][:64]!r}.", remedy="Name tasks of this dataflow.")
        if apart:
            _, (source, target) = apart
            raise InvalidValue(f"No stream goes from {source} to {target}.", remedy=EACH_TASK)


def _create(actor: User, team: Team, dataflow: Dataflow) -> DataflowRecord:
    if len(dataflow.name) > 120:
        raise InvalidDataflow(problems=(Problem(
            code="name_too_long", message=f"The name has {len(dataflow.name)} characters.",
            remedy="Use at most 120.", path="/name"),))
    return DataflowRecord.objects.create(
        team=team, author=actor, name=dataflow.name, description=dataflow.description,
        visibility=dataflow.visibility, tasks=len(dataflow.tasks), latency=_asked_in(dataflow),
        goals=_goals_in(dataflow),
    )


def _require_tasks(record: DataflowRecord, *, more: int) -> None:
    in_use = DataflowRecord.objects.filter(team=record.team_id).exclude(status__in=AT_REST)
    require_room(
        TASKS, owner=record.team.name, taken=in_use.aggregate(tasks=Sum("tasks"))["tasks"] or 0, more=max(0, more))


def _renew(record: DataflowRecord, dataflow: Dataflow) -> DataflowRecord:
    if record.status not in AT_REST:
        raise NameTaken(
            f"{record.team.name} has a dataflow {record.name!r} that is {words(record.status)}.",
            remedy="Propose it as a new version of that one, give it another name, or remove the other first.",
            name=record.name, dataflow=str(record.pk), status=record.status,
        )
    record.version = _next_number(record)
    record.description, record.visibility = dataflow.description, dataflow.visibility
    record.tasks, record.latency, record.latency_chosen = len(dataflow.tasks), _asked_in(dataflow), None
    record.goals, record.goals_chosen = _goals_in(dataflow), None
    record.save(update_fields=[
        "version", "description", "visibility", "tasks", "latency", "latency_chosen", "goals", "goals_chosen"])
    move_dataflow(record, SUBMITTED)
    return record


def _asked_in(dataflow: Dataflow) -> object:
    """The document's latency limits, as its record holds them."""
    return None if dataflow.latency is None else to_json(dataflow.latency)


def _goals_in(dataflow: Dataflow) -> dict[str, float] | None:
    return None if dataflow.goals is None else goals_json(dataflow.goals)


def _next_number(record: DataflowRecord) -> int:
    """The number of a dataflow's next version. Versions that never ran are counted."""
    return (record.versions.order_by("-number").values_list("number", flat=True).first() or 0) + 1


def _close(audit: Audit, record: DataflowRecord) -> None:
    audit.subject = record
    audit.details = {"name": record.name, "version": record.version, "tasks": record.tasks}
