"""Sinks of a dataflow that write to other systems: how each stands, what was refused, and writing it again."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from uuid import UUID

from dashboard import connector_calls, jobs
from dashboard.audit.trail import audited
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.core.http_errors import BadInput
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.estate_store.readable import require_readable
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.live_documents import LiveSink
from dashboard.operations.live_view.live_sources import MOST_LETTERS, DeadLetterEntry
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import Viewer, require_role, viewer_of
from scheduler.contracts.reports import SinkReport
from scheduler.model.errors import NotFound, NothingToChange
from scheduler.model.fragment import Fragment, node_of

REFUSED, SINCE = "refused", "since"


def sinks_of(view: View, dataflow_id: str) -> dict[str, LiveSink]:
    """The sinks of a dataflow of the view that write to other systems, by submitted task id."""
    sinks = {}
    for task, running in view.estate.submitted[dataflow_id].running.items():
        declared = jobs.task_types().get(view.estate.tasks[running].type)
        if declared is None or declared.writer is None:
            continue
        report = report_of(view, view.estate.fragments[view.estate.places[running][0]], running)
        facts = asdict(report or SinkReport(state="unknown")) | {"type": declared.name}
        facts["error"] = facts["error"] if dataflow_id in view.own_ids else None
        sinks[task] = LiveSink(**{name: facts[name] for name in LiveSink.__annotations__})
    return sinks


def report_of(view: View, fragment: Fragment, running: str) -> SinkReport | None:
    """The report of its node on a sink; None without one, or from a silent node."""
    if view.node_report(node_of(fragment.slot)) is None:
        return None
    return view.reading.reports.sink(fragment.slot, running)


def refused_events(viewer: Viewer, dataflow_id: UUID | str, task_id: str, *, count: int = 50) -> list[DeadLetterEntry]:
    """The newest events that the other system of a sink refused, newest first."""
    running, channel = _running_and_channel(dataflow_for(viewer, dataflow_id), task_id)
    require_readable(viewer, running)
    return [
        DeadLetterEntry(
            datetime.fromtimestamp(letter.at_ms / 1000, UTC), letter.reason, letter.place,
            letter.sample.decode(errors="replace"))
        for letter in connector_calls.refused_events(channel, max(1, min(count, MOST_LETTERS)))]


def write_again(
    *, actor: User, dataflow_id: UUID | str, task_id: str, extent: str, since: str = "", understood: bool = False
) -> None:
    """Let a sink write again what is kept: what was refused, or all since a time, which may stand there twice then.

    Parameters
    ----------
    actor : User
        An engineer of the dataflow's team.
    extent : str
        ``refused``, or ``since``.
    since : str
        The time from which events are written again, in ISO 8601; empty for all that are kept.
    understood : bool
        True if the caller accepts that events may stand there twice; needed for ``since``.

    Raises
    ------
    BrokerAway
        The sink cannot be told.
    BadInput
        Nobody said that events may stand there twice, or the time is none.
    NotFound
        There is no such sink for them.
    NothingToChange
        Nothing was refused.
    PermissionDenied
        The actor is no engineer of its team.
    """
    viewer = viewer_of(actor)
    record = dataflow_for(viewer, dataflow_id)
    require_role(viewer, record.team, Role.ENGINEER)
    _, channel = _running_and_channel(record, task_id)
    since_ms = _since_ms(extent, since, understood)
    if extent == REFUSED and not connector_calls.refused_events(channel, 1):
        raise NothingToChange("Nothing is kept that was refused.", remedy="There is nothing to write again.")
    with audited(actor=actor, verb="dataflow.write_again", subject=record, team=record.team) as audit:
        audit.details = {"task": task_id, "what": extent, **({"since": since} if since else {})}
        connector_calls.write_again(channel, extent, since_ms)


def _since_ms(extent: str, since: str, understood: bool) -> int | None:
    if extent == REFUSED:
        return None
    if extent != SINCE:
        raise BadInput(f"“{extent}” cannot be written again.", remedy=f"Choose {REFUSED} or {SINCE}.")
    if not understood:
        raise BadInput(
            "Events that are written again may be there twice.",
            remedy="Confirm that you understand this. A sink with a key replaces rows, so none is there twice.")
    if not since:
        return 0
    try:
        time = datetime.fromisoformat(since)
    except ValueError:
        raise BadInput(f"“{since}” is no time.", remedy="Write it as 2026-05-01T12:00:00Z.") from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _running_and_channel(record: DataflowRecord, task_id: str) -> tuple[str, str]:
    """The running task of a sink, and its channel."""
    estate = current_estate()
    submitted = estate.submitted.get(str(record.pk))
    running = submitted.running.get(task_id) if submitted else None
    declared = jobs.task_types().get(estate.tasks[running].type) if running else None
    if declared is None or declared.writer is None:
        raise NotFound("This dataflow has no such sink.", remedy="See its sinks while it runs.")
    return running, estate.channel_of(running)
