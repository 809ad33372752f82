"""Looks at live sources of a document that do not run: their newest events, read by a node while somebody waits.

A look runs without a plan, so that nobody reviews it. It only reads, on hosts that the operator allows; and a team's
credential goes with it to nowhere else than where an approver has let it go (`_require_credential`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from dashboard import connector_calls, jobs
from dashboard.audit.trail import audited
from dashboard.catalog.document_checks import parse_document
from dashboard.operations.models import RunningTaskRow
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import Viewer, require_role, viewer_of
from dashboard.teams.team_secrets import require_secrets
from scheduler.contracts.looks import ColumnProposal, LookOrder, Unread
from scheduler.model.dataflow import Task
from scheduler.model.errors import NotFound, PermissionDenied, WeirError
from scheduler.model.secrets import SECRET, secrets_of, with_scoped_secrets
from scheduler.model.task_types import TaskType

ID = re.compile(r"[0-9a-f]{32}")
# What of a source's config says how events are read and which, and not from where nor as whom. What is not named here
# may lead elsewhere.
HARMLESS = frozenset({
    "qos", "format", "include", "columns", "time_field", "time_unit", "time_zone", "ahead", "keep_dead", "start",
    "column", "every", "header", "late"})
DATABASE = "database"  # the effect of sources that ask for columns of a table


class NothingToLookAt(WeirError):
    """The task has no events outside to look at: it is no live source, or a source that events are posted to."""

    code = "nothing_to_look_at"


class NoNodeReports(WeirError):
    """No node's agent reports, so that nobody can look."""

    code = "no_node_reports"


@dataclass(frozen=True, slots=True)
class Look:
    """The progress and the events of a look.

    ``state`` is ``ordered``, ``taken``, ``looking``, ``done`` or ``failed``; ``code``, ``message`` and ``remedy`` say
    why it failed. ``events`` are the newest first, ``unread`` what could not be read, ``too_large`` how many events
    are left out for their size. ``proposal`` is what a look that was asked to proposes as columns; its events are
    decoded by it.
    """

    id: str
    state: str
    is_over: bool
    code: str = ""
    message: str = ""
    remedy: str = ""
    types: dict[str, str | None] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    unread: tuple[Unread, ...] = ()
    too_large: int = 0
    proposal: ColumnProposal | None = None


def begin_look(
    *, actor: User, team: Team, text: str, format: str | None = None, task_id: str, proposes: bool = False
) -> str:
    """Let a node look at a live source of a document, in the place of what the actor looked at before; the look's id.

    Parameters
    ----------
    actor : User
        The author: an engineer of the team.
    proposes : bool, optional
        True if columns are to be proposed, whatever columns the document names.

    Raises
    ------
    PermissionDenied
        The actor is no engineer of the team, or may not send its credential there.
    InvalidDataflow
        The document has problems, or names secrets that the team does not have.
    NothingToLookAt
        The task is no live source, or has no events before it runs.
    NoNodeReports, BrokerAway
        Nobody can look now.
    """
    viewer = viewer_of(actor)
    require_role(viewer, team, Role.ENGINEER)
    dataflow = parse_document(text, format=format)
    if all(task.id != task_id for task in dataflow.tasks):
        raise NotFound(f"The document has no task {task_id[:80]}.", remedy="Name one of its sources.")
    types = jobs.task_types()
    alone = replace(dataflow, tasks=(dataflow.task(task_id),), streams=())
    task = with_scoped_secrets(alone, team=team.slug, task_types=types).tasks[0]
    declared = types[task.type]
    if not connector_calls.shows_before_it_runs(declared):
        note, remedy = why_nothing(declared)
        raise NothingToLookAt(note, remedy=remedy, task=task_id)
    require_secrets(team, alone)
    names = sorted({reference[SECRET] for _, reference in secrets_of(task.config, declared)})
    if names:
        _require_credential(viewer, team, task, declared, proposes=proposes)
    node = _node()
    order = LookOrder(secrets.token_hex(16), node, task.type, task.config, proposes=proposes)
    with audited(actor=actor, verb="source.look", subject=team, team=team) as audit:
        audit.details |= {"task": task_id, "type": task.type, "secrets": names, "node": node}
        if not names:
            audit.nothing_changed()  # it reads what anybody may who reaches it
        connector_calls.order_look(order, owner=str(actor.pk))
    return order.id


