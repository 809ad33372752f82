"""Live sources of a dataflow: how each stands, where it is posted to, and what of it could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from dashboard import connector_calls, jobs
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.estate_store.readable import require_readable
from dashboard.operations.live_view.estate_view import View, sum_rate
from dashboard.operations.live_view.live_documents import LiveSource
from dashboard.teams.permissions import Viewer
from scheduler.contracts.reports import ConnectorReport
from scheduler.model.errors import NotFound
from scheduler.model.fragment import Fragment, node_of
from scheduler.model.secrets import TEAM, is_reference

MOST_LETTERS = 200


@dataclass(frozen=True, slots=True)
class DeadLetterEntry:
    """A message that could not be read: when it came, why, where it was, and how it begins."""

    at: datetime
    reason: str
    place: str
    sample: str


def sources_of(view: View, dataflow_id: str) -> dict[str, LiveSource]:
    """The live sources of a dataflow of the view, by submitted task id."""
    sources = {}
    for task, running in view.estate.submitted[dataflow_id].running.items():
        declared = jobs.task_types().get(view.estate.tasks[running].type)
        if declared is None or declared.connector is None:
            continue
        fragment = view.estate.fragments[view.estate.places[running][0]]
        report = report_of(view, fragment)
        sources[task] = LiveSource(
            type=declared.name,
            state="paused" if fragment.paused else report.state if report else "unknown",
            error=report.error if report and dataflow_id in view.own_ids else None,
            retry_at_ms=report.retry_at_ms if report else None,
            restarts=report.restarts if report else 0,
            events=report.events if report else None,
            dead=report.dead if report else None,
            rate_per_s=sum_rate(view, [running]),
            at_ms=report.at_ms if report else None,
            address=None if declared.connector else address_of(view.estate.tasks[running].config))
    return sources


def report_of(view: View, fragment: Fragment) -> ConnectorReport | None:
    """The report of its node on the live source that a fragment begins with; None without one, or from a silent
    node."""
    if view.node_report(node_of(fragment.slot)) is None:
        return None
    return view.reading.reports.connector(fragment.slot, fragment.tasks[0])


def address_of(config: Any) -> str | None:
    """The path that a source is posted to."""
    token = config.get("token")
    return f"/ingest/{token.get(TEAM, '')}/{config['name']}" if is_reference(token) else None


def dead_letters(
    viewer: Viewer, dataflow_id: UUID | str, task_id: str, *, count: int = 50
) -> list[DeadLetterEntry]:
    """The newest messages that a live source of a dataflow could not read, newest first."""
    record = dataflow_for(viewer, dataflow_id)
    estate = current_estate()
    submitted = estate.submitted.get(str(record.pk))
    running = submitted.running.get(task_id) if submitted else None
    declared = jobs.task_types().get(estate.tasks[running].type) if running else None
    if declared is None or declared.connector is None:
        raise NotFound("This dataflow has no such live source.", remedy="See its sources while it runs.")
    require_readable(viewer, running)
    return [
        DeadLetterEntry(
            datetime.fromtimestamp(letter.at_ms / 1000, UTC), letter.reason, letter.place,
            letter.sample.decode(errors="replace"))
        for letter in connector_calls.dead_letters(running, max(1, min(count, MOST_LETTERS)))]
