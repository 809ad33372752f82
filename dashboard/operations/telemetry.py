"""Writing what is observed: points of history, when nodes were seen. No state changes, so nothing is audited."""

from __future__ import annotations

from datetime import datetime, timedelta

from dashboard.operations.models import HistoryPoint, NodeRow
from dashboard.operations.nodes import take_in_nodes
from dashboard.operations.view import View, sources_and_sinks, sum_rate, totals_of, view_for
from dashboard.teams.permissions import Viewer
from scheduler.reuse.activity import is_working

EVERYTHING = Viewer(user_id=-1, roles={}, superuser=True)
KEPT = timedelta(hours=6)


def record_history(*, at: datetime) -> int:
    """Add one point for each scope of the estate and each dataflow in it, and forget old ones; how many were added."""
    view = view_for(EVERYTHING)
    points = []
    if view.reading.measured:
        points = [_scope_point(view, scope, at) for scope in sorted({t.scope for t in view.estate.tasks.values()})]
        points += [_dataflow_point(view, dataflow_id, at) for dataflow_id in view.records]
        HistoryPoint.objects.bulk_create(points)
    _note_nodes(view, at)
    HistoryPoint.objects.filter(at__lt=at - KEPT).delete()
    return len(points)


def _note_nodes(view: View, at: datetime) -> None:
    """When nodes were seen, what class of machine they are, by which profiles fit them or not, and how many threads
    their drivers have.

    Those that nobody knew join the estate, by a command that leaves its row.
    """
    take_in_nodes(view.reading.reports)
    NodeRow.objects.filter(name__in=list(view.reading.reports)).update(seen=at)
    for name, report in view.reading.reports.items():
        machine = report.machine[:120]
        NodeRow.objects.filter(name=name).exclude(machine=machine).update(machine=machine)
        threads = report.threads or None  # an agent of an older version does not tell
        NodeRow.objects.filter(name=name).exclude(threads=threads).update(threads=threads)


def _scope_point(view: View, scope: str, at: datetime) -> HistoryPoint:
    tasks = {
        task.id for task in view.estate.tasks.values() if task.scope == scope and is_working(view.estate, task.id)}
    sources, sinks = sources_and_sinks(view, tasks)
    apart = sum(1 for s in view.estate.submitted.values() if not s.paused
                for task in s.running.values() if task in tasks)
    return HistoryPoint(
        at=at, scope=scope, events_in_per_s=sum_rate(view, sources), events_out_per_s=sum_rate(view, sinks),
        running_tasks=len(tasks), tasks_without_reuse=apart)


def _dataflow_point(view: View, dataflow_id: str, at: datetime) -> HistoryPoint:
    totals = totals_of(view, dataflow_id)
    tasks = len(view.estate.submitted[dataflow_id].running)
    return HistoryPoint(
        at=at, dataflow_id=dataflow_id, running_tasks=tasks, tasks_without_reuse=tasks,
        events_in_per_s=totals["events_in_per_s"], events_out_per_s=totals["events_out_per_s"],
        latency_p50_ms=totals["latency_p50_ms"], latency_p99_ms=totals["latency_p99_ms"])
