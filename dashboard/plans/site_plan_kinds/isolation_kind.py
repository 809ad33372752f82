"""Isolations on the site: a slow task is cut out of a query that others need."""

from __future__ import annotations

from dashboard.catalog import lifecycle as dataflows
from dashboard.plans.models import PlanRecord
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind, computed_with
from scheduler.isolating import plan_isolation
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import ISOLATE
from scheduler.read_set import ReadTrackingView


def _isolation(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    options = record.options
    return plan_isolation(
        estate, slow=options.get("slow", ""), why=options.get("why", ""), **computed_with(record))


ISOLATION = SitePlanKind(ISOLATE, _isolation, None, (dataflows.RUNNING,))
