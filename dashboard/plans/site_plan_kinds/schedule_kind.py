"""Schedules of what runs, on the site."""

from __future__ import annotations

from dashboard.catalog import lifecycle as dataflows
from dashboard.plans.defragment_evidence import left_bundles
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices
from dashboard.plans.schedule_option import schedule_of
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind, computed_with
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import SCHEDULE
from scheduler.read_set import ReadTrackingView
from scheduler.rescheduling import plan_schedule


def _scheduling(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    schedule, remarks = schedule_of(record, estate, dict(record.options))
    return plan_schedule(
        estate, schedule=schedule, left_bundles=left_bundles(), remarks=remarks,
        **computed_with(record, prices=prices()))


SCHEDULING = SitePlanKind(SCHEDULE, _scheduling, None, (dataflows.RUNNING,))
