"""What a dataflow costs an hour: the one place that says so, each figure by its own name.

- **estimated**: the CPU that its tasks and queries are expected to take, by what such were measured to take here; as a
  plan that submitted it now, alone, would say
- **measured**: the CPU of the same tasks as slots were measured, over the last day at most, if nobody shared them
- **pays**: its part of that, which its bill charges, and what of it is for its latency limits
- **kept**: the price of the slots that its schedule keeps, whether it uses them or not; in no bill
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Max, Sum
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.plan_in_force import plans_in_force
from dashboard.bills.models import UsageHour
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.latency_control.pacer import priced_ms_of
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import Viewer
from scheduler.model.costs import Costs
from scheduler.performance.pricing import query_cores, running_cores

MEASURED_OVER = timedelta(hours=24)
MS_IN_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class CostMeasurement:
    """What was measured of a dataflow over so many hours: CPU cores of its tasks, what they cost an hour and what of
    that it pays, and of that for its latency limits; both are None for those who may not read its bill, and the latter
    where it was not measured."""

    hours: float
    cores: float
    per_hour: float
    pays_per_hour: float | None
    latency_per_hour: float | None


@dataclass(frozen=True, slots=True)
class DataflowCost:
    """What a dataflow costs an hour, in ``currency``; what is not known is None."""

    currency: str
    cores: float  # estimated, of its tasks that work, as if nobody shared them
    cores_error: float | None  # None where nothing was measured on this class of machine
    per_hour: float
    measured_queries: int
    not_measured: tuple[str, ...]
    measured: CostMeasurement | None
    slots_kept: int
    kept_per_hour: float | None


def cost_of(viewer: Viewer, dataflow_id: UUID | str) -> DataflowCost | None:
    """What a dataflow in the estate costs an hour; None where it is in no estate.

    Raises
    ------
    NotFound
        There is no such dataflow that the viewer may know of.
    """
    record = dataflow_for(viewer, dataflow_id)
    view, costs, tariff = view_for(viewer), costs_here(), prices(record.latency_limits)
    submitted = view.estate.submitted.get(str(record.pk))
    if submitted is None:
        return None
    cores, types = 0.0, set()
    paces_ms = priced_ms_of({view.estate.places[task][0] for task in submitted.running.values()
                              if task in view.estate.places})
    for task_id in set(submitted.running.values()):
        task, place = view.estate.tasks[task_id], view.estate.places.get(task_id)
        fragment = None if place is None else view.estate.fragments[place[0]]
        if fragment is None or task_id not in fragment.active_tasks:
            continue
        paced = replace(tariff, trigger_ms=paces_ms.get(fragment.id, tariff.trigger_ms))
        cores += running_cores(task, task_types=jobs.task_types(), prices=paced)
        cores += len(fragment.queries) * query_cores(paced) / len(fragment.active_tasks)
        types.add(task.type)
    slots, kept_per_hour = _kept(str(record.pk)) if submitted.scheduled and not submitted.paused else (0, None)
    return DataflowCost(
        settings.CURRENCY, round(cores, 4), _error(costs, cores), round(cores * tariff.core_hour, 6), costs.queries,
        costs.not_measured(types) if costs.are_measured else (),
        _measured(str(record.pk), pays=viewer.superuser or record.team_id in viewer.roles), slots,
        kept_per_hour)


def _error(costs: Costs, cores: float) -> float | None:
    return round(costs.error * cores, 4) if costs.are_measured else None


def _kept(dataflow_id: str) -> tuple[int, float | None]:
    """How many slots the schedule keeps by which it runs, and what they cost an hour."""
    in_force = plans_in_force([dataflow_id]).get(dataflow_id)
    if in_force is None or not in_force.has_promise:
        return 0, None
    plan = plan_of(PlanRecord.objects.get(pk=in_force.plan_id))
    return (0, None) if plan is None or plan.promise is None else (len(plan.promise.slots), plan.promise.per_hour)


def _measured(dataflow_id: str, *, pays: bool) -> CostMeasurement | None:
    since = (timezone.now() - MEASURED_OVER).replace(minute=0, second=0, microsecond=0)
    hours = UsageHour.objects.filter(dataflow=dataflow_id, hour__gte=since).values("hour").annotate(
        needed=Max("needed_ms"), paid=Sum("cost_nanos"), alone=Sum("alone_nanos"), cpu=Sum("cpu_us"),
        limit=Sum("limit_nanos"), known=Max("limit_known_ms")).order_by()
    needed_ms = paid = alone = cpu_us = limit = known_ms = 0
    for hour in hours:
        needed_ms, known_ms = needed_ms + hour["needed"], known_ms + hour["known"]
        paid, alone, cpu_us = paid + hour["paid"], alone + hour["alone"], cpu_us + hour["cpu"]
        limit += hour["limit"]
    if not needed_ms:
        return None
    in_hours = needed_ms / MS_IN_HOUR
    unshared = alone / paid if paid else 1.0  # CPU is divided as money is
    return CostMeasurement(
        round(in_hours, 2), round(cpu_us / 1000 / needed_ms * unshared, 4), round(alone / 1e9 / in_hours, 6),
        round(paid / 1e9 / in_hours, 6) if pays else None,
        round(limit / 1e9 * MS_IN_HOUR / known_ms, 6) if pays and known_ms else None)
