"""The cost of a dataflow in an hour, with the figures beside it: each by its own name.

- **whole**: all that executes it, as if nobody shared it, or would if it worked; an estimate, measured or billed
- **pays**: its part of that; and what of its bill is for its latency limits
- **planned**: what the plan said by which its version came
- **kept**: the price of the slots that its schedule keeps, whether it uses them or not; in no bill
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Max, Sum
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.plan_in_force import plans_in_force
from dashboard.bills.models import UsageHour
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.plans.dataflow_figures import figures_of, planned_figure
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import tariff
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import Viewer
from scheduler.model.cost_figures import CostFigure
from scheduler.model.plan_kinds import names_where
from scheduler.performance.alternates_at_work import AlternatesAtWork

BILLED_OVER = timedelta(hours=24)
MS_IN_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class DataflowCost:
    """The cost of a dataflow in an hour, in ``currency``; what is not known, or not for the viewer, is None."""

    currency: str
    works: bool  # False before it runs, and while it is paused: then it is what it would cost
    whole: CostFigure  # all that executes it, as if nobody shared it
    pays: CostFigure | None  # its part of that
    planned: CostFigure | None  # of the whole, by the plan of its version; None before it runs
    latency_per_hour: float | None  # of what it paid in the last day, for its latency limits
    measured_queries: int  # that estimates rest on
    not_measured: tuple[str, ...]  # types of its tasks that are as declared, where others were measured
    slots_kept: int
    kept_per_hour: float | None


def cost_of(viewer: Viewer, dataflow_id: UUID | str) -> DataflowCost | None:
    """The hourly cost of a dataflow in the estate, or of one that is to come; None where nothing is known of it."""
    record = dataflow_for(viewer, dataflow_id)
    estate, costs = view_for(viewer).estate, costs_here()
    figures, submitted = figures_of(estate, record), estate.submitted.get(str(record.pk))
    if figures is None:
        return None
    types = set() if submitted is None else AlternatesAtWork(
        estate, task_types=jobs.task_types(), prices=tariff()).types(submitted.running.values())
    works = submitted is not None and not submitted.paused
    reads_bill = viewer.superuser or record.team_id in viewer.roles
    slots, kept_per_hour = _kept_slots(str(record.pk)) if works and submitted.scheduled else (0, None)
    return DataflowCost(
        settings.CURRENCY, works, figures.whole, figures.part if reads_bill and submitted is not None else None,
        None if submitted is None else _planned(record), _for_latency(record) if reads_bill else None, costs.queries,
        costs.not_measured(types) if costs.are_measured else (), slots, kept_per_hour)


def _planned(record: DataflowRecord) -> CostFigure | None:
    proposal = Proposal.objects.in_effect().filter(
        dataflow=record, plan__kind__in=names_where("has_document")).order_by("-finished_at").first()
    return None if proposal is None else planned_figure(record, plan_record=proposal.plan)


def _kept_slots(dataflow_id: str) -> tuple[int, float | None]:
    """The number of slots that the schedule keeps by which it runs, and their hourly price."""
    in_force = plans_in_force([dataflow_id]).get(dataflow_id)
    if in_force is None or not in_force.has_promise:
        return 0, None
    plan = plan_of(PlanRecord.objects.get(pk=in_force.plan_id))
    return (0, None) if plan is None or plan.promise is None else (len(plan.promise.slots), plan.promise.per_hour)


def _for_latency(record: DataflowRecord) -> float | None:
    since = (timezone.now() - BILLED_OVER).replace(minute=0, second=0, microsecond=0)
    hours = UsageHour.objects.filter(dataflow=record, hour__gte=since).values("hour").annotate(
        limit=Sum("limit_nanos"), known=Max("limit_known_ms")).values_list("limit", "known").order_by()
    known_ms = sum(hour_ms for _, hour_ms in hours)
    return round(sum(limit for limit, _ in hours) / 1e9 * MS_IN_HOUR / known_ms, 6) if known_ms else None
