"""Queries of a dataflow that fail: in which of its tasks, why, whether they are still retried, and the traceback."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.readable import may_read_all
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.query_states import GAVE_UP
from dashboard.teams.permissions import Viewer
from scheduler.contracts.reports import FAILING, QueryReport
from scheduler.model.fragment import Fragment


@dataclass(frozen=True, slots=True)
class Failure:
    """One query that fails.

    ``tasks`` are those of the dataflow in the query, ``failed`` those of them that the error was in, as far as that can
    be told. ``traceback`` may show values of events: it is None for whoever is not of the dataflow's team, or may not
    read what leaves one of the query's tasks.
    """

    query: str
    slot: str
    tasks: list[str]
    failed: list[str]
    error: str
    traceback: str | None
    failures: int
    gave_up: bool
    retry_at_ms: int | None
    since_ms: int


def failures(viewer: Viewer, dataflow_id: UUID | str) -> list[Failure]:
    """The failing queries that a dataflow works in; ``NotFound`` where the viewer may not know of it."""
    record = dataflow_for(viewer, dataflow_id)
    view, key = view_for(viewer), str(record.pk)
    if key not in view.records:
        return []
    may_see = viewer.sees_private_of(record.team_id)
    return [
        _failure(view, key, fragment, query_id, slot, report, may_see=may_see and may_read_all(
            viewer, view.estate, fragment.active_tasks))
        for fragment in view.fragments() if key in {user["id"] for user in view.users(fragment.active_tasks)}
        for query_id, slot, report in _failing(view, fragment)]


def failed_tasks(fragment: Fragment, report: QueryReport) -> frozenset[str]:
    """The running tasks of a failing fragment that the error was in; all that work where that cannot be told."""
    if report.state not in (FAILING, GAVE_UP):
        return frozenset()
    return frozenset(report.failed_tasks) & set(fragment.tasks) or frozenset(fragment.active_tasks)


def _failing(view: View, fragment: Fragment) -> list[tuple[str, str, QueryReport]]:
    reports = [(bundle.id, bundle.slot, view.bundle_report(bundle)) for bundle in fragment.queries]
    return [(query_id, slot, report) for query_id, slot, report in reports if report.state in (FAILING, GAVE_UP)]


def _failure(
    view: View, dataflow_id: str, fragment: Fragment, query_id: str, slot: str, report: QueryReport, *, may_see: bool
) -> Failure:
    named = {running: name for name, running in view.estate.submitted[dataflow_id].running.items()}
    return Failure(
        query=query_id, slot=slot, tasks=[named[task] for task in fragment.active_tasks if task in named],
        failed=[named[task] for task in report.failed_tasks if task in named],
        error=view.in_words(report.error or "The query fails.", dataflow_id),
        traceback=view.in_words(report.traceback, dataflow_id) if may_see else None,
        failures=report.failures, gave_up=report.gave_up, retry_at_ms=report.retry_at_ms, since_ms=report.since_ms)
