"""Queries that one task holds up while others need a part of them: watched until the slow task is known.

The notes are measurements, so they are not audited.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from dashboard import jobs
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.models import CutTask, SlowQuery
from scheduler.contracts.reports import RUNNING, QueryReport, Reports
from scheduler.latency.real_time import stays_open_s
from scheduler.latency.triggers import BUSY
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment
from scheduler.reuse.isolation import SlowTask, is_needed_in_part, slow_task


def watch(reports: Reports, *, at: datetime) -> None:
    """Note since when queries are slow, and where their meters stood then."""
    estate = current_estate()
    behind = _behind(estate, reports)
    noted = set(SlowQuery.objects.values_list("pk", flat=True))
    if over := noted.difference(behind):
        SlowQuery.objects.filter(pk__in=over).delete()
    begun = {name: fragment for name, fragment in behind.items() if name not in noted}
    if begun:
        at_ms, counts = jobs.meters(begun)
        SlowQuery.objects.bulk_create(
            [SlowQuery(fragment=name, since=at, at_ms=at_ms, counts=counts[name]) for name in begun if name in counts],
            ignore_conflicts=True)


def is_due(*, at: datetime) -> bool:
    """True if a query has been slow for longer than a reader may hold back others."""
    return _due(at).exists()


def slow_tasks(estate: Estate, *, at: datetime) -> list[SlowTask]:
    """The tasks that make such queries slow, by what passed since they are."""
    chains = [(estate.fragments[row.pk], row) for row in _due(at).order_by("pk") if row.pk in estate.fragments]
    slow = [slow_task(fragment, _latencies(fragment, row), least_ms=2 * settings.TRIGGER_MS)
            for fragment, row in chains]
    return [task for task in slow if task is not None]


def _due(at: datetime) -> QuerySet[SlowQuery]:
    return SlowQuery.objects.filter(since__lte=at - timedelta(seconds=settings.HOLD_S))


def note_why_not(slow: SlowTask, why_not: str) -> None:
    """Keep why a slow task cannot be cut out of its query, for those who wait for it."""
    SlowQuery.objects.filter(pk=slow.fragment.id).update(slow=slow.task, why_not=why_not)


def stuck_queries() -> dict[str, SlowQuery]:
    """The slow queries of which no task can be cut out, by fragment."""
    return SlowQuery.objects.exclude(why_not="").in_bulk()


def cut_tasks() -> frozenset[str]:
    """The running tasks that were cut out of a query because they were too slow for it."""
    return frozenset(CutTask.objects.values_list("pk", flat=True))


def _behind(estate: Estate, reports: Reports) -> dict[str, Fragment]:
    """The chains that fall behind and of which some tasks have fewer users than others."""
    behind: dict[str, Fragment] = {}
    throttled = {query.throttled_by for _, query in reports.queries() if query.throttled_by}
    spilled = {reader for node in reports.values() for reader in node.spills}
    for name, query in reports.queries():
        fragment = estate.fragments.get(name)
        if fragment is None or query.state != RUNNING or not is_needed_in_part(estate, fragment):
            continue
        holds_back = name in spilled or any(
            estate.channel_of(parent) in throttled for parent in estate.tasks[fragment.tasks[0]].parents)
        if holds_back or _is_late(estate, fragment, query):
            behind[name] = fragment
    return behind


def _is_late(estate: Estate, fragment: Fragment, query: QueryReport) -> bool:
    """True if a query's batches keep others waiting, or its source makes fewer events than it should."""
    hold_ms = 1000 * settings.HOLD_S
    if max(query.batch_ms or 0, query.batch_for_ms or 0) >= hold_ms:
        return True
    rate_per_s = estate.tasks[fragment.tasks[0]].config.get("rate_per_s")
    working_ms = (query.batch_ms or 0) - query.phases_ms.get("asking", 0)  # most of which is waiting for the next one
    # An open batch is busy only where it hardly waits: its interval is that of its groups.
    stays_s = stays_open_s(query.rate_per_s or 0.0)
    most_ms = 1000 * stays_s * BUSY if query.real_time else 2 * max(settings.TRIGGER_MS, query.trigger_ms or 0)
    is_busy = working_ms > most_ms
    return bool(
        is_busy and rate_per_s and query.rate_per_s is not None and query.rate_per_s < 0.9 * float(rate_per_s)
        and not query.throttled_by)


def _latencies(fragment: Fragment, row: SlowQuery) -> list[float | None]:
    """Median latency behind each task of what has passed since the query fell behind."""
    flows: Mapping[str, jobs.observed.TaskFlow] = jobs.flows_since(row.at_ms, {fragment.id: row.counts}, fragment)
    return [flows[task].latency_p50_ms if task in flows else None for task in fragment.active_tasks]
