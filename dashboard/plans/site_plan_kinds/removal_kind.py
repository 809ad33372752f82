"""Removals on the site: a dataflow leaves the estate."""

from __future__ import annotations

from dashboard.catalog import lifecycle as dataflows
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind, computed_with
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import REMOVE
from scheduler.planning import plan_removal
from scheduler.read_set import ReadTrackingView


def _removal(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    return plan_removal(estate, **computed_with(record, prices=prices(record.dataflow.latency_limits)))


REMOVAL = SitePlanKind(REMOVE, _removal, dataflows.REMOVING, (dataflows.RUNNING, dataflows.PAUSED))
