"""Schedules of running dataflows as adaptation looks at them: the one in force, and the one for another rate."""

from __future__ import annotations

from django.db.models import Q

from dashboard.catalog.models import DataflowRecord
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.models import PlanRecord
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from scheduler.controllers.bundle_adaptation import BundleOffer
from scheduler.model.errors import NotEnactable
from scheduler.model.plan_kinds import names_where


def schedule_in_force(dataflow_id: str) -> BundleOffer | None:
    """The promise of the newest plan in force that says how a dataflow runs; None where that is no schedule.

    A removal that was taken back is none: what ran before it is what runs again.
    """
    record = _newest_plan(dataflow_id)
    plan = plan_of(record) if record is not None and record.has_promise and record.options.get("schedule") else None
    if plan is None or plan.promise is None:
        return None
    choice, promise = ScheduleChoice.of(**record.options["schedule"]), plan.promise
    return BundleOffer(
        choice.pair, choice.routing, choice.rate_per_s, promise.sustained_per_s, len(promise.slots), promise.per_hour)


def schedule_for(dataflow_id: str, source_per_s: float) -> BundleOffer:
    """The schedule of a dataflow for a rate of each source, by the pair and routing of the one in force."""
    record = _newest_plan(dataflow_id)
    option = None if record is None else record.options.get("schedule")
    if option is None:
        raise NotEnactable("The dataflow runs without a schedule.", remedy="Propose one on its page.")
    choice = ScheduleChoice.of(**option)
    problem = problem_of(DataflowRecord.objects.select_related("team").get(pk=dataflow_id), routing=choice.routing)
    problem.require_open()
    scheduled = problem.schedule(choice.pair, source_per_s)
    return BundleOffer(
        choice.pair, choice.routing, source_per_s, scheduled.sustained_per_s * scheduled.job.sources, scheduled.slots,
        scheduled.acquisition.per_hour, sum(len(node.slots) for node in scheduled.acquisition.bought))


def _newest_plan(dataflow_id: str) -> PlanRecord | None:
    in_force = Q(proposal__finished_at__isnull=False, proposal__rollback_plan=None)
    return PlanRecord.objects.filter(
        in_force, dataflow=dataflow_id, kind__in=names_where("schedules")).order_by("-proposal__finished_at").first()