def look(viewer: Viewer, look_id: str) -> Look:
    """The progress of a look of the viewer's; who does not ask for four seconds ends it."""
    look_result = connector_calls.seen(look_id, owner=str(viewer.user_id)) if ID.fullmatch(look_id) else None
    if look_result is None:
        raise NotFound("There is no such look.", remedy="What a look has seen is kept for a minute: look again.")
    state = look_result.state
    return Look(
        look_id, state.state, state.is_over, state.code, state.message, state.remedy, look_result.types,
        look_result.events, state.unread, state.too_large, state.proposal)


def end_look(viewer: Viewer, look_id: str) -> None:
    """End a look of the viewer's own. A look that is over, or somebody else's, stays as it is."""
    if ID.fullmatch(look_id):
        connector_calls.cancel_look(look_id, owner=str(viewer.user_id))


def why_nothing(declared: TaskType) -> tuple[str, str]:
    """The reason why a task shows no events before it runs, and a remedy."""
    if declared.kind != "source" or declared.connector is None:
        return "This task reads nothing outside.", "Its events show here as soon as it runs."
    if not declared.connector:
        return ("This source has no events before it runs: they are posted to it.",
                "Its events show here when a dataflow with it runs and something is posted to its address.")
    return (f"A source of type {declared.name} shows nothing before it runs.",
            "Its events show here when a dataflow with it runs.")


def _require_credential(viewer: Viewer, team: Team, task: Task, declared: TaskType, *, proposes: bool) -> None:
    """Raise ``PermissionDenied`` where a team's credential would go where no approver has let it go.

    An approver may approve that it does. For others a source with that credential has to be in the estate, where all
    is approved, that reads from the same place, the same table, topics and files: else they could send it to a server
    of their own, or read by it what nobody let them read.
    """
    if viewer.has_role(team.pk, Role.APPROVER):
        return
    approved = RunningTaskRow.objects.filter(type=declared.name).values_list("config", flat=True)
    if not any(_reads_no_more(task.config, config, declared, proposes=proposes) for config in approved):
        raise PermissionDenied(
            "No source that runs reads that from there with this credential of the team's.",
            remedy="Let an approver of the team look first, or submit the dataflow: an approved one shows its events "
            "here.", role=Role.APPROVER.label, team=team.slug)


def _reads_no_more(
    wanted_config: Mapping[str, Any], approved: Mapping[str, Any], declared: TaskType, *, proposes: bool
) -> bool:
    """True if a look leads nowhere but where an approved source leads, and reads no column of a table that it does not.

    Elsewhere columns only say how a message is decoded, and all of the message was approved.
    """
    if _place(wanted_config, declared) != _place(approved, declared):
        return False
    if DATABASE not in declared.effects:
        return True
    names, approved_names = connector_calls.columns_read(wanted_config), connector_calls.columns_read(approved)
    return not proposes and bool(names) and names <= approved_names


def _place(config: Mapping[str, Any], declared: TaskType) -> dict[str, Any]:
    """The target of a config, and its identity there."""
    harmless = HARMLESS - {"column"} if DATABASE in declared.effects else HARMLESS
    values = {parameter.name: parameter.default for parameter in declared.parameters} | dict(config)
    return {name: value for name, value in values.items() if name not in harmless}


def _node() -> str:
    """A node that reports: this machine's own, where it does."""
    reading = jobs.read_live((), {})
    if not reading.available:
        raise jobs.BrokerAway(f"{reading.reason} Nobody can look until then.", remedy="Try again soon.")
    names = sorted(name for name, _ in reading.reports.items())
    if not names:
        raise NoNodeReports("No node reports, so nobody can look.", remedy="Start one: `./weir up`, or see its log.")
    return settings.LOCAL_NODE if settings.LOCAL_NODE in names else names[0]
