"""Queries that may leave their batches open: reported for running queries, inferred for others of the same shape."""

from __future__ import annotations

from collections.abc import Collection

from django.conf import settings

from dashboard import jobs
from dashboard.operations.estate_store.estate_loader import fragments_where
from dashboard.operations.estate_store.fragment_settings import slots_without_room
from dashboard.operations.latency_control.pacing_choice import PACING_CHOICE
from dashboard.operations.models import BatchFigures, RunningTaskRow
from dashboard.teams.models import Team
from scheduler.contracts.reports import RUNNING, Reports
from scheduler.controllers.batch_opening import BatchOpening
from scheduler.controllers.loop_values import OFF
from scheduler.model.errors import InvalidTransition
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan
from scheduler.model.settings_of_fragments import LEAST_THREADS, MOST_OPEN_A_SLOT, USUAL


def may_be_open() -> bool:
    """True if batches are left open here at all."""
    return settings.REAL_TIME and PACING_CHOICE.in_force().kind.leaves_batches_open


def refusals_in(reports: Reports, estate: Estate) -> dict[str, str]:
    """The reasons why queries cannot leave their batches open, empty where they can: of those that run and are not
    divided."""
    return {
        name: report.why_not_open for name, report in reports.queries()
        if report.state == RUNNING and report.why_not_open is not None
        and name in estate.fragments and not estate.fragments[name].divided}


def able_now(estate: Estate, queries: Collection[str], *, open_now: Collection[str] = ()) -> frozenset[str]:
    """The queries that may leave their batches open, as far as is known now; ``open_now`` are to do so."""
    if not may_be_open():
        return frozenset()
    refusals = refusals_in(jobs.read_live((), {}).reports, estate)
    return frozenset(query for query in queries if query in open_now or refusals.get(query) == "")


def lets_open(team: Team) -> bool:
    """True if batches of a team's new queries may stay open: its controller of open batches is not off."""
    mode = team.controllers.filter(controller=BatchOpening.name).values_list("mode", flat=True).first()
    return mode != OFF


def able_types() -> frozenset[str]:
    """The types of tasks whose queries may leave their batches open, as far as is known before one runs: those that say
    so (`TaskType.opens`), where every node's drivers have the threads for it, and those that work in such queries now.

    Whether a chain may is known when a node has compiled it: the config of a type that was seen may be what decides.
    """
    if not may_be_open():
        return frozenset()
    reports = jobs.read_live((), {}).reports
    has_threads = bool(reports) and all((report.threads or 0) >= LEAST_THREADS for report in reports.values())
    are_copied = any(report.is_to_be_copied for _, report in reports.queries())
    declared = {task_type.name for task_type in jobs.task_types().values()
                if task_type.opens and has_threads and not are_copied}
    able = [
        name for name, report in reports.queries() if report.state == RUNNING and report.why_not_open == ""]
    tasks = {
        task for fragment in (fragments_where(pk__in=able).values() if able else ()) if not fragment.divided
        for task in fragment.active_tasks}
    running_types = RunningTaskRow.objects.filter(pk__in=tasks).values_list("type", flat=True) if tasks else ()
    return frozenset(declared.union(running_types))


def why_not_set(plan: Plan) -> InvalidTransition | None:
    """The reason why a setting cannot be enacted: batches of one of its queries cannot stay open, or a slot has no room
    for more.
    """
    real_time = {
        name: settings.real_time for name, settings in plan.settings_after.items()
        if settings.real_time != plan.settings_before.get(name, USUAL).real_time}
    refused = BatchFigures.objects.filter(
        pk__in=[name for name, stays_open in real_time.items() if stays_open]).exclude(refusal="").first()
    if refused is not None:
        return InvalidTransition(
            f"The batches of {refused.pk} cannot stay open: {refused.refusal}.", remedy="Leave it as it is.")
    if full := slots_without_room(real_time):
        return InvalidTransition(
            f"{full[0]} has {MOST_OPEN_A_SLOT} queries with open batches already.",
            remedy="Move some of them to another slot first.")
    return None
