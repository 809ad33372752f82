"""Streams as their newest events show them: of what runs, and of a document before it is submitted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dashboard import connector_calls, jobs
from dashboard.catalog.document_checks import columns_in, parse_document
from dashboard.explorer.merged import tasks_for
from dashboard.explorer.source_looks import why_nothing
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.estate_store.readable import require_readable
from dashboard.plans.team_containment import containment_of
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from scheduler.model.columns import Columns
from scheduler.model.dataflow import Dataflow, Task
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.ports import EstateView
from scheduler.model.secrets import with_scoped_secrets
from scheduler.model.task_types import TaskType
from scheduler.reuse.activity import is_working
from scheduler.reuse.containment import contain
from scheduler.reuse.merge import merge

EVENTS, MOST_EVENTS = 5, 50
RUNS, RESTS, RECORDED, NOT_YET = "running", "paused", "recorded", "not_yet"


@dataclass(frozen=True, slots=True)
class ShownStream:
    """The events to show of the stream of a document's task.

    ``state``: ``running`` (``running`` is the running task, whose newest events `stream_events` gives), ``paused``
    (such a task rests), ``recorded`` (``events`` are the first that its recording holds) or ``not_yet``. ``note`` and
    ``remedy`` say why there are no events and what to do for some. ``look`` is empty, or names what `begin_look` would
    look at: the same for as long as the source is.
    """

    task: str
    type: str
    state: str
    columns: Columns
    running: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    remedy: str = ""
    look: str = ""


def stream_events(viewer: Viewer, task_id: str, *, count: int = EVENTS) -> jobs.NewestEvents:
    """The newest events of a running task's stream, the newest first.

    Raises
    ------
    NotFound
        No such task runs, as far as the viewer may know.
    PermissionDenied
        What it is made of is read with the credential of a team that they are not in.
    BrokerAway
        The broker does not answer.
    """
    return jobs.newest_events(tapped_stream(viewer, task_id), count=count)


def tapped_stream(viewer: Viewer, task_id: str) -> jobs.Tapped:
    """A running task's stream as the viewer may look at it; raises as `stream_events` does."""
    if not tasks_for(viewer).filter(pk=task_id).exists():
        raise NotFound("There is no such running task.", remedy="See the estate's graph for those that run.")
    require_readable(viewer, task_id)
    estate = stored_estate()
    fragment_id, _position = estate.places[task_id]
    fragment, declared = estate.fragments[fragment_id], jobs.task_types().get(estate.tasks[task_id].type)
    is_output = declared is not None and declared.terminal == "output"
    leaving = [bundle.id for bundle in fragment.queries if bundle.leaving]
    before = [name for bundle in fragment.queries for name in fragment.inherited_by(bundle)[0]]
    return jobs.Tapped(
        task_id, [bundle.id for bundle in fragment.queries if not bundle.leaving],
        earlier=[*leaving, *before], retained_in=fragment.channels_of(task_id) if is_output else ())


def streams_of(team: Team, text: str, *, format: str | None = None) -> list[ShownStream]:
    """The streams of a document that may be submitted for a team, in its order.

    Parameters
    ----------
    team : Team
        A running task is shown where this team's dataflow would share it.
    """
    dataflow = parse_document(text, format=format)
    columns = columns_in(text, format=format)
    estate = stored_estate()
    joined = _joined(estate, dataflow, team)
    return [
        _stream(estate, task, columns[task.id].outputs if task.id in columns else Columns.unknown(),
                joined.get(task.id, ""))
        for task in dataflow.tasks]


def _joined(estate: EstateView, dataflow: Dataflow, team: Team) -> Mapping[str, str]:
    """The document's tasks that run already, as planning finds them, with what executes each."""
    types = jobs.task_types()
    scope = team.slug if dataflow.visibility == "private" else ""
    alone = with_scoped_secrets(dataflow, team=team.slug, task_types=types)
    contained = contain(
        estate.tasks, alone, task_types=types, containment=containment_of(team), scope=scope,
        works=partial(is_working, estate))
    return merge(estate.tasks, contained.dataflow, task_types=types, scope=scope).joined


def _stream(estate: EstateView, task: Task, columns: Columns, running: str) -> ShownStream:
    if running and is_working(estate, running):
        return ShownStream(task.id, task.type, RUNS, columns, running=running)
    declared = jobs.task_types()[task.type]
    if running:
        return ShownStream(
            task.id, task.type, RESTS, columns, running=running, note="This task is paused.",
            remedy="Its events show here when a dataflow that uses it resumes, or when this one runs.",
            look=_looked_at(task, declared))
    if declared.kind != "source":
        return ShownStream(
            task.id, task.type, NOT_YET, columns, note="This task does not run yet.",
            remedy="Its events show here as soon as it runs.")
    return _source(task, declared, columns)


def _source(task: Task, declared: TaskType, columns: Columns) -> ShownStream:
    if declared.connector is not None:
        look = _looked_at(task, declared)
        note, remedy = why_nothing(declared) if not look else (
            "This live source is not read yet.", "Look at it for its newest events, or let a dataflow with it run.")
        return ShownStream(task.id, task.type, NOT_YET, columns, note=note, remedy=remedy, look=look)
    try:
        events = jobs.first_events(declared, task.config, EVENTS)
    except WeirError as error:
        return ShownStream(task.id, task.type, NOT_YET, columns, note=error.message, remedy=error.remedy)
    if events is None:
        return ShownStream(
            task.id, task.type, NOT_YET, columns, note="This source does not run yet.",
            remedy="Look at it for the first events that it would make, or let a dataflow with it run.",
            look=_looked_at(task, declared))
    return ShownStream(task.id, task.type, RECORDED, columns, events=events)


def _looked_at(task: Task, declared: TaskType) -> str:
    """The source of a look, as a short name; empty where nothing looks."""
    if not connector_calls.shows_before_it_runs(declared):
        return ""
    text = json.dumps([task.type, dict(task.config)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
