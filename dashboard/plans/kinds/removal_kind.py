"""Removals on the site: a dataflow leaves the estate."""

from __future__ import annotations

from dashboard.catalog import lifecycle as dataflows
from dashboard.plans.kinds.site_plan_kind import SitePlanKind, computed_with
from dashboard.plans.models import PlanRecord
from dashboard.plans.prices import prices
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import REMOVE
from scheduler.planning import plan_removal
from scheduler.reading import Reading


def _removal(record: PlanRecord, estate: Reading) -> Plan:
    return plan_removal(estate, **computed_with(record, prices=prices(record.dataflow.latency_limits)))


REMOVAL = SitePlanKind(REMOVE, _removal, dataflows.REMOVING, (dataflows.RUNNING, dataflows.PAUSED))
