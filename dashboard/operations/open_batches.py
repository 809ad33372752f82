"""Which queries may leave their batches open: nodes tell it of those that run, and by that it is guessed of others."""

from __future__ import annotations

from collections.abc import Collection

from django.conf import settings

from dashboard import jobs
from dashboard.operations.estate import fragments_where
from dashboard.operations.models import RunningTaskRow
from scheduler.contracts.reports import RUNNING, Reports
from scheduler.model.estate import Estate


def may_be_open() -> bool:
    """Whether batches are left open here at all."""
    return settings.REAL_TIME and settings.PACING != "steps"


def refusals_in(reports: Reports, estate: Estate) -> dict[str, str]:
    """Why queries cannot leave their batches open, empty where they can: of those that run and are not divided."""
    return {
        name: report.not_real_time for name, report in reports.queries()
        if report.state == RUNNING and report.not_real_time is not None
        and name in estate.fragments and not estate.fragments[name].divided}


def able_now(estate: Estate, queries: Collection[str], *, open_now: Collection[str] = ()) -> frozenset[str]:
    """Those of some queries that may leave their batches open, as far as is known now; ``open_now`` are to do so."""
    if not may_be_open():
        return frozenset()
    refusals = refusals_in(jobs.read_live((), {}).reports, estate)
    return frozenset(query for query in queries if query in open_now or refusals.get(query) == "")


def able_types() -> frozenset[str]:
    """The types of tasks that work now in queries which may leave their batches open.

    Whether a chain may is known when a node has compiled it. Of one that does not run yet it is taken to be so where
    all of its types were seen in such queries: an estimate, for a task's config may be what decides.
    """
    if not may_be_open():
        return frozenset()
    able = [
        name for name, report in jobs.read_live((), {}).reports.queries()
        if report.state == RUNNING and report.not_real_time == ""]
    if not able:
        return frozenset()
    tasks = {
        task for fragment in fragments_where(pk__in=able).values() if not fragment.divided
        for task in fragment.active_tasks}
    return frozenset(RunningTaskRow.objects.filter(pk__in=tasks).values_list("type", flat=True))
